//! The receiving ends of channels as `Stream`s, for the combinators of the `futures` crate.

use super::{mpsc, threadsafe};
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What [`recv`](mpsc::Receiver::recv) gives, until there is no more.
impl<T> Stream for mpsc::Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}

/// What [`recv`](threadsafe::Receiver::recv) gives, until there is no more.
impl<T> Stream for threadsafe::Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}
