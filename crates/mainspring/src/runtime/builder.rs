//! `RuntimeBuilder`: makes a runtime with options.

use super::runtime_handle::RuntimeShared;
use super::{Runtime, RuntimeHandle, ShutdownRequest, thread_main};
use crate::concurrent::ConcurrentFuture;
use crate::error::Error;
use crate::event_loop::Builder;
use crate::executor::ExecutorConfig;
use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread;

type Configure = Box<dyn FnOnce(Builder) -> Builder + Send>;

/// Makes a [`Runtime`] with options: name, executor, loop. It is `Send`.
///
/// ```
/// use mainspring::testing::VirtualClock;
/// use mainspring::Runtime;
/// use std::time::Duration;
///
/// let runtime = Runtime::builder()
///     .name("background")
///     .configure(|builder| builder.clock(VirtualClock::default()))
///     .start()?;
/// // An hour of virtual time.
/// runtime.delay(Duration::from_secs(3600)).wait().unwrap();
/// let name = runtime.call(|| std::thread::current().name().map(str::to_owned));
/// assert_eq!(name.wait().unwrap().as_deref(), Some("background"));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "a builder makes nothing before `start`"]
pub struct RuntimeBuilder {
    name: String,
    executor: Option<ExecutorConfig>,
    configure: Option<Configure>,
}

impl RuntimeBuilder {
    /// A builder with the defaults.
    pub fn new() -> Self {
        RuntimeBuilder { name: "mainspring".to_owned(), executor: None, configure: None }
    }

    /// Sets the name of the loop and its thread. The default is `mainspring`.
    pub fn name(self, name: impl Into<String>) -> Self {
        RuntimeBuilder { name: name.into(), ..self }
    }

    /// Configures the thread pool for blocking calls.
    ///
    /// ```
    /// use mainspring::{EventLoop, ExecutorConfig, RuntimeBuilder};
    ///
    /// let few = ExecutorConfig { name_prefix: "few".to_owned(), ..Default::default() };
    /// let runtime = RuntimeBuilder::new().executor(few).start()?;
    /// let name = runtime.spawn(|| async {
    ///     let name = || std::thread::current().name().map(str::to_owned);
    ///     EventLoop::current().run_in_executor(name).unwrap().await.unwrap()
    /// });
    /// assert_eq!(name.wait().unwrap().as_deref(), Some("few_0"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn executor(self, config: ExecutorConfig) -> Self {
        RuntimeBuilder { executor: Some(config), ..self }
    }

    /// Configures the loop with its [`Builder`](crate::Builder). `configure` runs on the loop's thread, so a clock or
    /// a back end need not be `Send`.
    pub fn configure(self, configure: impl FnOnce(Builder) -> Builder + Send + 'static) -> Self {
        RuntimeBuilder { configure: Some(Box::new(configure)), ..self }
    }

    /// Starts the thread, and returns when its loop exists. [`Error::Io`] if the system has no thread or file
    /// descriptor left.
    pub fn start(self) -> Result<Runtime, Error> {
        let RuntimeBuilder { name, executor, configure } = self;
        let mut builder_name = name.clone();
        // Thread names end at a zero byte, and std panics at one.
        builder_name.retain(|c| c != '\0');
        let (sender, receiver) = mpsc::channel();
        let request = Arc::new(ShutdownRequest::new());
        let (done, is_done) = ConcurrentFuture::pair();
        let thread_request = Arc::clone(&request);
        let main = move || {
            let _done = done;
            let mut builder = Builder::new().name(name);
            if let Some(executor) = executor {
                builder = builder.executor(executor);
            }
            let builder = configure.into_iter().fold(builder, |builder, configure| configure(builder));
            let event_loop = builder.build()?;
            // The code that starts the runtime waits for this.
            let _ = sender.send(event_loop.remote());
            drop(sender);
            thread_main(&event_loop, &thread_request)
        };
        let thread = thread::Builder::new().name(builder_name).spawn(main)?;
        match receiver.recv() {
            Ok(remote) => {
                let shared = Arc::new(RuntimeShared { remote, request, thread: thread.thread().clone() });
                let handle = RuntimeHandle { shared };
                Ok(Runtime { handle, thread: Some(thread), done: Some(is_done) })
            }
            // The thread has ended before it had a loop.
            Err(mpsc::RecvError) => match thread.join() {
                Ok(Err(error)) => Err(error),
                Ok(Ok(_)) => Err(Error::Closed),
                Err(payload) => std::panic::resume_unwind(payload),
            },
        }
    }
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
