//! `Future`: a result that is set later, as asyncio's.

use crate::error::Error;
use crate::event_loop::{Core, ExceptionContext};
use crate::handle::Once;
use crate::host::Call;
use crate::lane::Lane;
use crate::task::waits_for;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// A result that is set later. Created by [`EventLoop::create_future`](crate::EventLoop::create_future).
///
/// Clones are the same future: one side sets the result, any number of tasks await it, and each gets a clone of the
/// result. Waiting tasks run in the iteration after the one that sets it.
///
/// It stays on its thread (`!Send`). [`ConcurrentFuture`](crate::ConcurrentFuture) is for results from other threads.
///
/// Cancel safety: nothing is lost; the result stays.
///
/// ```
/// # mainspring::run(async {
/// let event_loop = mainspring::EventLoop::current();
/// let answer = event_loop.create_future();
/// let sender = answer.clone();
/// event_loop.call_soon(move || sender.set_result(42).unwrap()).unwrap();
/// assert_eq!(answer.await.unwrap(), 42);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// It has the methods of asyncio's `Future`:
///
/// ```
/// use std::{cell::Cell, rc::Rc};
///
/// let event_loop = mainspring::EventLoop::new()?;
/// let answer = event_loop.create_future();
/// let result = Rc::new(Cell::new(0));
/// let captured = Rc::clone(&result);
/// answer.add_done_callback(move |answer| captured.set(answer.result().unwrap().unwrap()));
/// assert!(!answer.done() && answer.result().is_none());
///
/// answer.set_result(42)?;
/// assert!(answer.done() && !answer.cancelled());
/// assert_eq!(answer.with_result(|result| result.copied().ok()), Some(Some(42)));
/// assert!(answer.set_result(43).is_err(), "once is enough");
/// event_loop.run_until_idle()?;
/// assert_eq!(result.get(), 42);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Future<T> {
    state: Rc<FutureState<T>>,
    /// The id of this waiter.
    waiter_id: Cell<Option<u64>>,
}

/// Why a [`Future`] has no result.
///
/// It stays on its thread (`!Send`): its error may be of any type.
///
/// ```
/// use mainspring::FutureError;
///
/// let event_loop = mainspring::EventLoop::new()?;
/// let failed = event_loop.create_future::<()>();
/// failed.set_error("no bread")?;
/// assert!(matches!(failed.result(), Some(Err(FutureError::Failed(error))) if error.to_string() == "no bread"));
///
/// let cancelled = event_loop.create_future::<()>();
/// assert!(cancelled.cancel());
/// assert!(event_loop.run_until_complete(cancelled)?.unwrap_err().is_cancelled());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum FutureError {
    /// The future was cancelled.
    Cancelled,
    /// The future was given an error.
    Failed(Rc<dyn std::error::Error>),
}

impl FutureError {
    /// Whether the future was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, FutureError::Cancelled)
    }
}

impl fmt::Display for FutureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FutureError::Cancelled => f.write_str("the future was cancelled"),
            FutureError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FutureError {}

struct FutureState<T> {
    core: Weak<Core>,
    result: RefCell<Option<Result<T, FutureError>>>,
    /// First in, first out.
    waiters: RefCell<Vec<(u64, Waiter<T>)>>,
    next_waiter_id: Cell<u64>,
}

enum Waiter<T> {
    Task(Waker),
    Callback(DoneCallback<T>),
}

type DoneCallback<T> = Box<dyn FnOnce(&Future<T>)>;

