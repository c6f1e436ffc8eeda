//! A loop in a forked child process. The tests do not fork: they run the child's part of the fork in this process, and
//! observe the kernel objects from before.

use crate::host::{TestLoop, Watch, pipe};
use mainspring_engine::Direction;
use mainspring_engine::testing::{FakePoller, Op};
use mainspring_engine::transport::ReadPipe;
use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use test_support::{TestBackend, isolated};

#[test]
fn a_detached_loop_does_not_touch_its_former_back_end() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake);
        let (read_end, write_end) = pipe();
        let (reader, recorder) = test_loop.reader(read_end);
        test_loop.run_iterations(2);
        test_loop.control.take_log();

        let (fresh, fresh_control) = TestBackend::Fake.open();
        test_loop.engine.after_fork(|| Ok(fresh)).unwrap();
        rustix::io::write(&write_end, b"abc").unwrap();
        test_loop.until("the data arrives", || recorder.count("data") == 1);
        reader.with(ReadPipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(test_loop.control.take_log(), []);
        assert!(fresh_control.take_log().iter().any(|entry| entry.call.op() == Op::Read));
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn registrations_and_scheduled_calls_survive_the_fork() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll);
        let (read_end, write_end) = pipe();
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        let watch = Watch(Rc::new(move || counted.set(counted.get() + 1)));
        assert!(
            test_loop
                .engine
                .watch(read_end.as_raw_fd(), Direction::Inbound, watch.clone())
                .unwrap()
                .is_none()
        );
        test_loop.engine.call_soon(watch.into());
        test_loop.engine.after_fork(|| Ok(TestBackend::Epoll.open().0)).unwrap();
        test_loop.run_once();
        assert_eq!(calls.get(), 1, "the scheduled call");
        rustix::io::write(&write_end, b"x").unwrap();
        test_loop.until("the watch is called", || calls.get() > 1);
        test_loop.engine.unwatch(read_end.as_raw_fd(), Direction::Inbound).unwrap();
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_detached_loop_has_its_own_wake_up_and_signal_fds() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll);
        let before = test_loop.engine.signal_pipe().unwrap();
        test_loop.engine.after_fork(|| Ok(TestBackend::Epoll.open().0)).unwrap();
        // Kept alive above, so that its fd number is not reused.
        assert_ne!(test_loop.engine.signal_pipe().unwrap().write_fd(), before.write_fd());
        test_loop.engine.inbox().wake();
        test_loop.run_iterations(2);
        let inbox = test_loop.engine.inbox().clone();
        let waker = std::thread::spawn(move || inbox.push(()).is_ok());
        assert!(waker.join().unwrap());
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_loop_that_cannot_reopen_its_fds_can_only_be_closed() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake);
        let (read_end, _write_end) = pipe();
        let (_reader, _told) = test_loop.reader(read_end);
        test_loop.run_iterations(2);
        test_loop.control.take_log();
        let refused = || Err(io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(test_loop.engine.after_fork(refused).unwrap_err().raw_os_error(), Some(libc::EMFILE));
        test_loop.engine.stop();
        assert!(test_loop.engine.run_forever().is_err());
        assert_eq!(test_loop.engine.close().len(), 1);
        assert_eq!(test_loop.control.take_log(), []);
        test_loop.engine.after_fork(|| Ok(FakePoller::open().unwrap().0)).unwrap();
        assert!(test_loop.engine.is_closed());
    });
}
