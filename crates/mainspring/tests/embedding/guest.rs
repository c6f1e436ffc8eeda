//! Guest mode.

use crate::Log;
use mainspring::testing::Options;
use mainspring::{Builder, Error, EventLoop, Guest, Time, sleep};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// One turn without waiting. Returns whether the loop was not stopped.
fn turn(guest: &Guest) -> bool {
    guest.process_events(guest.poll_events(Some(Duration::ZERO)).unwrap()).unwrap();
    guest.process_ready().unwrap()
}

/// Waits as a host does, for the guest's descriptor.
fn wait(guest: &Guest, timeout: Option<Duration>) -> bool {
    let mut fd =
        libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(guest), events: libc::POLLIN, revents: 0 };
    let millis = timeout.unwrap_or(LIMIT).as_millis().min(LIMIT.as_millis()) as i32;
    // SAFETY: one valid structure.
    unsafe { libc::poll(&raw mut fd, 1, millis) > 0 }
}

#[test]
fn a_host_that_polls_runs_tasks_with_timers_and_sockets() {
    let event_loop = EventLoop::new().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let task = event_loop
        .spawn(async move {
            sleep(Duration::from_millis(1)).await;
            EventLoop::current().sock_recv(&ours, 100).await.unwrap()
        })
        .unwrap();
    let guest = event_loop.guest().unwrap();
    let mut turns = 0;
    while !task.is_finished() {
        let timeout = guest.next_timeout();
        if timeout.is_none() && turns < 1000 {
            theirs.write_all(b"hello").unwrap();
            assert!(wait(&guest, timeout));
        } else {
            wait(&guest, timeout);
        }
        assert!(turn(&guest));
        turns += 1;
    }
    assert_eq!(event_loop.run_until_complete(task).unwrap().unwrap(), b"hello");
}

#[test]
fn what_the_host_schedules_makes_the_descriptor_readable() {
    let event_loop = EventLoop::new().unwrap();
    let guest = event_loop.guest().unwrap();
    let log = Log::default();
    assert_eq!(guest.next_timeout(), None);
    assert!(!wait(&guest, Some(Duration::ZERO)));
    event_loop.call_soon(log.noting("call")).unwrap();
    assert!(wait(&guest, Some(Duration::ZERO)));
    assert!(turn(&guest));
    assert_eq!(guest.next_timeout(), None);
    let future = event_loop.create_future::<()>();
    let _timer = event_loop.call_later(Duration::from_secs(3600), || ()).unwrap();
    assert!(wait(&guest, Some(Duration::ZERO)));
    assert!(turn(&guest));
    let awaited = future.clone();
    let done = log.clone();
    let _task = event_loop.spawn(async move {
        awaited.await.unwrap();
        done.note("future");
    });
    assert!(turn(&guest));
    assert!(guest.next_timeout().is_some_and(|timeout| timeout > Duration::ZERO));
    future.set_result(()).unwrap();
    assert!(wait(&guest, Some(Duration::ZERO)));
    while log.0.borrow().len() < 2 {
        assert!(turn(&guest));
    }
    assert_eq!(log.take(), ["call", "future"]);
}

#[test]
fn a_call_of_another_thread_makes_the_descriptor_readable() {
    let event_loop = EventLoop::new().unwrap();
    let guest = event_loop.guest().unwrap();
    let remote = event_loop.remote();
    assert_eq!(guest.next_timeout(), None);
    let thread = std::thread::spawn(move || remote.stop());
    assert!(wait(&guest, None));
    thread.join().unwrap().unwrap();
    assert!(!turn(&guest));
    assert!(turn(&guest));
}

#[test]
fn the_guest_is_the_running_loop_only_in_its_callbacks() {
    let (host, inner) = (EventLoop::builder().name("host").build().unwrap(), EventLoop::new().unwrap());
    let guest = Rc::new(inner.guest().unwrap());
    let log = Log::default();
    let name = log.clone();
    inner.call_soon(move || name.note(format!("guest: {:?}", EventLoop::current().name()))).unwrap();
    host.run_until_complete(async {
        assert_eq!(guest.next_timeout(), Some(Duration::ZERO));
        turn(&guest);
        log.note(format!("host: {:?}", EventLoop::current().name()));
    })
    .unwrap();
    assert_eq!(log.take(), ["guest: \"\"", "host: \"host\""]);
    assert!(EventLoop::try_current().is_none());
}

