//! System calls for which rustix has no safe function that fits. All the `unsafe` of the poller is here.
//!
//! - `epoll_ctl`: rustix takes a borrowed and therefore open fd, but the program may have closed the one that it
//!   registered with `add_reader()`.
//! - `epoll_wait`: rustix chooses between `epoll_pwait` and `epoll_pwait2` at build time, by a feature that any other
//!   crate in a program may enable. The choice must be made at run time, because the same build runs on old kernels
//!   and under seccomp profiles that refuse the newer call.
//! - The name in a Unix address: rustix asserts that a path ends in a zero byte inside `sun_path`, but a peer may
//!   bind to a path that fills all 108 bytes, and must not be able to panic the loop.
//! - An fd that may be closed, for calls that only describe it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketAddrAny;

/// Calls `describe` with an fd that may be closed. It must only make system calls that describe the fd: on a closed one
/// these fail with `EBADF`.
pub(super) fn inspect<R>(fd: RawFd, describe: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
    // A negative number stands for no fd.
    let fd = if fd < 0 { RawFd::MAX } else { fd };
    // SAFETY: `fd` is not -1. The kernel checks the number in every call, and a description of the wrong file does no
    // harm.
    describe(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The operation of `epoll_ctl`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Operation {
    Add = libc::EPOLL_CTL_ADD,
    Modify = libc::EPOLL_CTL_MOD,
    Delete = libc::EPOLL_CTL_DEL,
}

/// Changes the registration of `fd`, which may be closed: the kernel then returns `EBADF`.
pub(super) fn epoll_ctl(
    epoll: BorrowedFd<'_>,
    operation: Operation,
    fd: RawFd,
    flags: u32,
    data: u64,
) -> Result<(), Errno> {
    let mut event = libc::epoll_event { events: flags, u64: data };
    // SAFETY: `event` is valid for the duration of the call, and the kernel only reads it. Any fd numbers are sound:
    // the kernel checks them.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation as i32, fd, &raw mut event) };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// The timeout of `epoll_pwait2`: the kernel's own `timespec`, with 64-bit fields on every architecture.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// The buffer that the kernel writes events into. Only a wait changes its length.
pub(super) struct EventBuffer(Vec<libc::epoll_event>);

impl EventBuffer {
    /// An empty buffer with room for `capacity` events.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        EventBuffer(Vec::with_capacity(capacity))
    }

    /// The number of events of the last wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The flags and data of each event of the last wait.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|event| (event.events, event.u64))
    }

    /// Waits with `epoll_wait`: `timeout` in milliseconds, negative for no limit.
    pub(super) fn wait_millis(
        &mut self,
        epoll: BorrowedFd<'_>,
        max_events: usize,
        timeout: i32,
    ) -> io::Result<()> {
        self.fill(max_events, |events, room| {
            // SAFETY: `events` points at `room` writable events for the duration of the call.
            unsafe { libc::epoll_wait(epoll.as_raw_fd(), events, room, timeout) }
        })
    }

    /// Waits with `epoll_pwait2`, with nanosecond resolution. `ENOSYS` before Linux 5.11.
    pub(super) fn wait_nanos(
        &mut self,
        epoll: BorrowedFd<'_>,
        max_events: usize,
        timeout: Duration,
    ) -> io::Result<()> {
        let timeout = KernelTimespec {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(timeout.subsec_nanos()),
        };
        let no_signal_mask = std::ptr::null::<libc::sigset_t>();
        self.fill(max_events, |events, room| {
            // SAFETY: `events` points at `room` writable events and `timeout` at a valid timespec for the duration of
            // the call; a null mask leaves the signal mask alone, and the kernel then ignores its size.
            unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll.as_raw_fd(),
                    events,
                    room,
                    &raw const timeout,
                    no_signal_mask,
                    0_usize,
                ) as libc::c_int
            }
        })
    }

    /// Runs `wait`, which writes at most `room` events from the pointer on and returns their number, or -1 with
    /// `errno` set.
    fn fill(
        &mut self,
        max_events: usize,
        wait: impl FnOnce(*mut libc::epoll_event, libc::c_int) -> libc::c_int,
    ) -> io::Result<()> {
        self.0.clear();
        let room = libc::c_int::try_from(self.0.capacity().min(max_events)).unwrap_or(libc::c_int::MAX);
        let count =
            usize::try_from(wait(self.0.as_mut_ptr(), room)).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: both callers make the kernel write `count` events from the start of the vector's memory. The kernel
        // never reports more than `room`, which is at most the capacity.
        unsafe { self.0.set_len(count) };
        Ok(())
    }
}

/// The name bytes of a Unix address: everything after the family, as long as the kernel says.
pub(super) fn unix_name(address: &SocketAddrAny) -> &[u8] {
    let length = address.addr_len() as usize;
    // SAFETY: rustix keeps `addr_len` initialised bytes at `as_ptr` for as long as the address lives.
    let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>(), length) };
    bytes.get(std::mem::offset_of!(libc::sockaddr_un, sun_path)..).unwrap_or_default()
}
