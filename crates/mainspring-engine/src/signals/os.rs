//! The signal handler, for programs without a runtime that has one.
//!
//! # Rules
//!
//! - The handler uses atomics, asks for the process id and sends a byte. It takes no lock, neither allocates nor
//!   frees, and preserves `errno`.
//! - A [`Listener`] is never freed, only reused, so the handler may walk the list at any time.
//! - Its fd is behind a [`Gate`] and is closed only after the gate was shut.
//! - The lock of `ACTIONS` guards everything else.
//!
//! # The previous action
//!
//! While a signal has listeners, this handler replaces the previous action, which is not called, as with asyncio's
//! `add_signal_handler`. When the last listener is removed, the previous action is restored, unless other code has
//! installed another handler meanwhile. If that code later restores this handler, it does nothing, and the signal is
//! ignored.
//!
//! A forked child shares the pipes of its parent; its handlers do not write to them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::net::SendFlags;

use super::gate::Gate;
use super::{SignalPipe, check_signal};

/// The head of a list that only grows. `OnceLock::get` is one load, so the handler may call it.
static LISTENERS: Listener = Listener::vacant();

/// For each signal that ever had a listener: the number of listeners, and the previous action.
static ACTIONS: Mutex<BTreeMap<i32, Action>> = Mutex::new(BTreeMap::new());

struct Listener {
    /// The fd to write to; shut while the listener is unused.
    gate: Gate,
    signum: AtomicI32,
    /// The process of the listener.
    pid: AtomicI32,
    next: OnceLock<Box<Listener>>,
}

struct Action {
    listeners: usize,
    former: libc::sigaction,
}

/// Catches a signal for a pipe until it is dropped.
pub struct Installed {
    signum: i32,
    listener: &'static Listener,
    /// Keeps the fd open while the handler may write to it.
    _write_end: Arc<OwnedFd>,
}

/// Writes the number of every `signum` that this process receives to `pipe`. One signal may have several pipes.
///
/// `InvalidInput` for an invalid signal number, for signals that cannot be caught (SIGKILL, SIGSTOP), and for faults
/// (SIGSEGV, SIGBUS, SIGFPE, SIGILL), which would recur when the handler returns.
pub fn install(signum: i32, pipe: &SignalPipe) -> io::Result<Installed> {
    check_signal(signum)?;
    let refused = match signum {
        libc::SIGKILL | libc::SIGSTOP => Some("cannot be caught"),
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL => {
            Some("is a fault of the running code, which a loop cannot handle")
        }
        _ => None,
    };
    if let Some(reason) = refused {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("sig {signum} {reason}")));
    }

    let mut actions = lock();
    let write_end = Arc::clone(&pipe.write_end);
    let listener = LISTENERS.first_vacant();
    // Open the gate last: a handler that enters sees the other fields.
    listener.signum.store(signum, Relaxed);
    listener.pid.store(own_pid(), Relaxed);
    listener.gate.open(write_end.as_raw_fd());
    if let Err(error) = add_listener(&mut actions, signum) {
        listener.gate.shut();
        return Err(error);
    }
    Ok(Installed { signum, listener, _write_end: write_end })
}

/// Adds a listener of `signum`; the first one installs the handler.
fn add_listener(actions: &mut BTreeMap<i32, Action>, signum: i32) -> io::Result<()> {
    let known = actions.get_mut(&signum);
    if let Some(action) = known.filter(|action| action.listeners > 0) {
        action.listeners += 1;
        return Ok(());
    }
    let former = exchange(signum, Some(&our_action()))?;
    let action = actions.entry(signum).or_insert(Action { listeners: 0, former });
    action.listeners = 1;
    // If this handler could not be removed the last time, `former` is this handler; keep the action known before.
    if !is_ours(&former) {
        action.former = former;
    }
    Ok(())
}

impl Installed {
    /// The signal number.
    pub fn signum(&self) -> i32 {
        self.signum
    }
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").field("signum", &self.signum).finish_non_exhaustive()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut actions = lock();
        if let Some(action) = actions.get_mut(&self.signum) {
            action.listeners -= 1;
            // Restore the action before removing the listener: a signal in between has its previous effect instead of
            // none. Neither call can fail for a signal that the system accepted before.
            if action.listeners == 0 && exchange(self.signum, None).is_ok_and(|current| is_ours(&current)) {
                let _ = exchange(self.signum, Some(&action.former));
            }
        }
        self.listener.gate.shut();
    }
}

impl Listener {
    const fn vacant() -> Self {
        Listener {
            gate: Gate::new_shut(),
            signum: AtomicI32::new(0),
            pid: AtomicI32::new(0),
            next: OnceLock::new(),
        }
    }

    /// The first unused listener from here on; appends one if there is none. The caller holds the lock.
    fn first_vacant(&'static self) -> &'static Listener {
        let mut listener = self;
        while !listener.gate.is_shut() {
            listener = listener.next.get_or_init(|| Box::new(Listener::vacant()));
        }
        listener
    }

    /// Writes `signum` if this listener is for it. Runs in the handler.
    fn notify(&self, signum: i32, byte: u8, pid: i32) {
        self.gate.enter(|fd| {
            if self.signum.load(Relaxed) != signum || self.pid.load(Relaxed) != pid {
                return;
            }
            // SAFETY: the `Installed` that opened the gate owns a share of the fd and releases it only after it has
            // shut the gate, which waits until this closure has returned.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // A full pipe already wakes the loop; a pipe without a reader needs no signal.
            let _ = rustix::net::send(fd, &[byte], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        });
    }
}

extern "C" fn on_signal(signum: libc::c_int) {
    let errno = errno::errno();
    if let Ok(byte) = u8::try_from(signum) {
        let pid = own_pid();
        let mut listener = Some(&LISTENERS);
        while let Some(current) = listener {
            current.notify(signum, byte, pid);
            listener = current.next.get().map(Box::as_ref);
        }
    }
    errno::set_errno(errno);
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

fn lock() -> MutexGuard<'static, BTreeMap<i32, Action>> {
    // No foreign code runs under the lock, so the state is consistent even if the lock is poisoned.
    ACTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handler_address() -> libc::sighandler_t {
    on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler_address()
}

fn our_action() -> libc::sigaction {
    // SAFETY: `sigaction` is a C structure of integers and nullable pointers, for which zeroes are valid: an empty
    // mask and no restorer.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler_address();
    // Interrupted system calls restart, and threads with a small stack use their alternate one.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

/// Installs `new`, if any, and returns the previous action.
fn exchange(signum: i32, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `new` is null, or points to this module's action, whose handler is async-signal-safe (see the rules
    // above), or to one that the system returned for this signal; `old` has room for one.
    if unsafe { libc::sigaction(signum, new, old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the system has filled `old`.
    Ok(unsafe { old.assume_init() })
}
