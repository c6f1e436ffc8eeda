//! `Stream` for the receivers of channels, for the combinators of the `futures` crate.

use super::{mpsc, threadsafe};
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Yields the values of [`recv`](mpsc::Receiver::recv).
impl<T> Stream for mpsc::Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}

/// Yields the values of [`recv`](threadsafe::Receiver::recv).
impl<T> Stream for threadsafe::Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}
