//! Catching signals from the system, for programs without a runtime of their own that does it.
//!
//! # Rules
//!
//! - The handler touches atomics, asks for the process id and sends a byte. It takes no lock, allocates
//!   nothing, frees nothing, and leaves `errno` as it was.
//! - A [`Listener`] is never freed, only used again, so the handler may walk the list at any time.
//! - Its descriptor is behind a [`Gate`], and is closed only after that was shut.
//! - Everything else is under the lock of `ACTIONS`.
//!
//! # What happens to the former action
//!
//! While anybody listens, ours replaces what was there, as asyncio's `add_signal_handler` does: it is not
//! called. When the last listener goes it is put back, if our handler is still the one in place. If somebody
//! has installed theirs over ours in the meantime, that is left alone; should they then put ours back, it
//! does nothing, and the signal is ignored.
//!
//! A child made by `fork` shares the pipes of its parent; its handlers do not write to them.

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

/// The first listener of a list that only grows. `OnceLock::get` is one load: the handler may use it.
static LISTENERS: Listener = Listener::vacant();

/// Per signal that was ever listened to: how often it is now, and what was in place before.
static ACTIONS: Mutex<BTreeMap<i32, Action>> = Mutex::new(BTreeMap::new());

struct Listener {
    /// Where to write; shut when nobody uses this listener.
    gate: Gate,
    signum: AtomicI32,
    /// The process that listens.
    pid: AtomicI32,
    next: OnceLock<Box<Listener>>,
}

struct Action {
    listeners: usize,
    former: libc::sigaction,
}

/// A signal that is caught for a pipe, until this is dropped.
pub struct Installed {
    signum: i32,
    listener: &'static Listener,
    /// Open as long as the handler may write to it.
    _write_end: Arc<OwnedFd>,
}

/// Has the number of every `signum` that this process receives written to `pipe`. Several pipes may listen to
/// one signal, and each is told.
///
/// `InvalidInput` for what is no signal, for what cannot be caught (SIGKILL, SIGSTOP), and for the faults of
/// running code (SIGSEGV, SIGBUS, SIGFPE, SIGILL), which would only occur again when the handler returns.
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
    // The gate goes last: who comes through it sees the rest.
    listener.signum.store(signum, Relaxed);
    listener.pid.store(own_pid(), Relaxed);
    listener.gate.open(write_end.as_raw_fd());
    if let Err(error) = add_listener(&mut actions, signum) {
        listener.gate.shut();
        return Err(error);
    }
    Ok(Installed { signum, listener, _write_end: write_end })
}

/// Counts one more listener of `signum`, and puts our handler in place for the first.
fn add_listener(actions: &mut BTreeMap<i32, Action>, signum: i32) -> io::Result<()> {
    let known = actions.get_mut(&signum);
    if let Some(action) = known.filter(|action| action.listeners > 0) {
        action.listeners += 1;
        return Ok(());
    }
    let former = exchange(signum, Some(&our_action()))?;
    let action = actions.entry(signum).or_insert(Action { listeners: 0, former });
    action.listeners = 1;
    // Ours was still there if the last time it could not be taken out; what was in place before it is what
    // is known already.
    if !is_ours(&former) {
        action.former = former;
    }
    Ok(())
}

impl Installed {
    /// The signal that is caught.
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
            // The action goes before the listener: a signal in between has its former effect instead of none.
            // The system refuses neither call for a signal that it accepted before.
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

    /// The first of this and the following that nobody uses, added if there is none. Under the lock.
    fn first_vacant(&'static self) -> &'static Listener {
        let mut listener = self;
        while !listener.gate.is_shut() {
            listener = listener.next.get_or_init(|| Box::new(Listener::vacant()));
        }
        listener
    }

    /// Tells this listener of `signum` if it wants to know. In the handler.
    fn notify(&self, signum: i32, byte: u8, pid: i32) {
        self.gate.enter(|fd| {
            if self.signum.load(Relaxed) != signum || self.pid.load(Relaxed) != pid {
                return;
            }
            // SAFETY: the `Installed` that opened the gate owns a share of the descriptor, and gives it up only
            // after it has shut the gate, which waits until this closure has returned.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // A full pipe already makes the loop look; a pipe whose reader is gone has nobody to tell.
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
    // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
    ACTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handler_address() -> libc::sighandler_t {
    on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handler_address()
}

fn our_action() -> libc::sigaction {
    // SAFETY: `sigaction` is a C structure of integers and optional pointers, for which zeros are valid: an
    // empty mask and no restorer.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler_address();
    // Interrupted calls go on by themselves, and threads with a small stack use their alternate one.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

/// Puts `new` in place, or nothing if it is `None`, and gives what was in place.
fn exchange(signum: i32, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `new` is null or points to an action that is ours, whose handler is async-signal-safe (see the
    // rules above), or to one that the system gave for this signal; `old` has room for one.
    if unsafe { libc::sigaction(signum, new, old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the system has filled it in.
    Ok(unsafe { old.assume_init() })
}
