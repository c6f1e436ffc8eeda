//! `HyperExecutor`: hyper's own tasks, on the loop.

use crate::task::spawn;
use hyper::rt::Executor;

/// Runs futures as tasks of the loop that runs on this thread; they need not be `Send`.
///
/// A task that panics is reported to the exception handler. See the text of [the module](super) for a whole program.
///
/// # Panics
///
/// Running a future where no loop runs. hyper does it only from within its own futures.
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
