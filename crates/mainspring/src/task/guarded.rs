//! `Guarded`: a task's future with a wall around it.
//!
//! Whatever the future does when it is polled or dropped, panic included, ends here in a result for the task's
//! state: exactly one, and only after the future is gone. `async-task` itself would end the process if a future
//! panicked in its destructor.

use super::{JoinError, State};
use crate::panics::catch;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

pub(super) struct Guarded<F: Future> {
    /// Pinned with this struct: never moved out, only dropped in place. `None` when it is done.
    future: Option<F>,
    state: Rc<State<F::Output>>,
}

impl<F: Future> Guarded<F> {
    pub(super) fn new(future: F, state: Rc<State<F::Output>>) -> Self {
        Guarded { future: Some(future), state }
    }

    fn future(self: Pin<&mut Self>) -> Pin<&mut Option<F>> {
        // SAFETY: `future` is pinned whenever this struct is: nothing here moves it, the struct is `Unpin` only
        // if `F` is, and its `Drop` only uses it through this function.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }
    }

    /// Drops the future and tells the state the result, which is a panic if the future's destructor does.
    fn settle(mut self: Pin<&mut Self>, result: Result<F::Output, JoinError>) {
        let dropped = catch(|| self.as_mut().future().set(None));
        let result = match dropped {
            Ok(()) => result,
            Err(text) => {
                // The output is the user's as well.
                let _ = catch(|| drop(result));
                Err(JoinError::Panicked(text))
            }
        };
        let state = Rc::clone(&self.state);
        // Wakes somebody or drops an output that nobody wants: foreign code either way.
        if let Err(text) = catch(|| state.settle(result)) {
            state.report(text);
        }
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = match self.as_mut().future().as_pin_mut() {
            Some(future) => catch(|| future.poll(cx)),
            None => return Poll::Ready(()),
        };
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(text) => Err(JoinError::Panicked(text)),
        };
        self.settle(result);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for Guarded<F> {
    fn drop(&mut self) {
        if self.future.is_some() {
            // SAFETY: a value that is being dropped is not moved any more.
            let this = unsafe { Pin::new_unchecked(self) };
            this.settle(Err(JoinError::Cancelled));
        }
    }
}
