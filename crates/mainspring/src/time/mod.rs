//! Sleeps, timeouts and [`interval`]s.

mod after;
mod interval;
mod timeout;

pub use after::{After, after};
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use timeout::{Elapsed, timeout, timeout_at};

use crate::clock::Time;
use crate::event_loop::{Core, running_core};
use crate::host::Call;
use crate::task::waits_for;
use mainspring_engine::timers::TimerKey;
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The time by the clock of the loop that runs on this thread.
///
/// # Panics
///
/// If none runs. [`EventLoop::time`](crate::EventLoop::time) works for any loop.
///
/// ```
/// use mainspring::time::now;
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let start = now();
/// mainspring::sleep(Duration::from_millis(1)).await;
/// assert!(now() >= start.saturating_add(Duration::from_millis(1)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn now() -> Time {
    expect_running_core().now()
}

/// Waits for `delay`, counted from the first poll. A zero delay lets other ready calls run once. Dropping it removes
/// its timer.
///
/// # Panics
///
/// If it is polled outside of a mainspring loop.
///
/// ```
/// use mainspring::{sleep, time::now};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let start = now();
///     sleep(Duration::from_millis(1)).await;
///     assert!(now() >= start.saturating_add(Duration::from_millis(1)), "never early");
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    Sleep { state: SleepState::After(delay) }
}

/// Waits until the loop's clock has reached `when`. See [`sleep`].
///
/// ```
/// use mainspring::{sleep_until, time::now};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let when = now().saturating_add(Duration::from_millis(1));
/// sleep_until(when).await;
/// assert!(now() >= when);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn sleep_until(when: Time) -> Sleep {
    Sleep { state: SleepState::At(when) }
}

/// The future of [`sleep`] and [`sleep_until`]. It stays on its thread (`!Send`), and is `Unpin`.
///
/// Cancel safety: `&mut sleep` can be dropped and awaited again; its deadline stays.
///
/// ```
/// use mainspring::{sleep, time::now, timeout};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let mut nap = sleep(Duration::from_secs(3600));
/// assert_eq!(nap.deadline(), None, "it is counted from when it is awaited");
/// assert!(timeout(Duration::from_millis(1), &mut nap).await.is_err());
/// assert!(nap.deadline() > Some(now()));
/// nap.reset(now());
/// (&mut nap).await;
/// assert!(nap.is_elapsed());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep {
    state: SleepState,
}

enum SleepState {
    After(Duration),
    At(Time),
    Waiting { core: Weak<Core>, when: Time, timer: TimerKey, waker: Waker },
    Done,
}

impl Future for Sleep {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_timer(cx, Call::Wake)
    }
}

#[track_caller]
fn expect_running_core() -> Rc<Core> {
    running_core().unwrap_or_else(|| Rc::clone(crate::EventLoop::current().core()))
}

impl Sleep {
    /// Polls it. `make_call` makes the call of the timer, which wakes the task.
    #[track_caller]
    fn poll_timer(&mut self, cx: &mut Context<'_>, make_call: impl FnOnce(Waker) -> Call) -> Poll<()> {
        let (core, when) = match &self.state {
            SleepState::Done => return Poll::Ready(()),
            // As in asyncio, a zero delay yields once.
            SleepState::After(Duration::ZERO) => {
                cx.waker().wake_by_ref();
                self.state = SleepState::Done;
                return Poll::Pending;
            }
            SleepState::After(delay) => {
                let core = expect_running_core();
                let when = core.now().saturating_add(*delay);
                (core, when)
            }
            SleepState::At(when) => (expect_running_core(), *when),
            SleepState::Waiting { core, when, waker, .. } => match core.upgrade() {
                Some(core) if core.check_open().is_ok() && core.now() < *when => {
                    if waker.will_wake(cx.waker()) {
                        return Poll::Pending;
                    }
                    (core, *when)
                }
                _ => {
                    self.finish();
                    return Poll::Ready(());
                }
            },
        };
        self.finish();
        let waker = cx.waker().clone();
        let timer = core.engine.call_at(when.0, make_call(waker.clone()));
        self.state = SleepState::Waiting { core: Rc::downgrade(&core), when, timer, waker };
        waits_for("sleep");
        Poll::Pending
    }

    /// The deadline. `None` before the first poll of [`sleep`], and after the end.
    pub fn deadline(&self) -> Option<Time> {
        match &self.state {
            SleepState::At(when) | SleepState::Waiting { when, .. } => Some(*when),
            SleepState::After(_) | SleepState::Done => None,
        }
    }

    /// Whether it was awaited to its end.
    pub fn is_elapsed(&self) -> bool {
        matches!(self.state, SleepState::Done)
    }

    /// Moves the deadline to `when`, also after the end. A task that awaits it continues to wait.
    pub fn reset(&mut self, when: Time) {
        let former = std::mem::replace(&mut self.state, SleepState::At(when));
        if let SleepState::Waiting { core, timer, waker, .. } = former
            && let Some(upgraded) = core.upgrade()
        {
            let call = upgraded.engine.cancel_timer(timer);
            if upgraded.check_open().is_ok() {
                // Cloning and dropping a waker runs foreign code. It cannot reach this sleep, which is borrowed
                // exclusively.
                let timer = upgraded.engine.call_at(when.0, Call::Wake(waker.clone()));
                self.state = SleepState::Waiting { core, when, timer, waker };
            }
            drop(call);
        }
    }

    /// Whether it was never polled and its deadline has passed.
    fn is_due(&self) -> bool {
        match self.state {
            SleepState::After(delay) => delay.is_zero(),
            SleepState::At(when) => expect_running_core().now() >= when,
            SleepState::Waiting { .. } | SleepState::Done => false,
        }
    }

    /// Removes the timer.
    fn finish(&mut self) {
        let former = std::mem::replace(&mut self.state, SleepState::Done);
        if let SleepState::Waiting { core, timer, .. } = &former
            && let Some(core) = core.upgrade()
        {
            let call = core.engine.cancel_timer(*timer);
            drop(call);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sleep = f.debug_struct("Sleep");
        match &self.state {
            SleepState::After(delay) => sleep.field("after", delay),
            SleepState::At(when) | SleepState::Waiting { when, .. } => sleep.field("until", when),
            SleepState::Done => sleep.field("over", &true),
        };
        sleep.finish_non_exhaustive()
    }
}
