//! Runs, and runs inside runs.
//!
//! A callback may run the loop again. The nested run takes over where the current iteration is: it runs the remaining
//! ready calls first, so each call runs once and the order stays first in, first out. When it ends, the outer iteration
//! finds that the calls that it was to run have left the queue, and ends (`ready_queue`).
//!
//! Each run has its own stop flag. [`Engine::stop`] stops the innermost run. The future of an outer run may complete
//! during a nested one; [`Engine::stop_run`] then stops the outer run as soon as it continues.
//!
//! A run is identified by its depth: 1 for the outermost.

use super::{Engine, Host};
use std::cell::{Cell, RefCell};
use std::io;

#[derive(Default)]
pub(super) struct Runs {
    depth: Cell<usize>,
    /// The number of runs ever.
    begun: Cell<u64>,
    /// The stop flags of the outer runs, outermost first. That of the innermost run is `Engine::stopping`.
    outer_stops: RefCell<Vec<bool>>,
}

/// Ends a run when dropped.
pub(super) struct Run<'a, H: Host>(&'a Engine<H>);

impl<H: Host> Drop for Run<'_, H> {
    fn drop(&mut self) {
        let runs = &self.0.runs;
        runs.depth.set(runs.depth.get() - 1);
        let is_outer_stopping = runs.outer_stops.borrow_mut().pop();
        self.0.stopping.set(is_outer_stopping.unwrap_or(false));
        self.0.begin_scope_after_nested_run();
    }
}

impl<H: Host> Engine<H> {
    /// The depth of the current run; 0 if the loop is not running.
    pub fn run_depth(&self) -> usize {
        self.runs.depth.get()
    }

    /// The number of runs so far.
    pub(super) fn runs_begun(&self) -> u64 {
        self.runs.begun.get()
    }

    /// Stops the run at `depth` after its current iteration. Does nothing if there is no such run.
    pub fn stop_run(&self, depth: usize) {
        if depth == 0 || depth > self.run_depth() {
            return;
        }
        match self.runs.outer_stops.borrow_mut().get_mut(depth - 1) {
            Some(is_stopping) => *is_stopping = true,
            None => self.stopping.set(true),
        }
    }

    /// Begins a run.
    pub(super) fn begin_run(&self) -> Result<Run<'_, H>, H::Error> {
        self.end_driver_wait();
        let runs = &self.runs;
        if self.callback_scope().is_some() {
            self.end_scope_before_nested_run()?;
        }
        if runs.depth.get() > 0 {
            let mut outer_stops = runs.outer_stops.borrow_mut();
            if outer_stops.try_reserve(1).is_err() {
                drop(outer_stops);
                return Err(self.host.os_error(io::ErrorKind::OutOfMemory.into()));
            }
            outer_stops.push(self.stopping.replace(false));
        }
        runs.depth.set(runs.depth.get() + 1);
        runs.begun.set(runs.begun.get() + 1);
        Ok(Run(self))
    }
}
