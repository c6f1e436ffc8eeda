//! Signals that are awaited.
//!
//! ```
//! use mainspring::signal::{SignalKind, signal};
//!
//! # mainspring::run(async {
//! let mut hangup = signal(SignalKind::hangup())?;
//! # let _ = std::process::Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status();
//! hangup.recv().await;
//! println!("time to read the configuration again");
//! # std::io::Result::Ok(())
//! # })??;
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! Any number of [`Signal`]s may wait for one signal, on any number of loops, beside the callback that
//! [`EventLoop::add_signal_handler`](crate::EventLoop::add_signal_handler) set: each of them is told. While there is
//! one of them in the process, the signal does nothing else. When the last is gone it does again what it did before.
//!
//! A signal is told by the loop, as a call in its turn: nothing of a program runs inside a signal handler.

mod dispatch;
mod kind;
mod listener;

pub use kind::SignalKind;
pub use listener::{Signal, ctrl_c, signal};

pub(crate) use dispatch::CaughtSignals;
