//! `Command`: how to start a process.

mod spawn;

use super::identity::Identity;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// How to start a process: [`std::process::Command`] for a loop.
///
/// The child inherits all settings that are not set: the environment, the working directory, and with
/// [`spawn`](Command::spawn) and [`status`](Command::status) the standard streams. A command can be spawned several
/// times.
///
/// It is spawned on the running loop. As in asyncio, spawning blocks until the system has started the program. The
/// command is `Send`.
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

/// How one of the standard streams was set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StdioSetting {
    /// Not set here. `as_std_mut` may have set it.
    Unset,
    /// Set by the caller.
    ByUser,
    /// Set for one spawn only; the next spawn may need something else.
    Default,
}

impl Command {
    /// Runs `program`. A name without a slash is searched in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std::process::Command::new(program).into()
    }

    /// Runs `script` with `/bin/sh -c`: asyncio's `create_subprocess_shell`.
    ///
    /// Do not put untrusted text into a script. Pass it as an argument to [`Command::new`], which uses no shell.
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

    /// Sets `argv[0]`.
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

    /// Sets an environment variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(key, value);
        self
    }

    /// Sets environment variables.
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

    /// Removes an inherited environment variable.
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

    /// Removes all inherited environment variables.
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

    /// Sets the working directory.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(directory);
        self
    }

    /// Sets the standard input: [`Stdio::piped`], [`Stdio::inherit`], [`Stdio::null`], or any fd or file.
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.stdio[0] = StdioSetting::ByUser;
        self.std.stdin(stdin);
        self
    }

    /// Sets the standard output, in the same ways.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-stdout-{}", std::process::id()));
    /// // Directly to a file.
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

    /// Sets the standard error, in the same ways.
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

    /// Sets the user id. See [`gid`](Command::gid).
    pub fn uid(&mut self, uid: u32) -> &mut Self {
        self.identity.set_uid(uid);
        self
    }

    /// Sets the group id.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// // Another user or group needs root; the current ones are always allowed.
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

    /// Sets the supplementary groups, which needs root. Without this, a child of root with a [`uid`](Command::uid)
    /// has none. See [`gid`](Command::gid).
    pub fn groups(&mut self, groups: &[u32]) -> &mut Self {
        self.identity.set_groups(&mut self.std, groups);
        self
    }

    /// Sets the process group to join; 0 creates a new one.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// // Ctrl-C at the terminal does not reach another process group.
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

    /// Starts the process in a new session, without a controlling terminal: asyncio's `start_new_session`.
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
        // SAFETY: `setsid` is async-signal-safe and takes no pointers.
        unsafe { self.pre_exec(setsid) }
    }

    /// Sets the file mode creation mask.
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
        // SAFETY: `umask` is async-signal-safe and takes no pointers.
        unsafe { self.pre_exec(umask) }
    }

    /// Calls `f` in the child process, right before `exec`.
    ///
    /// # Safety
    ///
    /// As for [`CommandExt::pre_exec`]: the closure runs in a forked copy of this process that has one thread, and
    /// locks may be held by threads that no longer exist. It may only call async-signal-safe functions: no locks, no
    /// allocation.
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// # mainspring::run(async {
    /// let mut command = Command::new("true");
    /// let refuse = || Err(std::io::Error::from_raw_os_error(1));
    /// // SAFETY: the closure only constructs an error number.
    /// unsafe { command.pre_exec(refuse) };
    /// assert_eq!(command.spawn().unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub unsafe fn pre_exec(
        &mut self,
        f: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> &mut Self {
        // SAFETY: the caller upholds the same contract.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// Kills the process when its [`Child`](super::Child) is dropped before the exit. Off by default, as in asyncio.
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// # mainspring::run(async {
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    /// let (_stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    /// drop(child);
    /// // The input is still open, so only the signal can have ended the process.
    /// assert_eq!(stdout.read_to_end().await?, b"");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Self {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// The command of std, read-only. It does not contain user and groups.
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

    /// The command of std, for settings that this type lacks. See [`as_std`](Command::as_std).
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.std
    }
}

/// [`Command::output`] pipes the standard streams even if the command of std has set them; [`Command::spawn`] keeps
/// them.
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
