//! `after`: waiting for a time when nothing else is ready.

use super::current_core;
use crate::event_loop::Core;
use crate::host::{Call, Watch};
use mainspring_engine::timers::TimerKey;
use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Waits for `delay`, counted from when it is first polled, and then until the loop has a pass with nothing else to do:
/// for work that is not to hold up any other. MicroPython's `after` of `fast_io`.
///
/// It is never over before `delay` has passed. How long it may take at most on a busy loop, says
/// [`Builder::max_overdue`](crate::Builder::max_overdue); without that, as long as the loop is busy.
///
/// # Panics
///
/// When it is polled where no mainspring loop runs.
///
/// ```
/// use mainspring::{spawn, time::after, yield_now};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let tidying = spawn(after(Duration::from_millis(1)));
///     for _ in 0..10 {
///         yield_now().await;
///     }
///     assert!(!tidying.is_finished(), "there was always something else to do");
///     assert_eq!(tidying.await, Ok(()));
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn after(delay: Duration) -> After {
    After { state: AfterState::New(delay) }
}

/// The wait of [`after`]. It stays on its thread (`!Send`), and is `Unpin`. Dropping it takes its timer out of the loop.
///
/// Cancel safety: `&mut after` may be given up and awaited again, and waits no longer for it.
///
/// ```
/// use mainspring::{after, spawn, yield_now};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let tidying = spawn(async {
///     let mut turn = after(Duration::ZERO);
///     (&mut turn).await;
///     turn.await // It is over, and says so as often as it is asked.
/// });
/// for _ in 0..10 {
///     yield_now().await;
///     assert!(!tidying.is_finished(), "this task has something to do");
/// }
/// tidying.await.unwrap();
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "a wait does nothing unless it is awaited"]
pub struct After {
    state: AfterState,
}

enum AfterState {
    New(Duration),
    Waiting { core: Weak<Core>, timer: TimerKey, turn: Rc<Turn> },
    Over,
}

/// Whether its turn has come, and who is to be told.
#[derive(Default)]
struct Turn {
    has_come: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Watch for Turn {
    fn fire(&self) {
        self.has_come.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn cancel(&self) {}
}

impl Future for After {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let turn = match &self.state {
            AfterState::Over => return Poll::Ready(()),
            AfterState::New(delay) => {
                let core = current_core();
                let turn = Rc::new(Turn::default());
                let when = core.engine.now().saturating_add(*delay);
                let timer = core.engine.call_at(when, Call::Idle(Rc::<Turn>::clone(&turn)));
                self.state =
                    AfterState::Waiting { core: Rc::downgrade(&core), timer, turn: Rc::clone(&turn) };
                turn
            }
            // A loop that is closed has no turns to give.
            AfterState::Waiting { core, turn, .. }
                if turn.has_come.get() || core.upgrade().is_none_or(|core| core.check_open().is_err()) =>
            {
                self.end();
                return Poll::Ready(());
            }
            AfterState::Waiting { turn, .. } => Rc::clone(turn),
        };
        let former = turn.waker.replace(Some(cx.waker().clone()));
        drop(former);
        Poll::Pending
    }
}

impl After {
    fn end(&mut self) {
        let former = std::mem::replace(&mut self.state, AfterState::Over);
        if let AfterState::Waiting { core, timer, turn } = former {
            let call = core.upgrade().and_then(|core| core.engine.cancel_timer(timer));
            let waker = turn.waker.take();
            drop((call, waker));
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = matches!(self.state, AfterState::Over);
        f.debug_struct("After").field("over", &is_over).finish_non_exhaustive()
    }
}
