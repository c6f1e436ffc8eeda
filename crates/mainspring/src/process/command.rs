//! `Command`: what to run, and how.

use super::child_handle::Child;
use super::identity::Identity;
use crate::current_core::current_core;
use crate::event_loop::Core;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::rc::Rc;

/// A process to be: [`std::process::Command`] for a loop.
///
/// Everything is inherited that is not set: the environment, the working directory, and for [`spawn`](Command::spawn)
/// and [`status`](Command::status) the standard streams. A command may be spawned again and again.
///
/// It is spawned on the loop that runs on this thread. Spawning itself blocks for as long as the system takes to start
/// the program, as it does in asyncio. The command itself may be made on another thread: it is `Send`.
///
/// ```
/// use mainspring::process::{Command, Stdio};
///
/// # mainspring::run(async {
/// let output = Command::new("sh")
///     .args(["-c", "echo $GREETING; pwd"])
///     .env("GREETING", "hello")
///     .current_dir("/")
///     .stdin(Stdio::null())
///     .output()
///     .await?;
/// assert!(output.status.success());
/// assert_eq!(output.stdout, b"hello\n/\n");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Command {
    std: std::process::Command,
    stdio: [StdioSetting; 3],
    kill_on_drop: bool,
    identity: Identity,
}

/// Who has set one of the standard streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StdioSetting {
    /// Nobody, here. std may have.
    Unset,
    /// The user.
    ByUser,
    /// We have, for one start: the next one may want something else.
    Default,
}