/// The host is a mainspring loop: its reader and its timer drive the guest.
#[test]
fn a_loop_drives_another_one() {
    let (host, inner) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let guest = Rc::new(inner.guest().unwrap());
    let task = Rc::new(inner.spawn(sleep(Duration::from_millis(2))).unwrap());
    fn drive(host: &EventLoop, guest: &Rc<Guest>, is_over: Rc<dyn Fn() -> bool>) {
        turn(guest);
        if is_over() {
            return host.stop();
        }
        if let Some(timeout) = guest.next_timeout() {
            let (next_host, guest) = (host.clone(), Rc::clone(guest));
            drop(host.call_later(timeout, move || drive(&next_host, &guest, is_over)).unwrap());
        }
    }
    let (finished, watched, own) = (Rc::clone(&task), Rc::clone(&guest), host.clone());
    let is_over: Rc<dyn Fn() -> bool> = Rc::new(move || finished.is_finished());
    let on_readable = Rc::clone(&is_over);
    host.add_reader(&*guest, move || drive(&own, &watched, Rc::clone(&on_readable))).unwrap();
    drive(&host, &guest, is_over);
    host.run_forever().unwrap();
    assert!(task.is_finished());
    assert!(host.remove_reader(&*guest).unwrap());
    host.close().unwrap();
}

#[test]
fn a_callback_that_turns_the_guest_is_a_nested_run() {
    let event_loop = EventLoop::new().unwrap();
    let guest = Rc::new(event_loop.guest().unwrap());
    let log = Log::default();
    let (inner, inner_log) = (Rc::clone(&guest), log.clone());
    event_loop
        .call_soon(move || {
            turn(&inner);
            inner_log.note("dialog closed");
        })
        .unwrap();
    event_loop.call_soon(log.noting("served")).unwrap();
    assert!(turn(&guest));
    assert_eq!(log.take(), ["served", "dialog closed"]);
}

#[test]
fn hooks_surround_each_turn() {
    let log = Log::default();
    let builder = Builder::new().on_iteration_begin(log.noting("begin"));
    let event_loop = builder.on_iteration_end(log.noting("end")).build().unwrap();
    turn(&event_loop.guest().unwrap());
    assert_eq!(log.take(), ["begin", "end"]);
}

#[test]
fn the_guest_of_a_closed_loop_refuses() {
    let event_loop = EventLoop::new().unwrap();
    let guest = event_loop.guest().unwrap();
    event_loop.close().unwrap();
    assert!(matches!(event_loop.guest(), Err(Error::Closed)));
    assert!(matches!(guest.poll_events(None), Err(Error::Closed)));
    assert!(matches!(guest.process_events(Default::default()), Err(Error::Closed)));
    assert!(matches!(guest.process_ready(), Err(Error::Closed)));
    assert_eq!(guest.next_timeout(), None);
}

#[test]
fn a_guest_turn_does_not_read_what_it_was_not_told_to() {
    let event_loop = EventLoop::new().unwrap();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let called = Rc::new(Cell::new(0));
    let count = Rc::clone(&called);
    event_loop.add_reader(&ours, move || count.set(count.get() + 1)).unwrap();
    let guest = event_loop.guest().unwrap();
    theirs.write_all(b"x").unwrap();
    // Dropped events are reported again.
    assert_eq!(guest.poll_events(Some(LIMIT)).unwrap().len(), 1);
    assert!(guest.process_ready().unwrap());
    assert_eq!(called.get(), 0);
    assert!(turn(&guest));
    assert_eq!(called.get(), 1);
    ours.read_exact(&mut [0]).unwrap();
    assert!(guest.poll_events(Some(Duration::ZERO)).unwrap().is_empty());
    assert!(event_loop.remove_reader(&ours).unwrap());
}

#[test]
fn a_virtual_clock_moves_when_the_host_has_waited_for_as_long_as_the_timer_needs() {
    let event_loop = Options::new().build().unwrap();
    let guest = event_loop.guest().unwrap();
    let delay = Duration::from_millis(20);
    let _far = event_loop.call_later(100 * delay, || ()).unwrap();
    let task = event_loop.spawn(sleep(delay)).unwrap();
    assert!(turn(&guest));
    // Two waits count together.
    assert!(guest.next_timeout().is_some_and(|timeout| timeout <= delay));
    wait(&guest, Some(delay / 2));
    assert!(guest.next_timeout().is_some_and(|timeout| timeout <= delay / 2));
    while !task.is_finished() {
        wait(&guest, guest.next_timeout());
        assert!(turn(&guest));
    }
    assert_eq!(event_loop.time(), Time::ZERO + delay);
    // So does a wait of the loop itself.
    let task = event_loop.spawn(sleep(delay)).unwrap();
    while !task.is_finished() {
        guest.process_events(guest.poll_events(Some(LIMIT).min(guest.next_timeout())).unwrap()).unwrap();
        guest.process_ready().unwrap();
    }
    assert_eq!(event_loop.time(), Time::ZERO + 2 * delay);
}
