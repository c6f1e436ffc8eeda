//! The errors of a task group.

use super::super::JoinError;
use std::error::Error;
use std::fmt;

/// All failures in a [`TaskGroup`](crate::TaskGroup), in order. The first one ended the group.
///
/// asyncio's `ExceptionGroup`. It is `Send` and `Sync` if `E` is.
///
/// ```
/// use mainspring::{ChildError, TaskGroup};
///
/// # mainspring::run(async {
/// let failed = TaskGroup::scope(|group| async move {
///     group.spawn(async { Err::<(), _>("no bread") });
///     group.spawn(async { if true { panic!("no water") } else { Ok(()) } });
///     Ok(())
/// });
/// let error = failed.await.unwrap_err();
/// assert_eq!(error.to_string(), "2 failures: Task-1 failed: no bread; Task-2 panicked: no water");
/// assert_eq!(error.errors().len(), 2);
/// for failure in error.into_errors() {
///     match failure {
///         ChildError::Failed { task, error } => assert_eq!((task.as_deref(), error), (Some("Task-1"), "no bread")),
///         ChildError::Panicked(error) => assert_eq!(error.panic_text(), Some("no water")),
///     }
/// }
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias = "ExceptionGroup")]
pub struct GroupError<E> {
    errors: Vec<ChildError<E>>,
}

/// How a task of a group, or the group's body, failed. See [`GroupError`].
///
/// ```
/// use mainspring::{ChildError, TaskGroup};
///
/// # mainspring::run(async {
/// let failed = TaskGroup::<&str>::scope(|_| async { Err::<(), _>("no bread") }).await;
/// let failure = &failed.unwrap_err().into_errors()[0];
/// assert_eq!(failure.error(), Some(&"no bread"));
/// // The body failed, not a task of the group.
/// assert_eq!(failure, &ChildError::Failed { task: None, error: "no bread" });
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum ChildError<E> {
    /// It returned an error.
    Failed {
        /// The task's name; `None` for the body.
        task: Option<String>,
        /// The error.
        error: E,
    },
    /// It panicked.
    Panicked(JoinError),
}

impl<E> GroupError<E> {
    pub(super) fn new(errors: Vec<ChildError<E>>) -> Self {
        GroupError { errors }
    }

    /// The failures, at least one.
    pub fn errors(&self) -> &[ChildError<E>] {
        &self.errors
    }

    /// The failures, by value.
    pub fn into_errors(self) -> Vec<ChildError<E>> {
        self.errors
    }
}

impl<E> IntoIterator for GroupError<E> {
    type Item = ChildError<E>;
    type IntoIter = std::vec::IntoIter<ChildError<E>>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<E> ChildError<E> {
    /// The error that it returned, unless it panicked.
    pub fn error(&self) -> Option<&E> {
        match self {
            ChildError::Failed { error, .. } => Some(error),
            ChildError::Panicked(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ChildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildError::Failed { task: Some(task), error } => write!(f, "{task} failed: {error}"),
            ChildError::Failed { task: None, error } => write!(f, "the body failed: {error}"),
            ChildError::Panicked(error) if error.id().is_none() => write!(f, "the body {error}"),
            ChildError::Panicked(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.errors.as_slice() {
            return only.fmt(f);
        }
        write!(f, "{} failures", self.errors.len())?;
        for (number, error) in self.errors.iter().enumerate() {
            write!(f, "{} {error}", if number == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl<E: Error + 'static> Error for ChildError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ChildError::Failed { error, .. } => error.source(),
            ChildError::Panicked(_) => None,
        }
    }
}

impl<E: Error + 'static> Error for GroupError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.errors.first().map(|first| match first {
            ChildError::Failed { error, .. } => error as &(dyn Error + 'static),
            ChildError::Panicked(error) => error,
        })
    }
}
