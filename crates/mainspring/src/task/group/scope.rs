//! The scope of a task group: runs the body, handles failures, and ends after the body and all children.

use super::{ChildError, Group, GroupStage};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ends a group when dropped: at the end of the scope, or when its future is dropped.
pub(super) struct EndOnDrop<'a, E: 'static>(&'a Group<E>);

impl<'a, E> EndOnDrop<'a, E> {
    pub(super) fn new(group: &'a Group<E>) -> Self {
        EndOnDrop(group)
    }
}

impl<E> Drop for EndOnDrop<'_, E> {
    fn drop(&mut self) {
        self.0.stage.set(GroupStage::Ended);
        self.0.cancel_children();
        let waker = self.0.waker.take();
        drop(waker);
        let discarded = self.0.errors.take();
        discarded.into_iter().for_each(|error| self.0.discard_error(error));
    }
}

/// A running scope.
pub(super) struct Scope<'a, R, E: 'static, F> {
    group: &'a Group<E>,
    /// `None` when it is done or was dropped.
    body: Pin<&'a mut Option<F>>,
    result: Option<R>,
}

impl<'a, R, E: 'static, F: Future<Output = Result<R, E>>> Scope<'a, R, E, F> {
    pub(super) fn new(group: &'a Group<E>, body: Pin<&'a mut Option<F>>) -> Self {
        Scope { group, body, result: None }
    }

    /// Ready when the body and all children are dropped.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<R>> {
        // Registered before the checks, so that later events wake the task.
        let former = self.group.waker.replace(Some(cx.waker().clone()));
        drop(former);
        self.abort_if_failed();
        if self.group.stage.get() == GroupStage::Open
            && let Some(body) = self.body.as_mut().as_pin_mut()
        {
            match self.group.catch(|| body.poll(cx)) {
                None | Some(Poll::Pending) => {}
                Some(Poll::Ready(Ok(result))) => {
                    self.result = Some(result);
                    self.drop_body();
                }
                Some(Poll::Ready(Err(error))) => {
                    self.drop_body();
                    self.group.fail(ChildError::Failed { task: None, error });
                }
            }
        }
        self.abort_if_failed();
        if self.body.is_none() && self.group.children.borrow().is_empty() {
            return Poll::Ready(self.result.take());
        }
        Poll::Pending
    }

    fn abort_if_failed(&mut self) {
        if self.group.stage.get() == GroupStage::Open && self.group.has_failed() {
            self.group.stage.set(GroupStage::Aborting);
            self.group.cancel_children();
            self.drop_body();
        }
    }

    fn drop_body(&mut self) {
        let mut body = self.body.as_mut();
        self.group.catch(|| body.set(None));
    }
}
