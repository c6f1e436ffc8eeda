//! `HyperExecutor`: runs hyper's tasks on the loop.

use crate::task::spawn;
use hyper::rt::Executor;

/// Runs futures as tasks of the running loop. They need not be `Send`.
///
/// A panic of a task is reported to the exception handler. See [the module documentation](super) for a complete
/// program.
///
/// # Panics
///
/// Panics if this thread runs no loop. hyper calls it only from its own futures.
///
/// ```
/// use hyper::rt::Executor;
/// use mainspring::hyper::HyperExecutor;
/// use std::{cell::Cell, rc::Rc};
///
/// let ran = Rc::new(Cell::new(false));
/// let flag = Rc::clone(&ran);
/// mainspring::run(async move {
///     HyperExecutor.execute(async move { flag.set(true) });
///     mainspring::sleep(std::time::Duration::ZERO).await;
/// })?;
/// assert!(ran.get());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperExecutor;

impl<F> Executor<F> for HyperExecutor
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, future: F) {
        drop(spawn(future));
    }
}
