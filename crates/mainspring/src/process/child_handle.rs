//! `Child`: a child process and its pipes.

use super::exit_watcher::ExitWatcher;
use crate::event_loop::Core;
use crate::net::{StreamReader, StreamWriter};
use crate::pipe::{reader_on, writer_on};
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output};
use std::rc::Rc;

/// The write end of a child's standard input. Dropping or closing it ends the child's input.
///
/// ```
/// use mainspring::process::{ChildStdin, Command, Stdio};
///
/// # mainspring::run(async {
/// let mut sort = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// let stdin: ChildStdin = sort.stdin.take().unwrap();
/// stdin.write_all(b"b\na\n").await?;
/// drop(stdin);
/// assert_eq!(sort.wait_with_output().await?.stdout, b"a\nb\n");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type ChildStdin = StreamWriter;

/// The read end of a child's standard output.
///
/// ```
/// use mainspring::process::{ChildStdout, Command, Stdio};
///
/// # mainspring::run(async {
/// let mut child = Command::shell("echo one; echo two").stdout(Stdio::piped()).spawn()?;
/// let stdout: ChildStdout = child.stdout.take().unwrap();
/// assert_eq!(stdout.read_line().await?, b"one\n");
/// assert_eq!(stdout.read_line().await?, b"two\n");
/// assert!(child.wait().await?.success());
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type ChildStdout = StreamReader;

/// The read end of a child's standard error.
///
/// ```
/// use mainspring::process::{ChildStderr, Command, Stdio};
///
/// # mainspring::run(async {
/// let mut child = Command::shell("echo no >&2; exit 1").stderr(Stdio::piped()).spawn()?;
/// let stderr: ChildStderr = child.stderr.take().unwrap();
/// assert_eq!(stderr.read_to_end().await?, b"no\n");
/// assert_eq!(child.wait().await?.code(), Some(1));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type ChildStderr = StreamReader;

/// A process started by [`Command::spawn`](super::Command::spawn).
///
/// Dropping it closes the pipes. The process continues, unless [`kill_on_drop`](super::Command::kill_on_drop) is set.
/// It is reaped in both cases.
///
/// It is not `Send`.
///
/// ```
/// use mainspring::process::{Command, Stdio};
///
/// # mainspring::run(async {
/// let mut child = Command::shell("while read line; do echo \"$line, you say\"; done")
///     .stdin(Stdio::piped())
///     .stdout(Stdio::piped())
///     .spawn()?;
/// let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { unreachable!() };
/// for question in ["nice weather", "good food"] {
///     stdin.write_all(format!("{question}\n").as_bytes()).await?;
///     assert_eq!(stdout.read_line().await?, format!("{question}, you say\n").as_bytes());
/// }
/// drop(stdin);
/// assert!(child.wait().await?.success(), "process {} ended badly", child.pid());
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Child {
    exit_watcher: Rc<ExitWatcher>,
    kill_on_drop: bool,
    /// The child's standard input, if it is piped.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is piped.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is piped.
    pub stderr: Option<ChildStderr>,
}

impl Child {
    /// Starts watching a process and opens its pipes. Kills the process on failure.
    pub(super) fn start(
        core: &Rc<Core>,
        mut started: std::process::Child,
        kill_on_drop: bool,
    ) -> io::Result<Self> {
        let (stdin, stdout, stderr) = (started.stdin.take(), started.stdout.take(), started.stderr.take());
        let exit_watcher = ExitWatcher::start(core, started)?;
        // Killed if a later step fails.
        let mut child = Child { exit_watcher, kill_on_drop: true, stdin: None, stdout: None, stderr: None };
        child.stdin = stdin.map(|pipe| writer_on(core, pipe.into())).transpose()?;
        child.stdout = stdout.map(|pipe| reader_on(core, pipe.into())).transpose()?;
        child.stderr = stderr.map(|pipe| reader_on(core, pipe.into())).transpose()?;
        child.kill_on_drop = kill_on_drop;
        Ok(child)
    }

