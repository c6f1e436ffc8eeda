//! asyncio's event loop for Rust programs.
//!
//! One thread, one loop, asyncio's own vocabulary: handles and timers, futures and tasks, transports and
//! protocols.
//!
//! ```
//! use mainspring::{sleep, spawn};
//! use std::time::Duration;
//!
//! let total = mainspring::run(async {
//!     let tasks = [3, 1, 2].map(|number| {
//!         spawn(async move {
//!             sleep(Duration::from_millis(number)).await;
//!             number
//!         })
//!     });
//!     let mut total = 0;
//!     for task in tasks {
//!         total += task.await.unwrap_or(0);
//!     }
//!     total
//! })?;
//! assert_eq!(total, 6);
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! - [`run`] is a program's way in, [`EventLoop`] what it runs on, [`Remote`] how other threads reach it.
//! - [`Runtime`] is a loop on a thread of its own, for programs that are not asynchronous themselves;
//!   [`ConcurrentFuture`] is a result that comes from it, or from any other thread.
//! - [`spawn`] runs futures side by side. They need not be `Send`: none of them ever leaves its thread.
//! - [`Task`] is a task with its result, [`TaskHandle`] without; [`context`] has variables that belong to a task.
//! - [`TaskGroup`] has tasks that end together, [`JoinSet`] tasks that come and go; [`gather`], [`join`], [`select`],
//!   [`wait`], [`as_completed`] and [`shield`] await more than one thing.
//! - [`sleep`], [`interval`] and [`timeout`] wait; [`EventLoop::call_soon`] and [`EventLoop::call_later`] call.
//! - [`Lane`] says what runs before what; [`after`] waits until there is nothing else to do.
//! - [`Protocol`] and [`Transport`] are asyncio's, with [`EventLoop::create_connection`] and
//!   [`EventLoop::create_server`]; [`net::open_connection`], [`net::start_server`], [`net::TcpStream`] and
//!   [`net::UnixStream`] are the same with `await`.
//! - [`sync`] has asyncio's locks, events and queues, and channels, for the tasks of one loop; [`sync::threadsafe`] is a
//!   channel between threads.
//! - [`pipe`] is for pipes and the standard streams: [`pipe::stdin`], [`EventLoop::connect_read_pipe`].
//! - [`process`] runs and awaits child processes, with streams or with a
//!   [`SubprocessProtocol`](process::SubprocessProtocol).
//! - [`signal`] waits for signals; [`EventLoop::add_signal_handler`] calls.
//! - [`net::DatagramProtocol`] and [`net::DatagramTransport`] are asyncio's for UDP and Unix datagrams, with
//!   [`EventLoop::create_datagram_endpoint`]; [`net::UdpSocket`] and [`net::UnixDatagram`] are the same with `await`.
//!   [`net::lookup_host`] looks names up.
//! - [`fs`] has files, read and written in threads.
//! - [`testing`] has virtual time and a back end that fails on demand.
//!
//! The guide, `docs/rust-guide.md` in the repository, begins from what a reader knows, asyncio or tokio, and shows each
//! part at work.
//!
//! # Threads
//!
//! A loop and what lives on it, tasks, handles, futures, streams, stay on the loop's thread: they are not `Send`. What is
//! meant for other threads ([`Remote`], [`Runtime`], [`ConcurrentFuture`], [`sync::threadsafe`]) says so. Plain values,
//! options and numbers are `Send` and `Sync`.
//!
//! # Features
//!
//! None is on unless it is asked for.
//!
//! - `rustls`: TLS, in `net::tls`, for transports and streams of every kind. The cryptography comes with `rustls-ring` or
//!   `rustls-aws-lc-rs`, or with the program's own dependency on rustls.
//! - `hyper`: HTTP by hyper on this loop, in `hyper`.

#![deny(missing_docs)]
// `unsafe` is allowed in leaf modules only, each with a reason.
#![deny(unsafe_code)]

mod block_on;
pub mod clock;
mod concurrent;
mod current_core;
mod error;
mod event_loop;
pub mod executor;
pub mod fs;
pub mod future;
mod handle;
mod host;
#[cfg(feature = "hyper")]
pub mod hyper;
mod lane;
pub mod net;
mod panics;
pub mod pipe;
pub mod process;
mod remote;
mod run;
mod runtime;
#[cfg(not(loom))]
pub mod signal;
pub mod sync;
mod task;
pub mod testing;
pub mod time;

pub use clock::Time;
pub use concurrent::{CancelHandle, ConcurrentFuture, Promise};
pub use error::Error;
pub use event_loop::{Builder, EventLoop, ExceptionContext, KeepAlive, Metrics, to_thread};
pub use executor::{Executor, ExecutorConfig};
pub use future::{Future, FutureError};
pub use handle::{Handle, TimerHandle};
pub use lane::Lane;
pub use net::{Protocol, Server, Transport};
pub use remote::Remote;
pub use run::{Runner, run};
pub use runtime::{Runtime, RuntimeBuilder, RuntimeHandle};
pub use task::{
    AsCompleted, ChildError, Either, GroupError, Join, JoinError, JoinSet, ReturnWhen, Task, TaskBuilder,
    TaskFuture, TaskGroup, TaskHandle, TaskId, TryJoin, as_completed, context, current_task, gather, join,
    race, select, shield, spawn, spawn_named, try_gather, try_join, try_wait, wait, wait_for, yield_now,
};
pub use time::{Elapsed, Sleep, after, interval, sleep, sleep_until, timeout, timeout_at};

/// The examples of the README are compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Those of the guide as well, where the features are on that some of them need.
#[cfg(all(doctest, feature = "hyper", feature = "rustls"))]
#[doc = include_str!("../../../docs/rust-guide.md")]
struct Guide;
