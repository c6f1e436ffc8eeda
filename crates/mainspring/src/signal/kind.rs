//! `SignalKind`: names of signals.

/// A signal number. It is `Send`.
///
/// ```
/// use mainspring::signal::SignalKind;
///
/// assert_eq!(SignalKind::interrupt().as_raw(), 2);
/// assert_eq!(SignalKind::from_raw(15), SignalKind::terminate());
///
/// // Signals that end a service, and others.
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
    /// The signal with this number. An invalid number is reported when it is used.
    pub const fn from_raw(signum: i32) -> Self {
        SignalKind(signum)
    }

    /// The number of the signal.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// SIGALRM: a system timer expired.
    pub const fn alarm() -> Self {
        SignalKind(libc::SIGALRM)
    }

    /// SIGCHLD: a child process stopped, continued or exited. This crate does not need it to watch children.
    pub const fn child() -> Self {
        SignalKind(libc::SIGCHLD)
    }

    /// SIGCONT: this process continues after a stop.
    pub const fn resume() -> Self {
        SignalKind(libc::SIGCONT)
    }

    /// SIGHUP: the terminal is closed; services reload their configuration.
    pub const fn hangup() -> Self {
        SignalKind(libc::SIGHUP)
    }

    /// SIGINT: Ctrl-C.
    pub const fn interrupt() -> Self {
        SignalKind(libc::SIGINT)
    }

    /// SIGIO: an fd with O_ASYNC is ready.
    pub const fn io() -> Self {
        SignalKind(libc::SIGIO)
    }

    /// SIGPIPE: a write to a pipe without a reader. Rust programs ignore it from the start and get an error instead.
    pub const fn pipe() -> Self {
        SignalKind(libc::SIGPIPE)
    }

    /// SIGQUIT: Ctrl-\, exit with a core dump.
    pub const fn quit() -> Self {
        SignalKind(libc::SIGQUIT)
    }

    /// SIGTERM: a request to exit.
    pub const fn terminate() -> Self {
        SignalKind(libc::SIGTERM)
    }

    /// SIGUSR1: defined by the program.
    pub const fn user_defined1() -> Self {
        SignalKind(libc::SIGUSR1)
    }

    /// SIGUSR2: defined by the program.
    pub const fn user_defined2() -> Self {
        SignalKind(libc::SIGUSR2)
    }

    /// SIGWINCH: the size of the terminal has changed.
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
