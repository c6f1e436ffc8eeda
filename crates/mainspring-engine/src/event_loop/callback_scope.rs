//! The scope of one callback: which call is running, and which sources want to know when it returns.
//!
//! A [`CallbackScope`] is one call that the loop makes: a callback, a step of a task, the serving of one transport. A
//! transport may write several pieces during one scope, and coalesces them if it knows which one is the last. It
//! therefore asks with [`Engine::at_scope_end`] to be called when the scope ends, with or without an error.

use super::{Engine, Host};
use std::cell::{Cell, RefCell};

/// The number of a scope. It wraps after 2^32: different numbers always mean different scopes, equal numbers almost
/// always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallbackScope(u32);

#[cfg(test)]
impl CallbackScope {
    pub(crate) fn numbered(number: u32) -> Self {
        CallbackScope(number)
    }
}

/// The current scope, and the sources that wait for its end.
pub(super) struct CallbackScopes<H: Host> {
    is_under_way: Cell<bool>,
    is_awaited: Cell<bool>,
    awaited: RefCell<Vec<H::Source>>,
}

impl<H: Host> Default for CallbackScopes<H> {
    fn default() -> Self {
        CallbackScopes {
            is_under_way: Cell::new(false),
            is_awaited: Cell::new(false),
            awaited: RefCell::default(),
        }
    }
}

impl<H: Host> Engine<H> {
    /// The current scope; `None` while the loop makes no call.
    pub fn callback_scope(&self) -> Option<CallbackScope> {
        self.scopes.is_under_way.get().then(|| CallbackScope(self.progress().steps() as u32))
    }

    /// Calls [`Host::scope_ended`] for `source` when the current scope ends; when the next one ends, if none is
    /// running.
    pub fn at_scope_end(&self, source: H::Source) {
        self.scopes.awaited.borrow_mut().push(source);
        self.scopes.is_awaited.set(true);
    }

    /// Runs one call as a scope. Scopes nest: a call may run the loop.
    #[inline(always)]
    pub(super) fn in_callback_scope(
        &self,
        call: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        let scopes = &self.scopes;
        self.progress().begin_call();
        let outer = scopes.is_under_way.replace(true);
        let outcome = call();
        scopes.is_under_way.set(outer);
        if outer {
            self.progress().continue_call();
        }
        if scopes.is_awaited.get() {
            let ended = self.end_scope();
            return self.host.merge_outcomes(outcome, ended);
        }
        outcome
    }

    /// A call is about to run the loop: its scope ends here. Otherwise data that a transport holds back for a later
    /// piece would wait for the nested run.
    pub(super) fn end_scope_before_nested_run(&self) -> Result<(), H::Error> {
        if self.scopes.is_awaited.get() { self.end_scope() } else { Ok(()) }
    }

    /// The nested run has ended: the rest of the call is another scope.
    pub(super) fn begin_scope_after_nested_run(&self) {
        self.progress().continue_call();
    }

    fn end_scope(&self) -> Result<(), H::Error> {
        self.scopes.is_awaited.set(false);
        let awaited = self.scopes.awaited.take();
        let mut outcome = Ok(());
        for source in awaited {
            let ended = self.host.scope_ended(source);
            outcome = self.host.merge_outcomes(outcome, ended);
        }
        outcome
    }
}
