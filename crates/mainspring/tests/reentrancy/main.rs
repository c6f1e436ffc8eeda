//! Every callback performs every action that the loop allows, and some that it refuses.
//!
//! The tests form a table: a row for each callback, a column for each action. Each cell sets up a scenario (two
//! connections, a server, timers, readers, writers, handles) and triggers the callback, which performs the action once.
//! Then everything is closed. At the end every callback ran once, every connection was lost once, all sent data was
//! received, and the loop and the process hold the same resources as before.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod action;
mod pending_callbacks;
mod scenario;

use action::Action;
use scenario::Scenario;
use test_support::{TestBackend, isolated};

/// The callback that performs the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    ConnectionMade,
    DataReceived,
    EofReceived,
    EofReceivedKeepingOpen,
    ConnectionLost,
    PauseWriting,
    ResumeWriting,
    Reader,
    Writer,
    Timer,
    SignalHandler,
    CallSoon,
    DoneCallback,
    ExceptionHandler,
}

fn every_action_in(callback: Callback) {
    isolated(|| {
        for on in TestBackend::ALL {
            for action in Action::ALL {
                Scenario::new(on, callback, action).run();
            }
        }
    });
}

macro_rules! rows {
    ($($test:ident: $callback:ident,)*) => {
        $(#[test]
        fn $test() {
            every_action_in(Callback::$callback);
        })*
    };
}

rows! {
    connection_made_may_do_anything: ConnectionMade,
    data_received_may_do_anything: DataReceived,
    eof_received_may_do_anything: EofReceived,
    eof_received_that_keeps_the_connection_may_do_anything: EofReceivedKeepingOpen,
    connection_lost_may_do_anything: ConnectionLost,
    pause_writing_may_do_anything: PauseWriting,
    resume_writing_may_do_anything: ResumeWriting,
    a_reader_may_do_anything: Reader,
    a_writer_may_do_anything: Writer,
    a_timer_may_do_anything: Timer,
    a_signal_handler_may_do_anything: SignalHandler,
    a_callback_may_do_anything: CallSoon,
    a_done_callback_may_do_anything: DoneCallback,
    an_exception_handler_may_do_anything: ExceptionHandler,
}

/// Panics on drop.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(test_support::DELIBERATE);
    }
}

#[test]
fn closing_a_loop_survives_destructors_that_panic() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = support::TestLoop::new(on, format!("destructors that panic on {on:?}"));
            let event_loop = &test_loop.event_loop;
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let holding = |value: PanicsOnDrop| {
                move || {
                    let _carried = &value;
                }
            };
            for _ in 0..2 {
                event_loop.call_soon(holding(PanicsOnDrop)).unwrap();
                event_loop.call_later(std::time::Duration::from_secs(1), holding(PanicsOnDrop)).unwrap();
                let value = PanicsOnDrop;
                let task = event_loop.spawn(async move {
                    let _bomb = value;
                    std::future::pending::<()>().await;
                });
                drop(task.unwrap());
            }
            for socket in [&near, &far] {
                event_loop.add_reader(socket, holding(PanicsOnDrop)).unwrap();
                event_loop.add_writer(socket, holding(PanicsOnDrop)).unwrap();
            }
            let remote = event_loop.remote();
            let sending = std::thread::spawn(move || {
                for _ in 0..2 {
                    remote.call_soon_threadsafe(holding(PanicsOnDrop)).unwrap();
                }
            });
            sending.join().unwrap();
            event_loop.close().unwrap();
            assert_eq!(event_loop.metrics(), Default::default(), "{}", test_loop.name());
            assert_eq!(test_loop.reports.take().len(), 12, "{}: each is reported", test_loop.name());
        }
    });
}
