//! `JoinError`: why a task has no result.

use super::{TaskId, TaskName};
use crate::panics::Payload;
use crate::time::Elapsed;
use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Why a task, or a call on another thread, has no result: it was cancelled, it panicked, it was refused, or it took too
/// long.
///
/// It knows the task and the payload of the panic, so that the panic can be resumed. It is `Send` and `Sync`.
///
/// ```
/// # mainspring::run(async {
/// let error = mainspring::spawn_named("worker", async { panic!("out of luck") }).await.unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(error.panic_text(), Some("out of luck"));
/// assert_eq!(error.to_string(), "worker panicked: out of luck");
///
/// let task = mainspring::spawn(std::future::pending::<()>());
/// let id = task.id();
/// task.cancel();
/// let error = task.await.unwrap_err();
/// assert!(error.is_cancelled());
/// assert_eq!(error.id(), Some(id));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
// Boxed, because it is part of every task's result, and rare.
pub struct JoinError(Box<Inner>);

struct Inner {
    /// `None` if it was not a task.
    task: Option<TaskName>,
    cause: Cause,
}

enum Cause {
    Cancelled,
    Refused,
    TimedOut,
    /// The lock makes the payload `Sync`; it is never contended.
    Panicked(String, Mutex<Payload>),
}

impl JoinError {
    pub(crate) fn cancelled(task: Option<TaskName>) -> Self {
        JoinError(Box::new(Inner { task, cause: Cause::Cancelled }))
    }

    pub(crate) fn panicked(task: Option<TaskName>, payload: Payload) -> Self {
        let cause = Cause::Panicked(payload.text(), Mutex::new(payload));
        JoinError(Box::new(Inner { task, cause }))
    }

    pub(crate) fn refused() -> Self {
        JoinError(Box::new(Inner { task: None, cause: Cause::Refused }))
    }

    /// Whether it was cancelled, or its loop was closed.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.cause, Cause::Cancelled)
    }

    /// Whether it was refused, because the loop or executor is shut down.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let handle = runtime.handle();
    /// runtime.shutdown()?;
    /// assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn is_refused(&self) -> bool {
        matches!(self.0.cause, Cause::Refused)
    }

    /// Whether it took longer than [`RuntimeHandle::timeout`](crate::RuntimeHandle::timeout) allows.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.0.cause, Cause::TimedOut)
    }

    /// Whether it panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0.cause, Cause::Panicked(..))
    }

    /// The text of the panic, if it panicked.
    pub fn panic_text(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Panicked(text, _) => Some(text),
            Cause::Cancelled | Cause::Refused | Cause::TimedOut => None,
        }
    }

    /// The task. `None` if it was not a task but, for example, a call in the executor.
    pub fn id(&self) -> Option<TaskId> {
        self.0.task.as_ref().map(|task| task.id)
    }

    /// The payload of the panic, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// If it was not a panic. [`JoinError::try_into_panic`] does not panic.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let error = mainspring::spawn(async { std::panic::panic_any(7) }).await.unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&7));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("{error}: not a panic"),
        }
    }

    /// The payload of the panic, or the error itself if it was not a panic.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let task = mainspring::spawn(std::future::pending::<()>());
    /// task.cancel();
    /// let error = task.await.unwrap_err();
    /// assert!(error.try_into_panic().unwrap_err().is_cancelled());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        let Inner { task, cause } = *self.0;
        match cause {
            Cause::Panicked(_, payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner).into_inner())
            }
            cause => Err(JoinError(Box::new(Inner { task, cause }))),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.task, &self.0.cause) {
            (Some(task), Cause::Cancelled) => write!(f, "{task} was cancelled"),
            (Some(task), Cause::Panicked(text, _)) => write!(f, "{task} panicked: {text}"),
            (_, Cause::TimedOut) => Elapsed.fmt(f),
            (_, Cause::Refused) => f.write_str("refused: the runtime or executor is shut down"),
            (None, Cause::Cancelled) => f.write_str("cancelled"),
            (None, Cause::Panicked(text, _)) => write!(f, "panicked: {text}"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinError").field(&format_args!("{self}")).finish()
    }
}

/// Equal if task and reason are equal. Panics are compared by text.
impl PartialEq for JoinError {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
            && self.panic_text() == other.panic_text()
            && self.is_refused() == other.is_refused()
            && self.is_timed_out() == other.is_timed_out()
    }
}

impl Eq for JoinError {}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        let kind = if error.is_timed_out() { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
        io::Error::new(kind, error)
    }
}

impl From<Elapsed> for JoinError {
    fn from(_: Elapsed) -> Self {
        JoinError(Box::new(Inner { task: None, cause: Cause::TimedOut }))
    }
}
