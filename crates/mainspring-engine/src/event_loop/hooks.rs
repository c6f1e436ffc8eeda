//! Hooks: calls to the host at the beginning and the end of an iteration, and before the loop waits.

use super::{Engine, Host};
use std::time::Duration;

/// The hooks of the host that the loop calls. A hook that is not set costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Calls [`Host::on_iteration_begin`](crate::Host::on_iteration_begin).
    pub iteration_begin: bool,
    /// Calls [`Host::on_iteration_end`](crate::Host::on_iteration_end).
    pub iteration_end: bool,
    /// Calls [`Host::on_idle`](crate::Host::on_idle).
    pub idle: bool,
}

impl Hooks {
    #[inline(always)]
    fn has_iteration_hook(self) -> bool {
        self.iteration_begin || self.iteration_end
    }
}

impl<H: Host> Engine<H> {
    /// Sets the hooks that the loop calls from now on.
    pub fn set_hooks(&self, hooks: Hooks) {
        self.hooks.set(hooks);
    }

    /// Runs an iteration, with the hooks around it.
    #[inline(always)]
    pub(super) fn with_iteration_hooks(
        &self,
        iterate: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        if self.hooks.get().has_iteration_hook() { self.call_iteration_hooks(iterate) } else { iterate() }
    }

    /// The end hook is also called after an error.
    #[cold]
    fn call_iteration_hooks(&self, iterate: impl FnOnce() -> Result<(), H::Error>) -> Result<(), H::Error> {
        let begun = if self.hooks.get().iteration_begin { self.host.on_iteration_begin() } else { Ok(()) };
        let outcome = begun.and_then(|()| iterate());
        let ended = if self.hooks.get().iteration_end { self.host.on_iteration_end() } else { Ok(()) };
        self.host.merge_outcomes(outcome, ended)
    }

    /// Calls the idle hook if the loop would wait. Returns whether it now has work to do.
    #[cold]
    pub(super) fn call_idle_hook(&self) -> Result<bool, H::Error> {
        let timeout = self.time_until_work();
        if timeout == Some(Duration::ZERO) {
            return Ok(false);
        }
        self.host.on_idle(timeout)?;
        Ok(self.is_busy())
    }
}
