//! Starting the process of a [`Command`].

use super::{Command, StdioSetting};
use crate::event_loop::{Core, current_core};
use crate::process::child_handle::Child;
use std::io;
use std::process::{ExitStatus, Output, Stdio};
use std::rc::Rc;

impl Command {
    /// Starts the process on the running loop. Fails with the system's error if the program cannot be started, and if
    /// this thread runs no loop or the loop is closed.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let child = Command::new("true").spawn()?;
    /// assert!(child.wait().await?.success());
    ///
    /// let error = Command::new("/there/is/no/such/program").spawn().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.inherit_stdio();
        self.spawn_configured()
    }

    fn spawn_configured(&mut self) -> io::Result<Child> {
        let core = current_core()?;
        Child::start(&core, self.start(&core)?, self.kill_on_drop)
    }

    /// Starts the process now; the future waits for the exit. Pipes are closed at once. Errors are those of
    /// [`spawn`](Command::spawn) and [`Child::wait`].
    ///
    /// Cancel safety: dropping the future leaves the process running, unless [`kill_on_drop`](Command::kill_on_drop)
    /// is set.
    ///
    /// ```
    /// # mainspring::run(async {
    /// assert!(!mainspring::process::Command::new("false").status().await?.success());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + use<> {
        let child = self.spawn();
        async move {
            let mut child = child?;
            drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts the process now; the future collects its output and waits for the exit. Unless set otherwise, output
    /// and error are piped and the input is empty.
    ///
    /// Cancel safety: as [`Command::status`]; the output collected so far is lost.
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.default_stdio([Stdio::null, Stdio::piped, Stdio::piped]);
        let child = self.spawn_configured();
        async move { child?.wait_with_output().await }
    }

    /// Sets the standard streams that the caller has not set, for one spawn.
    pub(in crate::process) fn default_stdio(&mut self, defaults: [fn() -> Stdio; 3]) {
        let setters =
            [std::process::Command::stdin, std::process::Command::stdout, std::process::Command::stderr];
        for ((setting, default), set) in self.stdio.iter_mut().zip(defaults).zip(setters) {
            if *setting != StdioSetting::ByUser {
                *setting = StdioSetting::Default;
                set(&mut self.std, default());
            }
        }
    }

    /// Resets the streams that were set for an earlier spawn to inherited.
    fn inherit_stdio(&mut self) {
        if self.stdio.contains(&StdioSetting::Default) {
            self.default_stdio([Stdio::inherit; 3]);
        }
    }

    pub(in crate::process) fn is_killed_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Starts the process without watching it.
    pub(in crate::process) fn start(&mut self, core: &Rc<Core>) -> io::Result<std::process::Child> {
        core.check_open()?;
        self.identity.apply(&mut self.std);
        self.std.spawn()
    }
}