impl Command {
    /// Runs `program`, which is looked for in `PATH` if it is a name without a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std::process::Command::new(program).into()
    }

    /// Has the shell run `script`: `/bin/sh -c`. asyncio's `create_subprocess_shell`.
    ///
    /// What comes from elsewhere does not belong into a script; as an argument of [`Command::new`] no shell reads it.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let status = Command::shell("test 1 -lt 2 && exit 3").status().await?;
    /// assert_eq!(status.code(), Some(3));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shell(script: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        command
    }

    /// Adds an argument.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let output = mainspring::process::Command::new("echo").arg("-n").arg("a b").output().await?;
    /// assert_eq!(output.stdout, b"a b");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.std.args(args);
        self
    }

    /// The name under which the program finds itself called, in place of its own.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let output =
    ///     mainspring::process::Command::new("/bin/sh").arg0("shelly").args(["-c", "echo $0"]).output().await?;
    /// assert_eq!(output.stdout, b"shelly\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn arg0(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg0(arg);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(key, value);
        self
    }

    /// Sets variables of the environment.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let variables = [("FIRST", "1"), ("SECOND", "2")];
    /// let output = Command::shell("echo $FIRST$SECOND").envs(variables).output().await?;
    /// assert_eq!(output.stdout, b"12\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        self.std.envs(variables);
        self
    }

    /// Does not let it inherit a variable.
    ///
    /// ```
    /// # use mainspring::process::Command;
    /// # mainspring::run(async {
    /// let output = Command::shell("echo ${HOME-none}").env_remove("HOME").output().await?;
    /// assert_eq!(output.stdout, b"none\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(key);
        self
    }

    /// Does not let it inherit any variable.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let output = Command::new("/usr/bin/env").env_clear().env("ONLY", "this").output().await?;
    /// assert_eq!(output.stdout, b"ONLY=this\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Where it runs.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(directory);
        self
    }

    /// Its standard input: [`Stdio::piped`], [`Stdio::inherit`], [`Stdio::null`], or any descriptor or file.
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.stdio[0] = StdioSetting::ByUser;
        self.std.stdin(stdin);
        self
    }

    /// Its standard output, likewise.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-stdout-{}", std::process::id()));
    /// // To a file, without us in between.
    /// Command::new("echo").arg("logged").stdout(std::fs::File::create(&path)?).status().await?;
    /// assert_eq!(std::fs::read(&path)?, b"logged\n");
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.stdio[1] = StdioSetting::ByUser;
        self.std.stdout(stdout);
        self
    }

    /// Its standard error, likewise.
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// # mainspring::run(async {
    /// let output = Command::shell("echo out; echo err >&2").stderr(Stdio::null()).output().await?;
    /// assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b""[..]));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.stdio[2] = StdioSetting::ByUser;
        self.std.stderr(stderr);
        self
    }

    /// The user it runs as. See [`gid`](Command::gid).
    pub fn uid(&mut self, uid: u32) -> &mut Self {
        self.identity.set_uid(uid);
        self
    }

    /// The group it runs as.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// // Another user and group need root's rights; one's own can always be named.
    /// # let own = |of: &str| std::process::Command::new("id").arg(of).output().map(|out| String::from_utf8_lossy(&out.stdout).trim().parse().unwrap());
    /// let (uid, gid): (u32, u32) = (own("-u")?, own("-g")?);
    /// let mut command = Command::shell("echo $(id -u) $(id -g)");
    /// if uid == 0 {
    ///     command.groups(&[gid]);
    /// }
    /// let output = command.uid(uid).gid(gid).output().await?;
    /// assert_eq!(output.stdout, format!("{uid} {gid}\n").as_bytes());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn gid(&mut self, gid: u32) -> &mut Self {
        self.identity.set_gid(gid);
        self
    }

    /// The supplementary groups it runs with, instead of ours; only root may say them. Without this a child of root's that
    /// has a [`uid`](Command::uid) has none. See [`gid`](Command::gid).
    pub fn groups(&mut self, groups: &[u32]) -> &mut Self {
        self.identity.set_groups(&mut self.std, groups);
        self
    }

    /// The process group it joins; 0 for one of its own.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// // A Ctrl-C at our terminal is not for a group of its own.
    /// let child = Command::new("sleep").arg("1000").process_group(0).spawn()?;
    /// # let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
    /// # let group: u32 = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().parse().unwrap();
    /// assert_eq!(group, child.pid());
    /// child.kill().await?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn process_group(&mut self, group: i32) -> &mut Self {
        self.std.process_group(group);
        self
    }

    /// Gives it a session of its own, away from our terminal: asyncio's `start_new_session`.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let child = Command::new("sleep").arg("1000").start_new_session().spawn()?;
    /// # let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
    /// # let session: u32 = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse().unwrap();
    /// assert_eq!(session, child.pid());
    /// child.kill().await?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start_new_session(&mut self) -> &mut Self {
        let setsid = || Ok(rustix::process::setsid().map(drop)?);
        // SAFETY: `setsid` is a system call without memory, and is async-signal-safe.
        unsafe { self.pre_exec(setsid) }
    }

    /// Its mask for the permissions of new files.
    ///
    /// ```
    /// # use mainspring::process::Command;
    /// # mainspring::run(async {
    /// let output = Command::shell("umask").umask(0o27).output().await?;
    /// assert_eq!(output.stdout, b"0027\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        let umask = move || {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
            Ok(())
        };
        // SAFETY: `umask` is a system call without memory, and is async-signal-safe.
        unsafe { self.pre_exec(umask) }
    }

    /// Calls `before` in the new process, right before it becomes the program.
    ///
    /// # Safety
    ///
    /// As for [`CommandExt::pre_exec`]: the closure runs in a copy of this process that has one thread and that may
    /// have stood in the middle of anything. It may only do what is async-signal-safe: no locks, no memory from the
    /// allocator.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let mut command = Command::new("true");
    /// let refuse = || Err(std::io::Error::from_raw_os_error(1));
    /// // SAFETY: the closure touches no memory but its own.
    /// unsafe { command.pre_exec(refuse) };
    /// assert_eq!(command.spawn().unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub unsafe fn pre_exec(
        &mut self,
        before: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> &mut Self {
        // SAFETY: the caller keeps the same promise.
        unsafe { self.std.pre_exec(before) };
        self
    }

    /// Kills the process when its [`Child`] is dropped before it has ended. Off at first, as in asyncio: a process
    /// goes on by itself then.
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// # mainspring::run(async {
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    /// let (_stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    /// drop(child);
    /// // Its input is still open: it is gone because it was killed.
    /// assert_eq!(stdout.read_to_end().await?, b"");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Self {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// The command as std has it, to look at. User and groups are not in it.
    ///
    /// ```
    /// let mut command = mainspring::process::Command::new("ls");
    /// command.as_std_mut().arg("-l");
    /// assert_eq!(command.as_std().get_program(), "ls");
    /// assert_eq!(command.as_std().get_args().count(), 1);
    /// ```
    pub fn as_std(&self) -> &std::process::Command {
        &self.std
    }

    /// The command as std has it, for what is not here. See [`as_std`](Command::as_std).
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.std
    }

    /// Starts the process, on the loop that runs here. The error is the system's if the program cannot be started; it is
    /// also one if no loop runs here, or it is closed.
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
        self.spawn_as_set()
    }

    fn spawn_as_set(&mut self) -> io::Result<Child> {
        let core = current_core()?;
        Child::start(&core, self.start(&core)?, self.kill_on_drop)
    }

    /// Starts the process now; the future waits for its end. What is piped is closed at once. Errors are those of
    /// [`spawn`](Command::spawn) and of [`Child::wait`].
    ///
    /// Cancel safety: dropping the future leaves the process running, unless it is one to
    /// [kill](Command::kill_on_drop).
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

    /// Starts the process now; the future collects what it writes, and waits for its end. Output and error are piped
    /// and the input is empty, where nothing else was set.
    ///
    /// Cancel safety: as of [`Command::status`]; what was collected is lost.
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + use<> {
        self.default_stdio([Stdio::null, Stdio::piped, Stdio::piped]);
        let child = self.spawn_as_set();
        async move { child?.wait_with_output().await }
    }

    /// Sets the standard streams that the user has not, for one start.
    pub(super) fn default_stdio(&mut self, defaults: [fn() -> Stdio; 3]) {
        let setters =
            [std::process::Command::stdin, std::process::Command::stdout, std::process::Command::stderr];
        for ((setting, default), set) in self.stdio.iter_mut().zip(defaults).zip(setters) {
            if *setting != StdioSetting::ByUser {
                *setting = StdioSetting::Default;
                set(&mut self.std, default());
            }
        }
    }

    /// Lets it inherit the standard streams that were set for a former start only.
    fn inherit_stdio(&mut self) {
        if self.stdio.contains(&StdioSetting::Default) {
            self.default_stdio([Stdio::inherit; 3]);
        }
    }

    pub(super) fn is_killed_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Starts the process, unwatched.
    pub(super) fn start(&mut self, core: &Rc<Core>) -> io::Result<std::process::Child> {
        core.check_open()?;
        self.identity.apply(&mut self.std);
        self.std.spawn()
    }
}

/// [`Command::output`] pipes the standard streams even if they were set there; [`Command::spawn`] leaves them.
impl From<std::process::Command> for Command {
    fn from(std: std::process::Command) -> Self {
        Command { std, stdio: [StdioSetting::Unset; 3], kill_on_drop: false, identity: Identity::default() }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
