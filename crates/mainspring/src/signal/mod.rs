//! Signals with `await`.
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
//! Any number of [`Signal`]s on any number of loops can listen to one signal, beside the callback of
//! [`EventLoop::add_signal_handler`](crate::EventLoop::add_signal_handler); all are notified. While one of them exists
//! in the process, the default action of the signal is suspended. When the last one is dropped, the former action is
//! restored.
//!
//! The loop delivers signals as ordinary calls: no user code runs inside a signal handler.

mod dispatch;
mod kind;
mod listener;

pub use kind::SignalKind;
pub use listener::{Signal, ctrl_c, signal};

pub(crate) use dispatch::CaughtSignals;
