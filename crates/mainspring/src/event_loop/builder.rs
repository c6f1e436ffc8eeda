//! `Builder`: makes a loop with options.

use super::{Core, EventLoop, Hooks, Owner};
use crate::clock::{self, Clock};
use crate::error::Error;
use crate::executor::ExecutorConfig;
use crate::host::RustHost;
use crate::net::Resolver;
use crate::testing::{self, Backend, RealIo};
use mainspring_engine::clock::{Clock as EngineClock, MonotonicClock};
use mainspring_engine::poller::open_epoll;
use mainspring_engine::{Engine, Shuffle};
use std::rc::Rc;
use std::time::Duration;

/// Makes a loop with options: clock, back end, executor, name. It stays on its thread (`!Send`), as the loop does.
/// [`RuntimeBuilder::configure`](crate::RuntimeBuilder::configure) configures a loop on another thread.
///
/// ```
/// use mainspring::testing::VirtualClock;
/// use mainspring::{Builder, sleep};
/// use std::time::Duration;
///
/// let event_loop = Builder::new().name("clockwork").debug(true).clock(VirtualClock::default()).build()?;
/// assert_eq!(event_loop.name(), "clockwork");
/// assert!(event_loop.is_debug());
/// // An hour of virtual time.
/// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?;
/// assert_eq!(event_loop.time().as_nanos(), 3600 * 1_000_000_000);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder makes nothing before `build`"]
pub struct Builder {
    clock: Option<Box<dyn EngineClock>>,
    backend: Option<Backend>,
    executor: ExecutorConfig,
    name: String,
    resolver: Option<Rc<dyn Resolver>>,
    debug: Option<bool>,
    io_first: bool,
    max_overdue: Option<Duration>,
    poll_interval: Option<u32>,
    testing: Option<testing::Options>,
    nested: bool,
    pub(super) hooks: Hooks,
}

