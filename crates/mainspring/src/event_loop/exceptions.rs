//! What goes wrong in callbacks, and who is told.

use crate::host::Failure;
use crate::panics::catch;
use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::rc::Rc;

/// What went wrong on a loop, as its exception handler is told.
#[derive(Debug)]
pub struct ExceptionContext {
    message: String,
    panic: Option<String>,
    error: Option<Box<dyn Error>>,
}

impl ExceptionContext {
    /// A context that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        ExceptionContext { message: message.into(), panic: None, error: None }
    }

    /// With the error that is behind it.
    #[must_use]
    pub fn with_error(self, error: impl Into<Box<dyn Error>>) -> Self {
        ExceptionContext { error: Some(error.into()), ..self }
    }

    pub(crate) fn of_panic(message: &str, text: String) -> Self {
        ExceptionContext { panic: Some(text), ..Self::new(message) }
    }

    pub(crate) fn of_failure(message: &str, failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => Self::new(message).with_error(error),
            Failure::Panic(text) => Self::of_panic(message, text),
        }
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the panic said, if there was one.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The error behind it, if there is one.
    pub fn error(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_deref()
    }
}

impl fmt::Display for ExceptionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(panic) = &self.panic {
            write!(f, ": panic: {panic}")?;
        }
        if let Some(error) = &self.error {
            write!(f, ": {error}")?;
        }
        Ok(())
    }
}

pub(super) type Handler = Rc<dyn Fn(&ExceptionContext)>;

/// The exception handler of a loop.
#[derive(Default)]
pub(super) struct Exceptions(RefCell<Option<Handler>>);

impl Exceptions {
    pub(super) fn set_handler(&self, handler: Option<Handler>) {
        let former = self.0.replace(handler);
        drop(former);
    }

    pub(super) fn handler(&self) -> Option<Handler> {
        self.0.borrow().clone()
    }

    pub(super) fn call_handler(&self, context: &ExceptionContext) {
        let Some(handler) = self.handler() else { return write_to_stderr(context) };
        if let Err(text) = catch(|| handler(context)) {
            write_to_stderr(context);
            write_to_stderr(&ExceptionContext::of_panic("The exception handler panicked", text));
        }
    }
}

/// Tells the loop that runs on this thread, or stderr where none does.
pub(crate) fn report_here(context: &ExceptionContext) {
    match super::running_core() {
        Some(core) => core.call_exception_handler(context),
        None => write_to_stderr(context),
    }
}

/// What a loop without a handler does.
pub(super) fn write_to_stderr(context: &ExceptionContext) {
    // There is nobody left to tell of a stderr that is closed.
    let _ = writeln!(std::io::stderr(), "mainspring: {context}");
}
