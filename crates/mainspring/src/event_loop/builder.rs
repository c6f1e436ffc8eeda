//! `Builder`: a loop with something of its own.

use super::{Core, EventLoop, Owner};
use crate::clock::{Clock, MonotonicClock};
use crate::engine::Engine;
use crate::error::Error;
use crate::executor::ExecutorConfig;
use crate::host::RustHost;
use crate::net::Resolver;
use crate::poller::{Backend, open_epoll};
use std::rc::Rc;
use std::time::Duration;

/// Makes a loop with another clock, back end, executor or name than the usual.
///
/// ```
/// use mainspring::testing::VirtualClock;
/// use mainspring::{Builder, sleep};
/// use std::time::Duration;
///
/// // An hour passes in no time.
/// let event_loop = Builder::new().clock(VirtualClock::default()).build()?;
/// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?;
/// assert_eq!(event_loop.time().as_nanos(), 3600 * 1_000_000_000);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder makes nothing before `build`"]
pub struct Builder {
    clock: Option<Box<dyn Clock>>,
    backend: Option<Backend>,
    executor: ExecutorConfig,
    name: String,
    resolver: Option<Rc<dyn Resolver>>,
    debug: Option<bool>,
    io_first: bool,
    max_overdue: Option<Duration>,
}

impl Builder {
    /// Everything as usual.
    pub fn new() -> Self {
        Self::default()
    }

    /// What tells the loop the time; usually the system's monotonic clock.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Builder { clock: Some(Box::new(clock)), ..self }
    }

    /// How the loop asks the kernel for I/O; usually epoll.
    pub fn backend(self, backend: Backend) -> Self {
        Builder { backend: Some(backend), ..self }
    }

    /// How large the pool of threads for blocking calls grows.
    pub fn executor(self, config: ExecutorConfig) -> Self {
        Builder { executor: config, ..self }
    }

    /// What looks up the names of hosts, in place of the system. See [`Resolver`].
    pub fn resolver(self, resolver: impl Resolver + 'static) -> Self {
        Builder { resolver: Some(Rc::new(resolver)), ..self }
    }

    /// A name for messages.
    pub fn name(self, name: impl Into<String>) -> Self {
        Builder { name: name.into(), ..self }
    }

    /// Whether the loop begins in debug mode: see [`EventLoop::set_debug`]. Usually the environment says.
    pub fn debug(self, debug: bool) -> Self {
        Builder { debug: Some(debug), ..self }
    }

    /// Whether I/O is served before the calls that are ready: see [`EventLoop::set_io_first`].
    pub fn io_first(self, io_first: bool) -> Self {
        Builder { io_first, ..self }
    }

    /// How long a call in the background waits at most: see [`EventLoop::set_max_overdue`].
    pub fn max_overdue(self, limit: Duration) -> Self {
        Builder { max_overdue: Some(limit), ..self }
    }

    /// Makes the loop.
    pub fn build(self) -> Result<EventLoop, Error> {
        let backend = match self.backend {
            Some(backend) => backend,
            None => open_epoll()?,
        };
        let clock = self.clock.unwrap_or_else(|| Box::new(MonotonicClock));
        let engine = Engine::new(RustHost::default(), backend, clock)?;
        engine.set_io_first(self.io_first);
        engine.set_max_overdue(self.max_overdue);
        engine.host().debugging().configure(self.debug);
        let core = Core::new(engine, self.name, self.executor);
        if let Some(resolver) = self.resolver {
            // The core is new: there is none yet.
            let _ = core.resolver.set(resolver);
        }
        Ok(EventLoop { owner: Rc::new(Owner { core }) })
    }
}
