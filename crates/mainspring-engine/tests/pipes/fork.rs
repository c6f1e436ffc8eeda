//! A loop that finds itself in a child process. Nothing is forked here: what the child's copy of a loop does after the
//! fork is done in this process, and the kernel objects that it had before are watched.

use crate::face::{Bench, Watch, backend, pipe};
use mainspring_engine::Direction;
use mainspring_engine::testing::{FakePoller, Op};
use mainspring_engine::transport::ReadPipe;
use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use test_support::{On, guarded};

#[test]
fn nothing_that_a_parted_loop_does_reaches_the_back_end_it_had_before() {
    guarded(|| {
        let bench = Bench::new(On::Fake);
        let (read_end, write_end) = pipe();
        let (reader, told) = bench.reader(read_end);
        bench.passes(2);
        bench.control.take_log();

        let (fresh, fresh_control) = backend(On::Fake);
        bench.engine.after_fork(|| Ok(fresh)).unwrap();
        rustix::io::write(&write_end, b"abc").unwrap();
        bench.until("the data comes", || told.count("data") == 1);
        reader.with(ReadPipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(bench.control.take_log(), []);
        assert!(fresh_control.take_log().iter().any(|entry| entry.call.op() == Op::Read));
        bench.assert_idle(&[]);
    });
}

#[test]
fn what_watched_and_what_was_scheduled_goes_on() {
    guarded(|| {
        let bench = Bench::new(On::Epoll);
        let (read_end, write_end) = pipe();
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        let watch = Watch(Rc::new(move || counted.set(counted.get() + 1)));
        assert!(
            bench.engine.watch(read_end.as_raw_fd(), Direction::Inbound, watch.clone()).unwrap().is_none()
        );
        bench.engine.call_soon(watch.into());
        bench.engine.after_fork(|| Ok(backend(On::Epoll).0)).unwrap();
        bench.pass();
        assert_eq!(calls.get(), 1, "the scheduled call");
        rustix::io::write(&write_end, b"x").unwrap();
        bench.until("the watch is called", || calls.get() > 1);
        bench.engine.unwatch(read_end.as_raw_fd(), Direction::Inbound).unwrap();
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_parted_loop_has_descriptors_of_its_own_and_is_woken_by_them() {
    guarded(|| {
        let bench = Bench::new(On::Epoll);
        let before = bench.engine.signal_pipe().unwrap();
        bench.engine.after_fork(|| Ok(backend(On::Epoll).0)).unwrap();
        // Held above, so that its number is not used again.
        assert_ne!(bench.engine.signal_pipe().unwrap().write_fd(), before.write_fd());
        bench.engine.inbox().wake();
        bench.passes(2);
        let inbox = bench.engine.inbox().clone();
        let waker = std::thread::spawn(move || inbox.push(()).is_ok());
        assert!(waker.join().unwrap());
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_loop_for_which_no_descriptors_are_left_can_be_closed_and_nothing_else() {
    guarded(|| {
        let bench = Bench::new(On::Fake);
        let (read_end, _write_end) = pipe();
        let (_reader, _told) = bench.reader(read_end);
        bench.passes(2);
        bench.control.take_log();
        let refused = || Err(io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(bench.engine.after_fork(refused).unwrap_err().raw_os_error(), Some(libc::EMFILE));
        bench.engine.stop();
        assert!(bench.engine.run_forever().is_err());
        assert_eq!(bench.engine.close().len(), 1);
        assert_eq!(bench.control.take_log(), []);
        bench.engine.after_fork(|| Ok(FakePoller::open().unwrap().0)).unwrap();
        assert!(bench.engine.is_closed());
    });
}
