//! Every callback of the loop doing everything the loop allows, and some things it does not.
//!
//! The tests are one table: a row for each callback, a column for each action. In each cell a small world (two
//! connections, a server, timers, readers, writers, handles) is brought to the callback, which does the action once; then
//! the world is wound down. In the end everything has happened that was to happen, nothing has happened twice, every
//! connection was lost once, what was sent has arrived, and the loop and the process hold what they held before.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod action;
mod bystanders;
mod world;

use action::Action;
use test_support::{On, guarded};
use world::World;

/// Where an action is done.
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
    guarded(|| {
        for on in On::ALL {
            for action in Action::ALL {
                World::new(on, callback, action).play();
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

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(test_support::DELIBERATE);
    }
}

#[test]
fn closing_a_loop_survives_whatever_is_dropped_with_it() {
    guarded(|| {
        for on in On::ALL {
            let stage = support::Stage::new(on, format!("destructors that panic on {on:?}"));
            let event_loop = &stage.event_loop;
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let carry = |bomb: Bomb| {
                move || {
                    let _carried = &bomb;
                }
            };
            for _ in 0..2 {
                event_loop.call_soon(carry(Bomb)).unwrap();
                event_loop.call_later(std::time::Duration::from_secs(1), carry(Bomb)).unwrap();
                let bomb = Bomb;
                let task = event_loop.spawn(async move {
                    let _bomb = bomb;
                    std::future::pending::<()>().await;
                });
                drop(task.unwrap());
            }
            for socket in [&near, &far] {
                event_loop.add_reader(socket, carry(Bomb)).unwrap();
                event_loop.add_writer(socket, carry(Bomb)).unwrap();
            }
            let remote = event_loop.remote();
            let sending = std::thread::spawn(move || {
                for _ in 0..2 {
                    remote.call_soon_threadsafe(carry(Bomb)).unwrap();
                }
            });
            sending.join().unwrap();
            event_loop.close().unwrap();
            assert_eq!(event_loop.metrics(), Default::default(), "{}", stage.name());
            assert_eq!(stage.reports.take().len(), 12, "{}: each is reported", stage.name());
        }
    });
}
