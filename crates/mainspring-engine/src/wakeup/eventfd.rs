//! An eventfd: a kernel counter that any thread may increment and a poller can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::Waker;
use std::sync::{Arc, Mutex, PoisonError};

/// An fd that is readable from the first [`write`](EventFd::write) until the next [`drain`](EventFd::drain), and
/// reports every write to a waiter with [`Interest::WAKE`](crate::poller::Interest::WAKE). Non-blocking and
/// close-on-exec.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens an eventfd that is not readable yet.
    pub fn new() -> io::Result<Self> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the fd readable, and causes an edge even if it was readable before.
    pub fn write(&self) -> io::Result<()> {
        match self.add_one() {
            // A full counter rejects the write, which then causes no edge.
            Err(Errno::AGAIN) => {
                self.drain()?;
                match self.add_one() {
                    // Other threads have filled it again: one of their writes caused the edge.
                    Err(Errno::AGAIN) => Ok(()),
                    written => Ok(written?),
                }
            }
            written => Ok(written?),
        }
    }

    fn add_one(&self) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes())).map(drop)
    }

    /// Makes the fd unreadable. Returns whether it was readable.
    pub fn drain(&self) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0u8; 8])) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Waker for EventFd {
    fn wake(&self) {
        // The only remaining error is an invalid fd, and this one is owned and open.
        let _ = self.write();
    }
}

/// The eventfd of a loop, shared with other threads until the loop closes.
///
/// A closed loop releases its fds at once, and the kernel may reuse the number. A thread that is waking the loop
/// therefore holds the eventfd itself; the last holder closes it.
#[derive(Debug)]
pub struct LoopWaker(Mutex<Option<Arc<EventFd>>>);

impl LoopWaker {
    /// A waker that writes to `event`.
    pub fn new(event: Arc<EventFd>) -> Self {
        LoopWaker(Mutex::new(Some(event)))
    }

    /// Replaces the eventfd.
    pub fn replace(&self, event: Arc<EventFd>) {
        let former = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(event);
        drop(former);
    }

    /// Releases the eventfd: later wake-ups have no effect.
    pub fn close(&self) {
        let event = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(event);
    }
}

impl Waker for LoopWaker {
    fn wake(&self) {
        let event = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(event) = event {
            event.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(event: &EventFd) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_a_write_until_the_drain() {
        let event = EventFd::new().unwrap();
        assert!(!is_readable(&event));
        event.write().unwrap();
        event.write().unwrap();
        assert!(is_readable(&event));
        assert!(event.drain().unwrap());
        assert!(!is_readable(&event));
        assert!(!event.drain().unwrap());
    }

    #[test]
    fn a_closed_waker_holds_no_fd_and_does_not_wake() {
        let event = Arc::new(EventFd::new().unwrap());
        let waker = LoopWaker::new(event.clone());
        waker.wake();
        assert!(event.drain().unwrap());
        waker.close();
        assert_eq!(Arc::strong_count(&event), 1);
        waker.wake();
        assert!(!is_readable(&event));
    }

    #[test]
    fn a_full_counter_counts_as_woken() {
        let event = EventFd::new().unwrap();
        let fullest = u64::MAX - 1;
        rustix::io::write(&event, &fullest.to_ne_bytes()).unwrap();
        event.write().unwrap();
        assert!(event.drain().unwrap());
    }

    #[test]
    fn it_is_close_on_exec() {
        let event = EventFd::new().unwrap();
        assert!(rustix::io::fcntl_getfd(&event).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
