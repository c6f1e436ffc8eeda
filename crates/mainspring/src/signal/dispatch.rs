//! Signal handlers of one loop: for each signal at most one callback and any number of listeners.
//!
//! The engine has one watch per signal, which is a [`SignalHandlers`] object. It notifies the listeners in the order of
//! their creation and then calls the callback. A signal is installed while it has a callback or a listener.
//!
//! Callbacks and wakers are user code: no borrow is held when they are called or dropped.

use super::listener::SignalListener;
use crate::error::Error;
use crate::event_loop::{Core, ExceptionContext};
use crate::host::Watch;
use crate::panics::catch;
use mainspring_engine::signals::{Installed, install};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The signals that this loop has installed.
#[derive(Default)]
pub(crate) struct CaughtSignals(RefCell<BTreeMap<i32, InstalledSignal>>);

struct InstalledSignal {
    handlers: Rc<SignalHandlers>,
    /// Dropping it restores the former disposition of the signal.
    _installed: Installed,
}

struct SignalHandlers {
    core: Weak<Core>,
    callback: RefCell<Option<Rc<dyn Watch>>>,
    listeners: RefCell<Vec<Rc<SignalListener>>>,
}

impl CaughtSignals {
    /// Whether no signal is installed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Sets the callback of `signum` and returns the former one.
    pub(crate) fn set_callback(
        core: &Rc<Core>,
        signum: i32,
        callback: Rc<dyn Watch>,
    ) -> Result<Option<Rc<dyn Watch>>, Error> {
        let handlers = Self::handlers_of(core, signum)?;
        let replaced = handlers.callback.borrow_mut().replace(callback);
        Ok(replaced)
    }

    /// Removes and returns the callback of `signum`.
    pub(crate) fn remove_callback(core: &Core, signum: i32) -> Option<Rc<dyn Watch>> {
        let removed = core.signals.find(signum)?.callback.borrow_mut().take();
        Self::release_if_unused(core, signum);
        removed
    }

    /// Adds a listener for `signum`.
    pub(super) fn add_listener(
        core: &Rc<Core>,
        signum: i32,
        listener: Rc<SignalListener>,
    ) -> Result<(), Error> {
        Self::handlers_of(core, signum)?.listeners.borrow_mut().push(listener);
        Ok(())
    }

    /// Removes a listener.
    pub(super) fn remove_listener(core: &Core, signum: i32, listener: &Rc<SignalListener>) {
        let Some(handlers) = core.signals.find(signum) else { return };
        let mut listeners = handlers.listeners.borrow_mut();
        let index = listeners.iter().position(|other| Rc::ptr_eq(other, listener));
        let removed = index.map(|index| listeners.remove(index));
        drop(listeners);
        drop(removed);
        Self::release_if_unused(core, signum);
    }

    /// Uninstalls all signals and ends the listeners.
    pub(crate) fn clear(&self) {
        let signals = self.0.take();
        let (handler_sets, installed): (Vec<_>, Vec<_>) =
            signals.into_values().map(|signal| (signal.handlers, signal._installed)).unzip();
        drop(installed);
        for handlers in handler_sets {
            let listeners = handlers.listeners.take();
            handlers.for_each_listener(listeners, SignalListener::close);
        }
    }

    fn find(&self, signum: i32) -> Option<Rc<SignalHandlers>> {
        self.0.borrow().get(&signum).map(|signal| Rc::clone(&signal.handlers))
    }

    /// The handlers of `signum`. Installs the signal if necessary.
    fn handlers_of(core: &Rc<Core>, signum: i32) -> Result<Rc<SignalHandlers>, Error> {
        core.check_open()?;
        if let Some(handlers) = core.signals.find(signum) {
            return Ok(handlers);
        }
        let pipe = core.engine.signal_pipe().ok_or(Error::Closed)?;
        let installed = install(signum, &pipe)?;
        let handlers = Rc::new(SignalHandlers {
            core: Rc::downgrade(core),
            callback: RefCell::default(),
            listeners: RefCell::default(),
        });
        let signal = InstalledSignal { handlers: Rc::clone(&handlers), _installed: installed };
        core.signals.0.borrow_mut().insert(signum, signal);
        let former = core.engine.set_signal(signum, Rc::<SignalHandlers>::clone(&handlers));
        drop(former);
        Ok(handlers)
    }

    fn release_if_unused(core: &Core, signum: i32) {
        let mut signals = core.signals.0.borrow_mut();
        if signals.get(&signum).is_some_and(|signal| signal.handlers.is_unused()) {
            let removed = signals.remove(&signum);
            drop(signals);
            drop(core.engine.remove_signal(signum));
            drop(removed);
        }
    }
}

impl SignalHandlers {
    fn is_unused(&self) -> bool {
        self.callback.borrow().is_none() && self.listeners.borrow().is_empty()
    }

    /// Calls `call` for each listener. A panic of a waker is reported and does not affect the others.
    fn for_each_listener(&self, listeners: Vec<Rc<SignalListener>>, call: impl Fn(&SignalListener)) {
        for listener in listeners {
            if let Err(text) = catch(|| call(&listener))
                && let Some(core) = self.core.upgrade()
            {
                core.call_exception_handler(&ExceptionContext::from_panic("A waker panicked", text));
            }
        }
    }
}

impl Watch for SignalHandlers {
    fn fire(&self) {
        let listeners = self.listeners.borrow().clone();
        self.for_each_listener(listeners, SignalListener::notify);
        let callback = self.callback.borrow().clone();
        if let Some(callback) = callback {
            callback.fire();
        }
    }

    fn cancel(&self) {}
}
