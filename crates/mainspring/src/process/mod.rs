//! Child processes: asyncio's `subprocess`, and what tokio's users expect of one.
//!
//! ```
//! use mainspring::process::{Command, Stdio};
//!
//! # mainspring::run(async {
//! let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//! let (output, _) = child.communicate(Some(b"there and back")).await?;
//! assert_eq!(output.as_deref(), Some(&b"there and back"[..]));
//! assert_eq!(child.returncode(), Some(0));
//! # std::io::Result::Ok(())
//! # })??;
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! A [`Command`] is what to run, a [`Child`] a process that runs, its pipes are the streams of [`net`](crate::net).
//! [`EventLoop::subprocess_exec`](crate::EventLoop::subprocess_exec) and a [`SubprocessProtocol`] are the same with
//! callbacks.
//!
//! # Waiting
//!
//! The end of a child is learnt from a pidfd, or from a thread where the kernel has none: there is no handler of
//! SIGCHLD, and nobody else's children are waited for. The loop reaps a child as soon as it has ended, also if its
//! [`Child`] was dropped. If the loop is closed first, a thread does. So no zombies are left, as long as the loop is
//! run or closed in the end.
//!
//! A process that ignores SIGCHLD leaves the waiting to the kernel, which then keeps no status: [`Child::wait`] is an
//! error there, as if somebody else had waited.
//!
//! # Signals
//!
//! A signal reaches the child or nobody: it is sent by the pidfd, or by a process id that is known to be the child's
//! still. Sending one to a child that has ended does nothing, and is no error.

mod child_handle;
mod command;
mod communicate;
mod exit_watcher;
mod identity;
mod reaper;
mod subprocess_protocol;
mod subprocess_transport;

pub use child_handle::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use command::Command;
pub use std::process::{ExitStatus, Output, Stdio};
pub use subprocess_protocol::SubprocessProtocol;
pub use subprocess_transport::SubprocessTransport;
