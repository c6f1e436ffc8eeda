//! Tests that need private access.

use super::EventLoop;
use crate::host::{Call, Inbound};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Another thread is waking a task, and owns its step, when the loop begins to close.
#[test]
fn close_waits_for_a_step_in_flight_and_drops_its_future_on_the_loop_thread() {
    struct Dropped(Rc<Cell<bool>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let event_loop = EventLoop::new().unwrap();
    let is_dropped = Rc::new(Cell::new(false));
    let dropped = Dropped(Rc::clone(&is_dropped));
    let task = event_loop.spawn(async move { drop(dropped) }).unwrap();
    let step = event_loop.core().engine.take_ready().into_iter().find_map(|call| match call {
        Call::Task(step) => Some(step),
        _ => None,
    });
    let inbox = Arc::clone(event_loop.core().inbox());
    let (closed, is_closed) = mpsc::channel();
    let waking = std::thread::spawn(move || {
        // A loop that does not wait closes within this time.
        let waited = is_closed.recv_timeout(Duration::from_millis(50));
        let pushed = inbox.push(Inbound::Task(step.unwrap()));
        let is_taken = pushed.map_err(|refused| std::mem::forget(refused.0)).is_ok();
        (waited, is_taken)
    });
    event_loop.close().unwrap();
    let _ = closed.send(());
    assert_eq!(waking.join().unwrap(), (Err(RecvTimeoutError::Timeout), true));
    assert!(is_dropped.get() && task.is_finished());
}
