//! The exception handler of a loop.

use super::EventLoop;
use crate::host::Failure;
use crate::panics::catch;
use std::cell::{OnceCell, RefCell};
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::rc::Rc;

/// Describes a failure on a loop, for its exception handler.
///
/// It stays on its thread (`!Send`): its error may be of any type.
///
/// ```
/// use mainspring::{EventLoop, ExceptionContext};
/// use std::{cell::RefCell, rc::Rc};
///
/// let event_loop = EventLoop::new()?;
/// let reports = Rc::new(RefCell::new(Vec::new()));
/// let captured = Rc::clone(&reports);
/// event_loop.set_exception_handler(move |context| {
///     captured.borrow_mut().push((context.message().to_owned(), context.panic().map(str::to_owned)));
/// });
///
/// event_loop.call_soon(|| panic!("out of luck"))?;
/// event_loop.run_until_idle()?;
/// assert_eq!(reports.take()[0].1.as_deref(), Some("out of luck"));
///
/// // The program can report its own failures.
/// let error = "x".parse::<i32>().unwrap_err();
/// let context = ExceptionContext::new("A setting is ignored").with_error(error);
/// assert_eq!(context.error().unwrap().to_string(), "invalid digit found in string");
/// event_loop.call_exception_handler(&context);
/// assert_eq!(reports.take(), [("A setting is ignored".to_owned(), None)]);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
pub struct ExceptionContext {
    message: String,
    panic: Option<String>,
    error: Option<Box<dyn Error>>,
}

impl ExceptionContext {
    /// A context with a message.
    pub fn new(message: impl Into<String>) -> Self {
        ExceptionContext { message: message.into(), panic: None, error: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_error(self, error: impl Into<Box<dyn Error>>) -> Self {
        ExceptionContext { error: Some(error.into()), ..self }
    }

    pub(crate) fn from_panic(message: &str, text: String) -> Self {
        ExceptionContext { panic: Some(text), ..Self::new(message) }
    }

    pub(crate) fn from_failure(message: &str, failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => Self::new(message).with_error(error),
            Failure::Panic(text) => Self::from_panic(message, text),
            Failure::Run(error) => Self::new(message).with_error(*error),
        }
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The text of the panic, if there was one.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The cause, if there is one.
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
pub(super) struct ExceptionHandler {
    handler: RefCell<Option<Handler>>,
    /// The first panic or error that the program did not handle.
    first_unhandled: OnceCell<String>,
}

impl ExceptionHandler {
    pub(super) fn set_handler(&self, handler: Option<Handler>) {
        let former = self.handler.replace(handler);
        drop(former);
    }

    pub(super) fn handler(&self) -> Option<Handler> {
        self.handler.borrow().clone()
    }

    pub(super) fn call_handler(&self, context: &ExceptionContext) {
        let Some(handler) = self.handler() else { return self.call_default_handler(context) };
        if let Err(text) = catch(|| handler(context)) {
            self.call_default_handler(context);
            self.call_default_handler(&ExceptionContext::from_panic("The exception handler panicked", text));
        }
    }

    fn call_default_handler(&self, context: &ExceptionContext) {
        if context.panic.is_some() || context.error.is_some() {
            self.first_unhandled.get_or_init(|| context.to_string());
        }
        write_to_stderr(context);
    }

    /// The first panic or error that the program did not handle.
    pub(super) fn first_unhandled(&self) -> Option<&str> {
        self.first_unhandled.get().map(String::as_str)
    }
}

impl EventLoop {
    /// Calls `handler` for every failure in a callback, instead of writing to stderr.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let failures = Rc::new(Cell::new(0));
    /// let count = Rc::clone(&failures);
    /// event_loop.set_exception_handler(move |_| count.set(count.get() + 1));
    /// event_loop.call_soon(|| panic!("out of luck"))?;
    /// event_loop.run_until_idle()?;
    /// assert_eq!(failures.get(), 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_exception_handler(&self, handler: impl Fn(&ExceptionContext) + 'static) {
        self.core().exception_handler.set_handler(Some(Rc::new(handler)));
    }

    /// The handler of [`set_exception_handler`](EventLoop::set_exception_handler).
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// assert!(event_loop.exception_handler().is_none());
    /// event_loop.set_exception_handler(|context| eprintln!("oh no: {context}"));
    /// assert!(event_loop.exception_handler().is_some());
    /// event_loop.reset_exception_handler();
    /// assert!(event_loop.exception_handler().is_none());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "get_exception_handler")]
    #[expect(clippy::type_complexity, reason = "a name would hide what it is")]
    pub fn exception_handler(&self) -> Option<Rc<dyn Fn(&ExceptionContext)>> {
        self.core().exception_handler.handler()
    }

    /// Removes the handler: failures are written to stderr, which is the default.
    pub fn reset_exception_handler(&self) {
        self.core().exception_handler.set_handler(None);
    }

    /// Passes `context` to the exception handler.
    ///
    /// ```
    /// use mainspring::{EventLoop, ExceptionContext};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let reports = Rc::new(RefCell::new(String::new()));
    /// let captured = Rc::clone(&reports);
    /// event_loop.set_exception_handler(move |context| *captured.borrow_mut() = context.to_string());
    /// event_loop.call_exception_handler(&ExceptionContext::new("A setting is ignored"));
    /// assert_eq!(*reports.borrow(), "A setting is ignored");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn call_exception_handler(&self, context: &ExceptionContext) {
        self.core().call_exception_handler(context);
    }

    /// The first panic or error that only the default handler has got.
    pub(crate) fn first_unhandled(&self) -> Option<&str> {
        self.core().exception_handler.first_unhandled()
    }
}

/// Reports to the loop that runs on this thread, or to stderr if none does.
pub(crate) fn report_here(context: &ExceptionContext) {
    match super::running_core() {
        Some(core) => core.call_exception_handler(context),
        None => write_to_stderr(context),
    }
}

/// The default handler.
pub(super) fn write_to_stderr(context: &ExceptionContext) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "mainspring", "{context}");
    // If stderr is closed, the report is lost.
    let _ = writeln!(std::io::stderr(), "mainspring: {context}");
}
