//! asyncio's event loop for Rust programs.
//!
//! One thread, one loop, asyncio's vocabulary: handles and timers, futures and tasks, transports and protocols.
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
//! - [`run`] is the entry point, [`EventLoop`] the loop, [`Remote`] the reference to it for other threads.
//! - [`Runtime`] is a loop on a thread of its own, for programs that are not asynchronous themselves.
//!   [`ConcurrentFuture`] is a result from it, or from any other thread.
//! - [`spawn`] runs futures concurrently. They need not be `Send`: they never leave their thread.
//! - [`Task`] is a task with its result, [`TaskHandle`] one without; [`context`] has context variables.
//! - [`TaskGroup`] has tasks that end together, [`JoinSet`] tasks whose results are taken one by one. [`gather`],
//!   [`join`], [`select`], [`wait`], [`as_completed`] and [`shield`] await several futures.
//! - [`sleep`], [`interval`] and [`timeout`] wait. [`EventLoop::call_soon`] and [`EventLoop::call_later`] schedule
//!   calls.
//! - [`Lane`] is the priority of a call. [`background`] and [`urgent`] set it for new tasks and callbacks. [`after`]
//!   waits until the loop is otherwise idle.
//! - [`Protocol`] and [`Transport`] are asyncio's, with [`EventLoop::create_connection`] and
//!   [`EventLoop::create_server`]. [`net::open_connection`], [`net::start_server`], [`net::TcpStream`] and
//!   [`net::UnixStream`] are for `await`.
//! - [`sync`] has asyncio's locks, events and queues, and channels, for the tasks of one loop. [`sync::threadsafe`]
//!   is a channel between threads.
//! - [`pipe`] is for pipes and the standard streams: [`pipe::stdin`], [`EventLoop::connect_read_pipe`].
//! - [`process`] runs and awaits child processes, with streams or with a
//!   [`SubprocessProtocol`](process::SubprocessProtocol).
//! - [`signal`] waits for signals. [`EventLoop::add_signal_handler`] calls a handler.
//! - [`net::DatagramProtocol`] and [`net::DatagramTransport`] are asyncio's for UDP and Unix datagrams, with
//!   [`EventLoop::create_datagram_endpoint`]. [`net::UdpSocket`] and [`net::UnixDatagram`] are for `await`.
//!   [`net::lookup_host`] resolves names.
//! - [`fs`] has files, read and written by executor threads.
//! - [`testing`] has virtual time, reproducible schedules, and a poller that fails on demand.
//!
//! The guide, `docs/rust-guide.md` in the repository, starts from asyncio or tokio, and has examples of every part.
//!
//! # Threads
//!
//! A loop and the objects on it (tasks, handles, futures, streams) stay on the loop's thread: they are `!Send`.
//! Objects for other threads ([`Remote`], [`Runtime`], [`ConcurrentFuture`], [`sync::threadsafe`]) are documented as
//! such. Plain values, options and numbers are `Send` and `Sync`.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! - `rustls`: TLS, in `net::tls`, for transports and streams of every kind. The cryptography comes with `rustls-ring`
//!   or `rustls-aws-lc-rs`, or with the program's own dependency on rustls.
//! - `hyper`: HTTP by hyper on this loop, in `hyper`.
//! - `tracing`: what is written to stderr without an exception handler is also an event of tracing, with the target
//!   `mainspring` and the level `ERROR`.

#![deny(missing_docs)]
// `unsafe` is allowed in leaf modules only, each with a reason.
#![deny(unsafe_code)]

mod block_on;
pub mod clock;
mod concurrent;
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
pub use event_loop::{
    Builder, Counters, EventLoop, ExceptionContext, Guest, KeepAlive, LagHistogram, Metrics, PolledEvents,
    Stall, to_thread,
};
pub use executor::{Executor, ExecutorConfig};
pub use future::{Future, FutureError};
pub use handle::{Handle, TimerHandle};
pub use lane::{Lane, background, current_lane, normal, urgent};
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

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the page on runtimes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime.md")]
struct RuntimePage;

/// Compiles the examples of the guide, some of which need these features.
#[cfg(all(doctest, feature = "hyper", feature = "rustls"))]
#[doc = include_str!("../../../docs/rust-guide.md")]
struct Guide;
