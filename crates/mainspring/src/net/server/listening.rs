//! Listening sockets on the loop, for servers and for accept queues.

use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use mainspring_engine::Readiness;
use mainspring_engine::transport::{Acceptor, Cx, DeferredCall, Listener};
use std::io;
use std::rc::Rc;

/// Calls `listen` on a bound socket and registers it with the loop.
pub(super) fn start_listening<A: Acceptor<RustHost> + 'static>(
    core: &Core,
    listener: &Rc<Listener<RustHost, A>>,
    backlog: u32,
) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    listener.with_fd(|fd| Ok(rustix::net::listen(fd, backlog)?))?;
    with_listener(core, listener, |listener, cx| listener.start(cx))
}

/// Runs `f` on a listener.
pub(super) fn with_listener<A: Acceptor<RustHost> + 'static, R>(
    core: &Core,
    listener: &Rc<Listener<RustHost, A>>,
    f: impl FnOnce(&Listener<RustHost, A>, Cx<'_, RustHost>) -> R,
) -> R {
    let this: Rc<dyn Source> = Rc::<Listener<RustHost, A>>::clone(listener);
    f(listener, Cx { engine: &core.engine, this: &this })
}

impl<A: Acceptor<RustHost> + 'static> Source for Listener<RustHost, A> {
    fn io_ready(self: Rc<Self>, core: &Core, _: Readiness) -> Result<(), Failure> {
        with_listener(core, &self, |listener, cx| Listener::io_ready(listener, cx))
    }

    fn run_deferred(self: Rc<Self>, core: &Core, deferred: DeferredCall) -> Result<(), Failure> {
        with_listener(core, &self, |listener, cx| Listener::run_deferred(listener, cx, deferred))
    }
}
