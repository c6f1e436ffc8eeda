//! Child processes: asyncio's `subprocess`, with the names of tokio and std.
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
//! A [`Command`] describes a process and a [`Child`] is a running one. Its pipes are streams of [`net`](crate::net).
//! [`EventLoop::subprocess_exec`](crate::EventLoop::subprocess_exec) and [`SubprocessProtocol`] are the same with
//! callbacks.
//!
//! # Waiting
//!
//! The exit of a child is detected by a pidfd, or by a thread on kernels without pidfds. There is no SIGCHLD handler,
//! and children of other code are not reaped. The loop reaps a child as soon as it exits, even if its [`Child`] was
//! dropped. If the loop is closed first, a thread reaps it. So there are no zombies, provided that the loop runs or
//! is closed.
//!
//! If the process ignores SIGCHLD, the kernel reaps children and keeps no status. [`Child::wait`] then fails, as if
//! another part of the program had reaped the child.
//!
//! # Signals
//!
//! A signal reaches the child or no process: it is sent through the pidfd, or to a process id that still belongs to
//! the child. Signalling a child that has exited is a no-op.

mod child_handle;
#[allow(unsafe_code, reason = "a user function that runs between fork and exec")]
mod command;
mod communicate;
mod exit_watcher;
#[allow(unsafe_code, reason = "system calls between fork and exec")]
mod identity;
mod reaper;
mod subprocess;
mod subprocess_protocol;
mod subprocess_transport;

pub use child_handle::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use command::Command;
pub use std::process::{ExitStatus, Output, Stdio};
pub use subprocess_protocol::SubprocessProtocol;
pub use subprocess_transport::SubprocessTransport;