impl Builder {
    /// A builder with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the loop's clock. The default is the system's monotonic clock.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Builder { clock: Some(Box::new(clock::EngineClock(clock))), ..self }
    }

    /// Sets the options of a test: a virtual clock, the seed, and whether real I/O is allowed. A clock that is set with
    /// [`clock`](Builder::clock) replaces that of the options.
    ///
    /// ```
    /// use mainspring::testing::{Options, VirtualClock};
    /// use mainspring::{Builder, sleep};
    /// use std::time::Duration;
    ///
    /// let clock = VirtualClock::default();
    /// let event_loop = Builder::new().testing(&Options::new().seed(17)).clock(clock.clone()).build()?;
    /// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn testing(self, options: &testing::Options) -> Self {
        Builder { testing: Some(options.clone()), ..self }
    }

    /// Sets the poller, for tests. The default is epoll.
    ///
    /// ```
    /// use mainspring::testing::FakePoller;
    /// use mainspring::{Builder, sleep};
    /// use std::time::Duration;
    ///
    /// // A poller that logs its calls.
    /// let (backend, control) = FakePoller::open()?;
    /// let event_loop = Builder::new().backend(backend).build()?;
    /// event_loop.run_until_complete(sleep(Duration::from_millis(1)))?;
    /// assert!(!control.log().is_empty());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn backend(self, backend: impl Into<Backend>) -> Self {
        Builder { backend: Some(backend.into()), ..self }
    }

    /// Configures the thread pool for blocking calls.
    ///
    /// ```
    /// use mainspring::{Builder, ExecutorConfig};
    ///
    /// let files = ExecutorConfig { name_prefix: "files".to_owned(), ..Default::default() };
    /// let event_loop = Builder::new().executor(files).build()?;
    /// let name = event_loop.run_in_executor(|| std::thread::current().name().map(str::to_owned))?;
    /// assert_eq!(event_loop.run_until_complete(name)?.unwrap().as_deref(), Some("files_0"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn executor(self, config: ExecutorConfig) -> Self {
        Builder { executor: config, ..self }
    }

    /// Sets the resolver for host names. The default is the system's. See [`Resolver`].
    ///
    /// ```
    /// use mainspring::net::{Lookup, lookup_host};
    /// use std::net::SocketAddr;
    ///
    /// async fn resolve_to_localhost(lookup: Lookup) -> std::io::Result<Vec<SocketAddr>> {
    ///     Ok(vec![([127, 0, 0, 1], lookup.port).into()])
    /// }
    ///
    /// let event_loop = mainspring::Builder::new().resolver(resolve_to_localhost).build()?;
    /// let found = event_loop.run_until_complete(lookup_host("example.invalid:80"))?.unwrap();
    /// assert_eq!(found, [([127, 0, 0, 1], 80).into()]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn resolver(self, resolver: impl Resolver + 'static) -> Self {
        Builder { resolver: Some(Rc::new(resolver)), ..self }
    }

    /// Sets a name for messages.
    pub fn name(self, name: impl Into<String>) -> Self {
        Builder { name: name.into(), ..self }
    }

    /// Whether the loop starts in debug mode: see [`EventLoop::set_debug`]. By default an environment variable
    /// decides.
    pub fn debug(self, debug: bool) -> Self {
        Builder { debug: Some(debug), ..self }
    }

    /// Whether I/O runs before other ready calls: see [`EventLoop::set_io_first`].
    ///
    /// ```
    /// use mainspring::{Builder, EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let event_loop = Builder::new().io_first(true).build()?;
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// let note = |name| {
    ///     let order = Rc::clone(&order);
    ///     move || order.borrow_mut().push(name)
    /// };
    /// let (first, io) = (note("first"), note("io"));
    /// event_loop.call_soon(move || {
    ///     first();
    ///     EventLoop::current().call_soon_in(Lane::Urgent, io).unwrap();
    /// })?;
    /// event_loop.call_soon(note("second"))?;
    /// event_loop.run_once()?;
    /// assert_eq!(*order.borrow(), ["first", "io", "second"]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn io_first(self, io_first: bool) -> Self {
        Builder { io_first, ..self }
    }

    /// Limits how long a background call waits: see [`EventLoop::set_max_overdue`].
    ///
    /// ```
    /// use mainspring::{Builder, Lane, yield_now};
    /// use std::time::Duration;
    ///
    /// let event_loop = Builder::new().max_overdue(Duration::ZERO).build()?;
    /// let background = event_loop.spawn_in(Lane::Background, async { "tidy" })?;
    /// // The loop is never idle.
    /// event_loop.run_until_complete(async {
    ///     while !background.is_finished() {
    ///         yield_now().await;
    ///     }
    /// })?;
    /// assert_eq!(event_loop.run_until_complete(background)?, Ok("tidy"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn max_overdue(self, limit: Duration) -> Self {
        Builder { max_overdue: Some(limit), ..self }
    }

    /// Sets how often a busy loop polls for I/O: once in this many iterations while a descriptor is registered. The
    /// default is 1, as in asyncio: then no chain of callbacks delays data that has arrived. A larger number saves
    /// system calls in programs whose tasks often wake each other (tokio polls after 61 tasks), but delays I/O by as
    /// many iterations. A loop with nothing else to do polls at once.
    ///
    /// ```
    /// use mainspring::testing::{FakePoller, Op};
    /// use mainspring::{Builder, yield_now};
    ///
    /// let (backend, control) = FakePoller::open()?;
    /// let event_loop = Builder::new().backend(backend).poll_interval(61).build()?;
    /// let (watched, _peer) = std::os::unix::net::UnixStream::pair()?;
    /// event_loop.add_reader(&watched, || ())?;
    /// control.take_log();
    /// event_loop.run_until_complete(async {
    ///     for _ in 0..122 {
    ///         yield_now().await;
    ///     }
    /// })?;
    /// let polls = control.log().iter().filter(|entry| entry.call.op() == Op::Park).count();
    /// assert!(polls < 10, "{polls}");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_interval(self, iterations: u32) -> Self {
        Builder { poll_interval: Some(iterations), ..self }
    }

    /// Whether the loop can run inside a running loop: see [`EventLoop::allow_nested`].
    pub fn nested(self, nested: bool) -> Self {
        Builder { nested, ..self }
    }

    /// Makes the loop.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no file descriptor left.
    ///
    /// ```
    /// let event_loop = mainspring::Builder::new().build()?;
    /// assert!(!event_loop.is_closed());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn build(self) -> Result<EventLoop, Error> {
        let backend = match self.backend {
            Some(backend) => backend.0,
            None => open_epoll()?,
        };
        let clock: Box<dyn EngineClock> = match (self.clock, &self.testing) {
            (Some(clock), _) => clock,
            (None, Some(options)) => Box::new(clock::EngineClock(options.clock())),
            (None, None) => Box::new(MonotonicClock),
        };
        let is_virtual = clock.is_virtual();
        let enabled_hooks = self.hooks.enabled();
        let engine = Engine::new(RustHost::new(self.hooks), backend, clock)?;
        engine.set_hooks(enabled_hooks);
        if let Some(options) = self.testing {
            let shuffle = options.seed.map(Shuffle::new);
            engine.set_shuffle(
                shuffle.map(|shuffle| if options.shuffle_ready { shuffle.with_ready() } else { shuffle }),
            );
            engine.host().refuse_real_io(options.real_io == RealIo::Refuse);
        }
        engine.set_io_first(self.io_first);
        engine.set_max_overdue(self.max_overdue);
        if let Some(iterations) = self.poll_interval {
            engine.set_poll_interval(iterations);
        }
        engine.host().debug_mode().configure(self.debug);
        let core = Core::new(engine, self.name, self.executor, is_virtual);
        core.allows_nested.set(self.nested);
        if let Some(resolver) = self.resolver {
            // The core is new, so the resolver is not set yet.
            let _ = core.resolver.set(resolver);
        }
        Ok(EventLoop { owner: Rc::new(Owner { core }) })
    }
}
