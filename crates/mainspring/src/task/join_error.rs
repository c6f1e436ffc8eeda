//! Why a task has no result.

use std::fmt;

/// Why a task, or what ran on another thread, has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// It was cancelled, or its loop was closed.
    Cancelled,
    /// It panicked, with this text.
    Panicked(String),
}

impl JoinError {
    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Cancelled)
    }

    /// Whether it panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panicked(_))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Cancelled => f.write_str("cancelled"),
            JoinError::Panicked(text) => write!(f, "panicked: {text}"),
        }
    }
}

impl std::error::Error for JoinError {}
