//! `SignalKind`: a signal by its name.

/// A signal. It is a number, so it may go anywhere.
///
/// ```
/// use mainspring::signal::SignalKind;
///
/// assert_eq!(SignalKind::interrupt().as_raw(), 2);
/// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
///
/// // What ends a service, and what it tells apart otherwise.
/// let ends = [SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];
/// assert!(!ends.contains(&SignalKind::hangup()));
/// let other = [
///     SignalKind::alarm(),
///     SignalKind::child(),
///     SignalKind::resume(),
///     SignalKind::io(),
///     SignalKind::pipe(),
///     SignalKind::user_defined1(),
///     SignalKind::user_defined2(),
///     SignalKind::window_change(),
/// ];
/// assert!(other.iter().all(|kind| !ends.contains(kind)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalKind(i32);

impl SignalKind {
    /// The signal of this number. What is no signal, or cannot be caught, is refused where it is used.
    pub const fn from_raw(signum: i32) -> Self {
        SignalKind(signum)
    }

    /// The signal's number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// SIGALRM: a timer of the system's went off.
    pub const fn alarm() -> Self {
        SignalKind(libc::SIGALRM)
    }

    /// SIGCHLD: a child process stopped, went on or ended. Child processes are watched without it.
    pub const fn child() -> Self {
        SignalKind(libc::SIGCHLD)
    }

    /// SIGCONT: this process goes on after it was stopped.
    pub const fn resume() -> Self {
        SignalKind(libc::SIGCONT)
    }

    /// SIGHUP: the terminal is gone; to a service: read the configuration again.
    pub const fn hangup() -> Self {
        SignalKind(libc::SIGHUP)
    }

    /// SIGINT: Ctrl-C.
    pub const fn interrupt() -> Self {
        SignalKind(libc::SIGINT)
    }

    /// SIGIO: a descriptor that was set up for it is ready.
    pub const fn io() -> Self {
        SignalKind(libc::SIGIO)
    }

    /// SIGPIPE: a pipe was written that nobody reads. Rust programs ignore it from the start, and see an error.
    pub const fn pipe() -> Self {
        SignalKind(libc::SIGPIPE)
    }

    /// SIGQUIT: Ctrl-\, the end with a core dump.
    pub const fn quit() -> Self {
        SignalKind(libc::SIGQUIT)
    }

    /// SIGTERM: the polite request to end.
    pub const fn terminate() -> Self {
        SignalKind(libc::SIGTERM)
    }

    /// SIGUSR1, which means what the program says.
    pub const fn user_defined1() -> Self {
        SignalKind(libc::SIGUSR1)
    }

    /// SIGUSR2, which means what the program says.
    pub const fn user_defined2() -> Self {
        SignalKind(libc::SIGUSR2)
    }

    /// SIGWINCH: the terminal has another size.
    pub const fn window_change() -> Self {
        SignalKind(libc::SIGWINCH)
    }
}

impl From<i32> for SignalKind {
    fn from(signum: i32) -> Self {
        SignalKind(signum)
    }
}

impl From<SignalKind> for i32 {
    fn from(kind: SignalKind) -> Self {
        kind.0
    }
}
