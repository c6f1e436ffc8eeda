//! Debug mode: reports slow callbacks and task steps, with their origin.
//!
//! While off, it costs one flag check per call. Tasks and closures that start without it record no origin. If it is
//! switched on later, they are reported without origin, or not at all.

use super::{Core, EventLoop, ExceptionContext};
use crate::handle::{Callback, DetailedCallback, Once};
use crate::lane::{Lane, LaneSuffix, Priority, current_lane};
use crate::task::{WaitReason, current_task, record_wait};
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// The environment variable that switches debug mode on for every new loop; asyncio's is `PYTHONASYNCIODEBUG`.
const DEBUG_VARIABLE: &str = "MAINSPRING_DEBUG";

/// asyncio's default for `slow_callback_duration`.
const DEFAULT_SLOW_DURATION: Duration = Duration::from_millis(100);

/// The settings of one loop.
pub(crate) struct DebugMode {
    is_on: Cell<bool>,
    slow_callback_duration: Cell<Duration>,
}

impl Default for DebugMode {
    fn default() -> Self {
        DebugMode { is_on: Cell::new(false), slow_callback_duration: Cell::new(DEFAULT_SLOW_DURATION) }
    }
}

impl DebugMode {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Sets debug mode as the builder requests, or else as the environment does.
    pub(super) fn configure(&self, is_on: Option<bool>) {
        let by_environment =
            || std::env::var_os(DEBUG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        self.is_on.set(is_on.unwrap_or_else(by_environment));
    }

    /// A closure that is called at most once, with its origin in debug mode.
    #[track_caller]
    pub(crate) fn callback(&self, priority: Priority, closure: impl FnOnce() + 'static) -> Rc<dyn Callback> {
        if self.is_on() || !priority.is_normal() {
            let location = Location::caller();
            DetailedCallback::shared(closure, priority, self.is_on().then_some(location))
        } else {
            Once::shared(closure)
        }
    }
}

/// A timed call, for the report.
pub(crate) enum TimedCall {
    Call(Lane, Option<&'static Location<'static>>),
    FromOtherThread,
    Watch,
    Transport,
    Main,
    Task(Lane, String, &'static Location<'static>),
}

impl fmt::Display for TimedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimedCall::Call(lane, Some(location)) => {
                write!(f, "a call{} scheduled at {location}", LaneSuffix(*lane))
            }
            TimedCall::Call(lane, None) => write!(f, "a call{}", LaneSuffix(*lane)),
            TimedCall::FromOtherThread => f.write_str("a call from another thread"),
            TimedCall::Watch => f.write_str("the callback of a descriptor or a signal"),
            TimedCall::Transport => f.write_str("a protocol's callback"),
            TimedCall::Main => f.write_str("a step of the main future"),
            TimedCall::Task(lane, name, location) => {
                write!(f, "a step of {name}{}, started at {location},", LaneSuffix(*lane))
            }
        }
    }
}

impl Core {
    pub(crate) fn debug_mode(&self) -> &DebugMode {
        self.engine.host().debug_mode()
    }

    /// Runs user code, and reports it if it is slow by the loop's clock.
    pub(crate) fn time<R>(&self, call: impl FnOnce() -> TimedCall, run: impl FnOnce() -> R) -> R {
        let begun = self.engine.now();
        let result = run();
        let took = self.engine.now().saturating_duration_since(begun);
        if took >= self.debug_mode().slow_callback_duration.get() {
            let message = format!("Executing {} took {:.3} seconds", call(), took.as_secs_f64());
            self.call_exception_handler(&ExceptionContext::new(message));
        }
        result
    }
}

/// The future of a task of which the loop records something: in debug mode the time of its steps, with a virtual clock
/// what it waits for.
pub(crate) async fn instrumented<F: Future>(
    core: Weak<Core>,
    future: F,
    started: &'static Location<'static>,
) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        WaitReason::take();
        let mut step = || future.as_mut().poll(cx);
        let polled = match core.upgrade().filter(|core| core.debug_mode().is_on()) {
            None => step(),
            Some(core) => {
                let name = || current_task().map_or_else(String::new, |task| task.name());
                core.time(|| TimedCall::Task(current_lane(), name(), started), step)
            }
        };
        if polled.is_pending() {
            record_wait(WaitReason::take());
        }
        polled
    })
    .await
}

/// asyncio's debug mode also finds calls from the wrong thread. Here the compiler does: a loop and the objects on it
/// are not `Send`, and other threads use a [`Remote`](crate::Remote).
impl EventLoop {
    /// Switches debug mode on or off. In debug mode, calls and task steps that take
    /// [`slow_callback_duration`](EventLoop::slow_callback_duration) or longer are reported to the exception handler,
    /// with the name of the task and where it was started, or where the call was scheduled. The origin is known if it
    /// was started or scheduled in debug mode.
    ///
    /// [`Builder::debug`](crate::Builder::debug) also switches it on. The environment variable `MAINSPRING_DEBUG`
    /// does for every new loop, unless it is empty or `0`.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.set_debug(true);
    /// assert!(event_loop.is_debug());
    /// assert_eq!(event_loop.slow_callback_duration(), Duration::from_millis(100));
    /// event_loop.set_slow_callback_duration(Duration::from_millis(1));
    /// let reports = Rc::new(RefCell::new(Vec::new()));
    /// let captured = Rc::clone(&reports);
    /// event_loop.set_exception_handler(move |context| captured.borrow_mut().push(context.to_string()));
    ///
    /// event_loop.call_soon(|| std::thread::sleep(Duration::from_millis(2)))?;
    /// event_loop.run_until_idle()?;
    /// assert!(reports.borrow()[0].starts_with("Executing a call scheduled at "));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_debug(&self, debug: bool) {
        self.core().debug_mode().is_on.set(debug);
    }

    /// Whether debug mode is on.
    #[doc(alias = "get_debug")]
    pub fn is_debug(&self) -> bool {
        self.core().debug_mode().is_on()
    }

    /// The duration from which debug mode reports a call. The default is 100 ms, as in asyncio.
    pub fn slow_callback_duration(&self) -> Duration {
        self.core().debug_mode().slow_callback_duration.get()
    }

    /// Sets the duration from which debug mode reports a call.
    pub fn set_slow_callback_duration(&self, slow: Duration) {
        self.core().debug_mode().slow_callback_duration.set(slow);
    }
}
