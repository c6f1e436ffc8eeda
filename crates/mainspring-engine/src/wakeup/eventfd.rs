//! An eventfd: one counter in the kernel that any thread may raise and a poller can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::Waker;
use std::sync::{Arc, Mutex, PoisonError};

/// A descriptor that is readable from the first [`write`](EventFd::write) until the next
/// [`drain`](EventFd::drain), and announces every write to who waits for
/// [`Interest::WAKE`](crate::poller::Interest::WAKE). Non-blocking and close-on-exec.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens one that is not readable yet.
    pub fn new() -> io::Result<Self> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable, and announces that also if it was before.
    pub fn write(&self) -> io::Result<()> {
        match self.add_one() {
            // A full counter takes no more, and what is not written is not announced.
            Err(Errno::AGAIN) => {
                self.drain()?;
                match self.add_one() {
                    // Others have filled it again: one of their writes is the announcement.
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

    /// Makes it unreadable again, and tells whether it was readable.
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
        // What `write` could still report is a descriptor that is none, and this one is owned and open.
        let _ = self.write();
    }
}

/// The eventfd of a loop as other threads hold it: until the loop closes.
///
/// A closed loop gives its descriptors back at once, and the number may mean something else in the next moment. So a
/// thread that is just waking the loop holds the eventfd itself, and whoever lets go of it last closes it.
#[derive(Debug)]
pub struct LoopWaker(Mutex<Option<Arc<EventFd>>>);

impl LoopWaker {
    /// A waker that writes to `event`.
    pub fn new(event: Arc<EventFd>) -> Self {
        LoopWaker(Mutex::new(Some(event)))
    }

    /// Wakes with `event` from here on.
    pub fn replace(&self, event: Arc<EventFd>) {
        let former = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(event);
        drop(former);
    }

    /// Lets go of the eventfd: there is nobody to wake any more.
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
    fn a_closed_waker_holds_no_descriptor_and_wakes_nobody() {
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
    fn it_is_closed_in_a_program_that_is_executed() {
        let event = EventFd::new().unwrap();
        assert!(rustix::io::fcntl_getfd(&event).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
