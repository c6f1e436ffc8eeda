//! `SharedStream`: the state that the reader and the writer of one connection share.

use super::buffered::{Buffered, SelectSlot};
use crate::net::connection::{ProtocolRef, Transport};
use crate::sync::wait_list::WaitList;
use crate::task::waits_for;
use std::cell::OnceCell;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection and its receive buffer. Dropping the last reference closes the connection gracefully.
pub(crate) struct SharedStream {
    /// Set before the reader and the writer exist.
    transport: OnceCell<Transport>,
    pub(super) buffered: Buffered,
}

impl SharedStream {
    /// The state of a connection that is not open yet. Its protocol is [`SharedStream::protocol_ref`].
    pub(super) fn new(limit: usize) -> Rc<Self> {
        Rc::new(SharedStream { transport: OnceCell::new(), buffered: Buffered::new(limit) })
    }

    /// The protocol of the connection.
    pub(super) fn protocol_ref(self: &Rc<Self>) -> ProtocolRef {
        ProtocolRef::Stream(Rc::downgrade(self))
    }

    /// The connection is open.
    pub(super) fn set_transport(&self, transport: Transport) {
        // It is opened once.
        let _ = self.transport.set(transport);
    }

    pub(super) fn transport(&self) -> &Transport {
        match self.transport.get() {
            Some(transport) => transport,
            None => unreachable!("a reader or writer exists only after the connection was opened"),
        }
    }

    /// The protocol that receives the events of the connection.
    pub(crate) fn protocol(&self) -> &Buffered {
        &self.buffered
    }

    /// Polls `check`. If it returns `None`, the task waits in `list` with its slot, and is woken when `check` may
    /// succeed.
    pub(super) fn poll_until<R>(
        &self,
        list: &WaitList,
        select: SelectSlot,
        cx: &Context<'_>,
        mut check: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        // Out of the stream while it is in use, because wakers may re-enter.
        let mut slot = self.buffered.take_slot(select);
        let polled = loop {
            if let Some(result) = check() {
                list.cancel_wait(&mut slot);
                break Poll::Ready(result);
            }
            if list.poll_wait(&mut slot, cx).is_pending() {
                waits_for("a stream");
                break Poll::Pending;
            }
        };
        if polled.is_pending() {
            self.buffered.store_slot(select, slot);
        }
        polled
    }

    /// No task polls any more.
    pub(super) fn cancel_wait(&self, list: fn(&Buffered) -> &WaitList, select: SelectSlot) {
        let mut slot = self.buffered.take_slot(select);
        if !slot.is_empty() {
            list(&self.buffered).cancel_wait(&mut slot);
        }
    }

    /// Passes the connection to a new owner, which closes it.
    #[allow(dead_code, reason = "used by TLS, which is an optional feature")]
    pub(super) fn release_transport(&self) -> Transport {
        self.buffered.is_released.set(true);
        self.transport().clone()
    }

    pub(super) fn is_released(&self) -> bool {
        self.buffered.is_released.get()
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        if let Some(transport) = self.transport.get().filter(|_| !self.is_released()) {
            transport.close();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::net::UnixStream;
    use crate::net::stream::DEFAULT_LIMIT;
    use crate::{run, spawn, yield_now};

    #[test]
    fn a_stream_that_is_read_when_data_arrives_allocates_neither_a_buffer_nor_extras() {
        let echoed = run(async {
            let (near, far) = UnixStream::pair()?;
            let far = Rc::new(far);
            let echo = Rc::clone(&far);
            spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = echo.read(&mut buffer).await {
                    echo.write_all(&buffer[..count]).await.unwrap();
                    echo.split().1.drain().await.unwrap();
                }
            });
            yield_now().await;
            for _ in 0..3 {
                near.write_all(b"hello").await?;
                assert_eq!(near.read_exactly(5).await.unwrap(), b"hello");
            }
            let shared = &far.split().1.shared;
            assert!(!shared.buffered.has_allocated());
            assert!(near.split().1.shared.buffered.has_allocated(), "`read_exactly` needs the buffer");
            far.split().0.set_limit(1);
            assert_eq!((far.split().0.limit(), near.split().0.limit()), (1, DEFAULT_LIMIT));
            assert!(shared.buffered.has_allocated());
            std::io::Result::Ok(())
        });
        echoed.unwrap().unwrap();
    }
}
