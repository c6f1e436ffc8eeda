//! `HyperTimer`: the loop's clock and timers for hyper.
//!
//! hyper requires sleeps that are `Send` and `Sync`; the timers of a loop are not. So a sleep identifies its loop by
//! the inbox, which any thread can hold, and its timer by a key. On the loop's thread, where hyper polls it, it uses
//! the timers directly. On another thread it spawns a sleep on the loop.

use crate::clock::Time;
use crate::concurrent::ConcurrentFuture;
use crate::event_loop::{EventLoop, find_loop, running_core, wake_call};
use crate::host::{Call, Inbound};
use crate::remote::Remote;
use crate::time::sleep_until;
use hyper::rt::{Sleep, Timer};
use mainspring_engine::timers::TimerKey;
use mainspring_engine::wakeup::Inbox;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The clock and timers of a loop, for hyper's timeouts. With a virtual clock they take no real time.
///
/// It is `Send`. Its sleeps work on every thread, and best on the loop's own.
///
/// ```
/// use hyper::rt::Timer;
/// use mainspring::hyper::HyperTimer;
/// use mainspring::{Builder, testing::VirtualClock};
/// use std::time::Duration;
///
/// let event_loop = Builder::new().clock(VirtualClock::default()).build()?;
/// let timer = HyperTimer::new(&event_loop);
/// let before = timer.now();
/// event_loop.run_until_complete(timer.sleep(Duration::from_secs(3600)))?;
/// assert_eq!(timer.now() - before, Duration::from_secs(3600));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct HyperTimer {
    inbox: Arc<Inbox<Inbound>>,
    /// The same instant on both clocks.
    epoch: (Instant, Time),
}

impl HyperTimer {
    /// The timer of `event_loop`.
    pub fn new(event_loop: &EventLoop) -> Self {
        let inbox = Arc::clone(event_loop.core().inbox());
        HyperTimer { inbox, epoch: (Instant::now(), event_loop.time()) }
    }

    /// The timer of the running loop.
    ///
    /// # Panics
    ///
    /// If this thread runs no loop.
    ///
    /// ```
    /// use hyper::rt::Timer;
    /// use mainspring::hyper::HyperTimer;
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let timer = HyperTimer::current();
    /// let deadline = timer.now() + Duration::from_millis(1);
    /// timer.sleep_until(deadline).await;
    /// assert!(timer.now() >= deadline);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        Self::new(&EventLoop::current())
    }

    /// Converts an instant to the loop's clock.
    fn to_loop_time(&self, moment: Instant) -> Time {
        let (instant, time) = self.epoch;
        time.saturating_add(moment.saturating_duration_since(instant))
    }

    fn wait(&self, when: Time) -> HyperSleep {
        HyperSleep { inbox: Arc::clone(&self.inbox), when, state: HyperSleepState::New }
    }
}

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let now = match find_loop(Arc::as_ptr(&self.inbox)) {
            Some(core) => core.now(),
            None => self.to_loop_time(Instant::now()),
        };
        Box::pin(self.wait(now.saturating_add(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(self.wait(self.to_loop_time(deadline)))
    }

    /// The loop's clock; on another thread, the system's clock.
    fn now(&self) -> Instant {
        let (instant, time) = self.epoch;
        match find_loop(Arc::as_ptr(&self.inbox)) {
            Some(core) => instant + core.now().saturating_duration_since(time),
            None => Instant::now(),
        }
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        let when = self.to_loop_time(new_deadline);
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut sleep) => {
                sleep.cancel_timer();
                sleep.set(self.wait(when));
            }
            None => *sleep = Box::pin(self.wait(when)),
        }
    }
}

impl fmt::Debug for HyperTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperTimer").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// A sleep of a [`HyperTimer`]. It completes at once when its loop is closed. It is `Send` and `Sync`, as hyper
/// requires.
///
/// Cancel safety: dropping it removes its timer from the loop.
///
/// ```
/// use hyper::rt::Timer;
/// use mainspring::hyper::{HyperSleep, HyperTimer};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let sleep = HyperTimer::current().sleep(Duration::from_millis(1));
/// assert!(sleep.is::<HyperSleep>());
/// sleep.await;
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct HyperSleep {
    inbox: Arc<Inbox<Inbound>>,
    when: Time,
    state: HyperSleepState,
}

enum HyperSleepState {
    New,
    /// A timer in the loop wakes this task.
    Waiting(TimerKey, Waker),
    /// The loop waits on behalf of a task on another thread.
    OtherThread(ConcurrentFuture<()>),
}

impl Sleep for HyperSleep {}

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(core) = find_loop(Arc::as_ptr(&self.inbox)) else { return self.poll_on_other_thread(cx) };
        if core.check_open().is_err() || core.now() >= self.when {
            self.cancel_timer();
            return Poll::Ready(());
        }
        if let HyperSleepState::Waiting(_, waker) = &self.state
            && waker.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        self.cancel_timer();
        let waker = cx.waker().clone();
        let timer = core.engine.call_at(self.when.0, Call::Wake(waker.clone()));
        self.state = HyperSleepState::Waiting(timer, waker);
        Poll::Pending
    }
}

impl HyperSleep {
    fn poll_on_other_thread(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.state, HyperSleepState::OtherThread(_)) {
            self.cancel_timer();
            let when = self.when;
            match Remote::new(Arc::clone(&self.inbox)).spawn(move || sleep_until(when)) {
                Ok(wait) => self.state = HyperSleepState::OtherThread(wait),
                // The loop is closed.
                Err(_) => return Poll::Ready(()),
            }
        }
        match &mut self.state {
            HyperSleepState::OtherThread(wait) => Pin::new(wait).poll(cx).map(drop),
            _ => Poll::Ready(()),
        }
    }

    /// Removes the timer from the loop.
    fn cancel_timer(&mut self) {
        let former = std::mem::replace(&mut self.state, HyperSleepState::New);
        let HyperSleepState::Waiting(timer, _) = &former else { return };
        let timer = *timer;
        match find_loop(Arc::as_ptr(&self.inbox)) {
            Some(core) => {
                let call = core.engine.cancel_timer(timer);
                drop(call);
            }
            None => {
                let cancel = move || {
                    let call = running_core().and_then(|core| core.engine.cancel_timer(timer));
                    drop(call);
                };
                // A closed loop has dropped its timers.
                let _ = wake_call(&self.inbox, Inbound::Once(Box::new(cancel)));
            }
        }
    }
}

impl Drop for HyperSleep {
    fn drop(&mut self) {
        self.cancel_timer();
    }
}

impl fmt::Debug for HyperSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperSleep").field("until", &self.when).finish_non_exhaustive()
    }
}
