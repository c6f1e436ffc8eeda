//! `after`: waits until the loop is otherwise idle.

use super::expect_running_core;
use crate::event_loop::Core;
use crate::handle::Callback;
use crate::host::Call;
use crate::lane::{Lane, Priority};
use crate::task::{TaskHandle, current_background_task};
use mainspring_engine::timers::TimerKey;
use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Waits for `delay`, counted from the first poll, and then for an iteration with nothing else to do: for work that
/// must not delay other work. MicroPython's `after` of `fast_io`.
///
/// It never ends before `delay` has passed. [`Builder::max_overdue`](crate::Builder::max_overdue) limits how long it
/// waits on a busy loop; without it there is no limit. In [`Lane::Background`] the limit of the current code applies
/// instead, if it has one: see [`background`](crate::background).
///
/// # Panics
///
/// If it is polled outside of a mainspring loop.
///
/// ```
/// use mainspring::{spawn, time::after, yield_now};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let background = spawn(after(Duration::from_millis(1)));
///     for _ in 0..10 {
///         yield_now().await;
///     }
///     assert!(!background.is_finished(), "there was always something else to do");
///     assert_eq!(background.await, Ok(()));
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn after(delay: Duration) -> After {
    After { state: AfterState::New(delay) }
}

/// The future of [`after`]. It stays on its thread (`!Send`), and is `Unpin`. Dropping it removes its timer.
///
/// Cancel safety: `&mut after` can be dropped and awaited again; the time does not start again.
///
/// ```
/// use mainspring::{after, spawn, yield_now};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let background = spawn(async {
///     let mut wait = after(Duration::ZERO);
///     (&mut wait).await;
///     wait.await // It is done: every further await returns at once.
/// });
/// for _ in 0..10 {
///     yield_now().await;
///     assert!(!background.is_finished(), "this task has something to do");
/// }
/// background.await.unwrap();
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "a wait does nothing unless it is awaited"]
pub struct After {
    state: AfterState,
}

enum AfterState {
    New(Duration),
    Waiting { core: Weak<Core>, timer: TimerKey, idle_call: Rc<IdleCall> },
    Done,
}

/// Whether the call ran, and the task to wake.
struct IdleCall {
    priority: Priority,
    has_run: Cell<bool>,
    waiter: Cell<Option<Waiter>>,
}

struct Waiter {
    waker: Waker,
    /// The task, if it is in the background lane. Its next step is in the normal lane: it does not wait a second time.
    background_task: Option<TaskHandle>,
}

impl Callback for IdleCall {
    fn run(&self) {
        self.has_run.set(true);
        if let Some(Waiter { waker, background_task }) = self.waiter.take() {
            if let Some(task) = background_task {
                task.promote();
            }
            waker.wake();
        }
    }

    fn cancel(&self) {}

    fn is_cancelled(&self) -> bool {
        false
    }

    fn priority(&self) -> Priority {
        self.priority
    }
}

impl Future for After {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let idle_call = match &self.state {
            AfterState::Done => return Poll::Ready(()),
            AfterState::New(delay) => {
                let core = expect_running_core();
                let priority = Priority::in_lane(Lane::Background);
                let idle_call =
                    Rc::new(IdleCall { priority, has_run: Cell::new(false), waiter: Cell::new(None) });
                let when = core.engine.now().saturating_add(*delay);
                let call = Call::Handle(Lane::Background, Rc::<IdleCall>::clone(&idle_call));
                let timer = core.engine.call_at(when, call);
                self.state = AfterState::Waiting {
                    core: Rc::downgrade(&core),
                    timer,
                    idle_call: Rc::clone(&idle_call),
                };
                idle_call
            }
            // A closed loop runs no calls.
            AfterState::Waiting { core, idle_call, .. }
                if idle_call.has_run.get()
                    || core.upgrade().is_none_or(|core| core.check_open().is_err()) =>
            {
                self.finish();
                return Poll::Ready(());
            }
            AfterState::Waiting { idle_call, .. } => Rc::clone(idle_call),
        };
        let waiter = Waiter { waker: cx.waker().clone(), background_task: current_background_task() };
        let former = idle_call.waiter.replace(Some(waiter));
        drop(former);
        Poll::Pending
    }
}

impl After {
    fn finish(&mut self) {
        let former = std::mem::replace(&mut self.state, AfterState::Done);
        if let AfterState::Waiting { core, timer, idle_call } = former {
            let call = core.upgrade().and_then(|core| core.engine.cancel_timer(timer));
            let waiter = idle_call.waiter.take();
            drop((call, waiter));
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_done = matches!(self.state, AfterState::Done);
        f.debug_struct("After").field("over", &is_done).finish_non_exhaustive()
    }
}
