//! What the signals mean to one loop: at most one callback each, and any number of streams.
//!
//! The engine's table has one watch per signal, which is the [`Handlers`] of this file: it tells the streams, in the order
//! they came, and then calls the callback. It is caught from the system as long as it has a callback or a stream.
//!
//! Streams and callbacks are foreign code. They are taken out of here before they are called or dropped.

use super::listener::Listener;
use crate::error::Error;
use crate::event_loop::{Core, ExceptionContext};
use crate::host::Watch;
use crate::panics::catch;
use mainspring_engine::signals::{Installed, install};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The signals that a loop has the system deliver to it.
#[derive(Default)]
pub(crate) struct CaughtSignals(RefCell<BTreeMap<i32, Caught>>);

struct Caught {
    handlers: Rc<Handlers>,
    /// Gives the signal back to whom it belonged when it is dropped.
    _installed: Installed,
}

struct Handlers {
    core: Weak<Core>,
    callback: RefCell<Option<Rc<dyn Watch>>>,
    streams: RefCell<Vec<Rc<Listener>>>,
}

impl CaughtSignals {
    /// Calls `callback` for every `signum`, in place of the one it may have had, which comes back.
    pub(crate) fn set_callback(
        core: &Rc<Core>,
        signum: i32,
        callback: Rc<dyn Watch>,
    ) -> Result<Option<Rc<dyn Watch>>, Error> {
        let handlers = Self::handlers_of(core, signum)?;
        let replaced = handlers.callback.borrow_mut().replace(callback);
        Ok(replaced)
    }

    /// Takes the callback of `signum` away, and gives it.
    pub(crate) fn remove_callback(core: &Core, signum: i32) -> Option<Rc<dyn Watch>> {
        let removed = core.signals.find(signum)?.callback.borrow_mut().take();
        Self::release_if_unused(core, signum);
        removed
    }

    /// Tells `listener` of every `signum`.
    pub(super) fn add_stream(core: &Rc<Core>, signum: i32, listener: Rc<Listener>) -> Result<(), Error> {
        Self::handlers_of(core, signum)?.streams.borrow_mut().push(listener);
        Ok(())
    }

    /// Tells it no more.
    pub(super) fn remove_stream(core: &Core, signum: i32, listener: &Rc<Listener>) {
        let Some(handlers) = core.signals.find(signum) else { return };
        let mut streams = handlers.streams.borrow_mut();
        let place = streams.iter().position(|known| Rc::ptr_eq(known, listener));
        let removed = place.map(|place| streams.remove(place));
        drop(streams);
        drop(removed);
        Self::release_if_unused(core, signum);
    }

    /// Gives every signal back to whom it belonged; the streams are at their end.
    pub(crate) fn clear(&self) {
        let caught = self.0.take();
        let (handler_sets, installed): (Vec<_>, Vec<_>) =
            caught.into_values().map(|caught| (caught.handlers, caught._installed)).unzip();
        drop(installed);
        for handlers in handler_sets {
            let streams = handlers.streams.take();
            handlers.for_each_listener(streams, Listener::end);
        }
    }

    fn find(&self, signum: i32) -> Option<Rc<Handlers>> {
        self.0.borrow().get(&signum).map(|caught| Rc::clone(&caught.handlers))
    }

    /// The handlers of `signum`, which is caught from here on.
    fn handlers_of(core: &Rc<Core>, signum: i32) -> Result<Rc<Handlers>, Error> {
        core.check_open()?;
        if let Some(handlers) = core.signals.find(signum) {
            return Ok(handlers);
        }
        let pipe = core.engine.signal_pipe().ok_or(Error::Closed)?;
        let installed = install(signum, &pipe)?;
        let handlers = Rc::new(Handlers {
            core: Rc::downgrade(core),
            callback: RefCell::default(),
            streams: RefCell::default(),
        });
        let caught = Caught { handlers: Rc::clone(&handlers), _installed: installed };
        core.signals.0.borrow_mut().insert(signum, caught);
        let former = core.engine.set_signal(signum, Rc::<Handlers>::clone(&handlers));
        drop(former);
        Ok(handlers)
    }

    fn release_if_unused(core: &Core, signum: i32) {
        let mut signals = core.signals.0.borrow_mut();
        if signals.get(&signum).is_some_and(|caught| caught.handlers.is_unused()) {
            let caught = signals.remove(&signum);
            drop(signals);
            drop(core.engine.remove_signal(signum));
            drop(caught);
        }
    }
}

impl Handlers {
    fn is_unused(&self) -> bool {
        self.callback.borrow().is_none() && self.streams.borrow().is_empty()
    }

    /// A waker that panics keeps nobody else from being told.
    fn for_each_listener(&self, streams: Vec<Rc<Listener>>, tell: impl Fn(&Listener)) {
        for stream in streams {
            if let Err(text) = catch(|| tell(&stream))
                && let Some(core) = self.core.upgrade()
            {
                core.call_exception_handler(&ExceptionContext::of_panic("A waker panicked", text));
            }
        }
    }
}

impl Watch for Handlers {
    fn fire(&self) {
        let streams = self.streams.borrow().clone();
        self.for_each_listener(streams, Listener::notify);
        let callback = self.callback.borrow().clone();
        if let Some(callback) = callback {
            callback.fire();
        }
    }

    fn cancel(&self) {}
}
