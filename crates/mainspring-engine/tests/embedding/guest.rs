//! Guest mode: another loop drives this one.

use crate::{Notes, call, new_engine, noting, stopping};
use mainspring_engine::poller::{Event, Interest, Key, Parker, Poller, open_epoll};
use mainspring_engine::{Direction, Engine};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A driver that waits with an epoll of its own.
struct Driver {
    _poller: Box<dyn Poller>,
    parker: Box<dyn Parker>,
}

impl Driver {
    fn new(engine: &Engine<Notes>) -> Self {
        let backend = open_epoll().unwrap();
        let mut poller = backend.poller;
        let key = Key { slot: 0, generation: 1 };
        poller.update(engine.pollable_fd().unwrap(), key, Interest::NONE, Interest::READ).unwrap();
        Driver { _poller: poller, parker: backend.parker }
    }

    /// Whether the fd is readable within `timeout`.
    fn wait(&mut self, timeout: Duration) -> bool {
        let mut events: Vec<Event> = Vec::new();
        self.parker.park(Some(timeout), usize::MAX, &mut events).unwrap();
        !events.is_empty()
    }

    fn is_woken(&mut self) -> bool {
        self.wait(Duration::ZERO)
    }
}

/// One turn without waiting. Returns whether the loop was not stopped.
fn turn(engine: &Engine<Notes>) -> bool {
    let events = engine.poll_events(Some(Duration::ZERO)).unwrap();
    engine.process_events(events).unwrap();
    engine.process_ready().unwrap()
}

#[test]
fn the_timeout_is_zero_with_ready_calls_the_deadline_with_timers_and_else_unlimited() {
    let engine = new_engine();
    assert_eq!(engine.next_timeout(), None);
    engine.call_at(engine.now() + LIMIT, noting("late"));
    assert!(engine.next_timeout().is_some_and(|timeout| timeout > Duration::ZERO && timeout <= LIMIT));
    engine.call_soon(noting("a"));
    assert_eq!(engine.next_timeout(), Some(Duration::ZERO));
    assert!(turn(&engine));
    assert_eq!(engine.host().take(), ["a"]);
    assert!(engine.next_timeout().is_some_and(|timeout| timeout > Duration::ZERO));
}

#[test]
fn a_call_a_timer_and_a_stop_of_the_driver_s_thread_make_the_fd_readable() {
    let engine = new_engine();
    let mut driver = Driver::new(&engine);
    let actions: [fn(&Engine<Notes>); 3] = [
        |engine| engine.call_soon(noting("call")),
        |engine| {
            engine.call_at(engine.now(), noting("timer"));
        },
        Engine::stop,
    ];
    for (number, act) in actions.into_iter().enumerate() {
        assert_eq!(engine.next_timeout(), None);
        assert!(!driver.is_woken());
        act(&engine);
        assert!(driver.is_woken(), "action {number}");
        assert_eq!(turn(&engine), number != 2);
        assert!(!driver.is_woken(), "action {number}");
    }
    assert_eq!(engine.host().take(), ["call", "timer"]);
    assert_eq!(engine.next_timeout(), None, "the stop has ended");
}

#[test]
fn an_item_of_another_thread_makes_the_fd_readable() {
    let engine = new_engine();
    let mut driver = Driver::new(&engine);
    for _ in 0..3 {
        assert_eq!(engine.next_timeout(), None);
        let inbox = Arc::clone(engine.inbox());
        let sender = std::thread::spawn(move || inbox.push("sent").unwrap());
        assert!(driver.wait(LIMIT));
        sender.join().unwrap();
        assert!(turn(&engine));
        assert_eq!(engine.host().take(), ["sent"]);
    }
}

#[test]
fn an_item_that_arrives_between_two_waits_makes_the_timeout_zero() {
    let engine = new_engine();
    engine.inbox().push("sent").unwrap();
    assert_eq!(engine.next_timeout(), Some(Duration::ZERO));
    assert!(turn(&engine));
    assert_eq!(engine.host().take(), ["sent"]);
}

#[test]
fn events_that_are_not_processed_are_reported_again() {
    let engine = new_engine();
    let mut driver = Driver::new(&engine);
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let watch = call(|engine| engine.host().note("readable"));
    assert!(engine.watch(reader.as_raw_fd(), Direction::Inbound, watch).is_ok());
    assert_eq!(engine.next_timeout(), None);
    assert!(!driver.is_woken());
    std::io::Write::write_all(&mut &writer, b"x").unwrap();
    assert!(driver.wait(LIMIT));
    assert_eq!(engine.poll_events(Some(Duration::ZERO)).unwrap().len(), 1);
    assert!(turn(&engine));
    assert_eq!(engine.host().take(), ["readable"]);
}

#[test]
fn poll_events_does_not_wait_while_a_call_is_ready() {
    let engine = new_engine();
    engine.call_soon(stopping());
    assert!(engine.poll_events(None).unwrap().is_empty());
    assert!(!engine.process_ready().unwrap());
}

#[test]
fn a_normal_run_follows_a_wait_of_the_driver() {
    let engine = new_engine();
    assert_eq!(engine.next_timeout(), None);
    engine.call_at(engine.now() + Duration::from_millis(1), stopping());
    engine.run_forever().unwrap();
    assert_eq!(engine.next_timeout(), None);
    drop(engine.close());
    assert!(engine.pollable_fd().is_none());
    assert!(engine.process_ready().is_err());
    assert!(engine.poll_events(None).is_err());
}