impl<T: 'static> Future<T> {
    pub(crate) fn new(core: &Rc<Core>) -> Self {
        Self::from_state(Rc::new(FutureState {
            core: Rc::downgrade(core),
            result: RefCell::new(None),
            waiters: RefCell::default(),
            next_waiter_id: Cell::new(0),
        }))
    }

    fn from_state(state: Rc<FutureState<T>>) -> Self {
        Future { state, waiter_id: Cell::new(None) }
    }

    /// Sets the result. [`Error::AlreadyDone`] if the future is done.
    pub fn set_result(&self, result: T) -> Result<(), Error> {
        self.settle(Ok(result))
    }

    /// Sets an error instead of a result. [`Error::AlreadyDone`] if the future is done.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let answer = event_loop.create_future::<i32>();
    /// answer.set_error("no bread")?;
    /// let error = event_loop.run_until_complete(answer)?.unwrap_err();
    /// assert_eq!(error.to_string(), "no bread");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_error(&self, error: impl Into<Box<dyn std::error::Error>>) -> Result<(), Error> {
        self.settle(Err(FutureError::Failed(Rc::from(error.into()))))
    }

    /// Cancels the future. Returns `false` if it is done.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let answer = event_loop.create_future::<i32>();
    /// assert!(answer.cancel());
    /// assert!(answer.cancelled());
    /// assert!(!answer.cancel(), "it is done");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.settle(Err(FutureError::Cancelled)).is_ok()
    }

    /// Whether the future has a result or an error, or was cancelled.
    pub fn done(&self) -> bool {
        self.state.result.borrow().is_some()
    }

    /// Whether the future was cancelled.
    pub fn cancelled(&self) -> bool {
        matches!(*self.state.result.borrow(), Some(Err(FutureError::Cancelled)))
    }

    /// Passes the result to `look`, if the future is done.
    pub fn with_result<R>(&self, look: impl FnOnce(Result<&T, &FutureError>) -> R) -> Option<R> {
        self.state.result.borrow().as_ref().map(|result| look(result.as_ref()))
    }

    /// The result or error, if the future is done.
    pub fn result(&self) -> Option<Result<T, FutureError>>
    where
        T: Clone,
    {
        self.state.result.borrow().clone()
    }

    /// Calls `callback` in the iteration after the future is done, or in the next one if it is done already.
    pub fn add_done_callback(&self, callback: impl FnOnce(&Future<T>) + 'static) {
        if self.done() {
            self.state.call_soon(Box::new(callback));
            return;
        }
        self.state.add_waiter(Waiter::Callback(Box::new(callback)));
    }

    fn settle(&self, result: Result<T, FutureError>) -> Result<(), Error> {
        if self.done() {
            return Err(Error::AlreadyDone);
        }
        *self.state.result.borrow_mut() = Some(result);
        let waiters = self.state.waiters.take();
        for (_, waiter) in waiters {
            match waiter {
                Waiter::Task(waker) => waker.wake(),
                Waiter::Callback(callback) => self.state.call_soon(callback),
            }
        }
        Ok(())
    }
}

impl<T: 'static> FutureState<T> {
    fn add_waiter(&self, waiter: Waiter<T>) -> u64 {
        let id = self.next_waiter_id.get();
        self.next_waiter_id.set(id + 1);
        self.waiters.borrow_mut().push((id, waiter));
        id
    }

    fn call_soon(self: &Rc<Self>, callback: DoneCallback<T>) {
        let Some(core) = self.core.upgrade() else { return };
        let future = Future::from_state(Rc::clone(self));
        if core.check_open().is_ok() {
            core.call_soon(Call::Handle(Lane::Normal, Once::shared(move || callback(&future))));
        } else {
            let message = "A future was done after its loop was closed: its callback is not called";
            core.call_exception_handler(&ExceptionContext::new(message));
        }
    }
}

impl<T> FutureState<T> {
    /// Removes a waiter.
    fn remove_waiter(&self, id: u64) -> Option<Waiter<T>> {
        let mut waiters = self.waiters.borrow_mut();
        let index = waiters.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(waiters.remove(index).1)
    }
}

impl<T: Clone + 'static> std::future::Future for Future<T> {
    type Output = Result<T, FutureError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.result() {
            return Poll::Ready(result);
        }
        let waker = Waiter::Task(cx.waker().clone());
        let former = match self.waiter_id.get() {
            None => {
                self.waiter_id.set(Some(self.state.add_waiter(waker)));
                None
            }
            Some(id) => {
                let mut waiters = self.state.waiters.borrow_mut();
                let found = waiters.binary_search_by_key(&id, |(id, _)| *id);
                found
                    .ok()
                    .and_then(|index| waiters.get_mut(index))
                    .map(|entry| std::mem::replace(&mut entry.1, waker))
            }
        };
        drop(former);
        waits_for("Future");
        Poll::Pending
    }
}

impl<T> Clone for Future<T> {
    fn clone(&self) -> Self {
        Future { state: Rc::clone(&self.state), waiter_id: Cell::new(None) }
    }
}

impl<T> Drop for Future<T> {
    fn drop(&mut self) {
        if let Some(id) = self.waiter_id.get() {
            let waiter = self.state.remove_waiter(id);
            drop(waiter);
        }
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.result.try_borrow().as_deref() {
            Ok(Some(Ok(_))) => "finished",
            Ok(Some(Err(FutureError::Cancelled))) => "cancelled",
            Ok(Some(Err(FutureError::Failed(_)))) => "failed",
            Ok(None) | Err(_) => "pending",
        };
        f.debug_tuple("Future").field(&format_args!("{state}")).finish()
    }
}