    /// The process id. `None` once the exit is known, because the system may reuse the id.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("true").spawn()?;
    /// assert_eq!(child.id(), Some(child.pid()));
    /// child.wait().await?;
    /// assert_eq!(child.id(), None);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn id(&self) -> Option<u32> {
        (!self.exit_watcher.has_exited()).then(|| self.exit_watcher.pid())
    }

    /// The process id, even after the exit: asyncio's `pid`, for messages.
    pub fn pid(&self) -> u32 {
        self.exit_watcher.pid()
    }

    /// asyncio's `returncode`: the exit code, or the negative number of the signal that killed the process; 255 if
    /// another part of the program has reaped it. `None` until the exit is known.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("sleep").arg("1000").spawn()?;
    /// assert_eq!(child.returncode(), None);
    /// child.kill().await?;
    /// assert_eq!(child.returncode(), Some(-9));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn returncode(&self) -> Option<i32> {
        self.exit_watcher.exit_status().map(returncode)
    }

    /// Waits until the process exits. Any number of tasks can wait, any number of times.
    ///
    /// This does not close [`stdin`](Child::stdin) and does not read the output, so the child may wait for either.
    /// [`communicate`](Child::communicate) does both.
    ///
    /// Fails if another part of the program has reaped the process, or if the loop is closed.
    ///
    /// Cancel safety: safe; the call only waits.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        self.exit_watcher.wait().await
    }

    /// The exit status, or `None` while the process runs.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("sleep").arg("1000").spawn()?;
    /// assert_eq!(child.try_wait()?, None);
    /// child.kill().await?;
    /// assert!(!child.try_wait()?.is_none_or(|status| status.success()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.exit_watcher.try_exit_status().transpose()
    }

    /// Sends a signal: a number or a [`SignalKind`](crate::signal::SignalKind). A no-op if the process has exited.
    /// Fails if the number is not a signal, or without permission.
    ///
    /// ```
    /// use mainspring::process::Command;
    /// use mainspring::signal::SignalKind;
    /// use std::os::unix::process::ExitStatusExt;
    ///
    /// # mainspring::run(async {
    /// let child = Command::new("sleep").arg("1000").spawn()?;
    /// child.send_signal(SignalKind::user_defined1())?;
    /// assert_eq!(child.wait().await?.signal(), Some(SignalKind::user_defined1().as_raw()));
    /// child.send_signal(SignalKind::user_defined1())?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn send_signal(&self, signal: impl Into<i32>) -> io::Result<()> {
        self.exit_watcher.send_signal(signal.into())
    }

    /// Sends SIGTERM. Otherwise as [`send_signal`](Child::send_signal).
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("sleep").arg("1000").spawn()?;
    /// child.terminate()?;
    /// child.wait().await?;
    /// assert_eq!(child.returncode(), Some(-15));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn terminate(&self) -> io::Result<()> {
        self.exit_watcher.send_signal(libc::SIGTERM)
    }

    /// Sends SIGKILL without waiting for the exit. Otherwise as [`send_signal`](Child::send_signal).
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("sleep").arg("1000").spawn()?;
    /// child.start_kill()?;
    /// child.wait().await?;
    /// assert_eq!(child.returncode(), Some(-9));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start_kill(&self) -> io::Result<()> {
        self.exit_watcher.send_signal(libc::SIGKILL)
    }

    /// Sends SIGKILL and waits for the exit. Errors are those of [`send_signal`](Child::send_signal) and
    /// [`wait`](Child::wait).
    ///
    /// Cancel safety: the signal is sent at the first poll.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let child = mainspring::process::Command::new("sleep").arg("1000").spawn()?;
    /// child.kill().await?;
    /// assert_eq!(child.returncode(), Some(-9));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn kill(&self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await.map(drop)
    }

    /// Closes the input, reads output and error to their ends, and waits for the exit.
    ///
    /// Cancel safety: not safe; the output read so far is lost. The child is dropped with the future.
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// # mainspring::run(async {
    /// let child = Command::shell("echo out; echo err >&2")
    ///     .stdout(Stdio::piped())
    ///     .stderr(Stdio::piped())
    ///     .spawn()?;
    /// let output = child.wait_with_output().await?;
    /// assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        let (stdout, stderr) = self.communicate(None).await?;
        let status = self.wait().await?;
        Ok(Output { status, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default() })
    }
}

/// asyncio's `returncode` for an exit status.
pub(super) fn returncode(exit_result: io::Result<ExitStatus>) -> i32 {
    const UNKNOWN_RETURNCODE: i32 = 255;
    let Ok(status) = exit_result else { return UNKNOWN_RETURNCODE };
    status.code().or_else(|| status.signal().map(|signum| -signum)).unwrap_or(UNKNOWN_RETURNCODE)
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop && !self.exit_watcher.has_exited() {
            // A kill fails only without permission (a setuid program). There is no caller to report it to.
            let _ = self.start_kill();
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("pid", &self.pid())
            .field("returncode", &self.returncode())
            .finish_non_exhaustive()
    }
}
