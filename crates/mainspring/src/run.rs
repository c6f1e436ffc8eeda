//! `run`: a program's way in.

use crate::error::Error;
use crate::event_loop::EventLoop;

/// Makes a loop, runs `future` on it to its end, cancels what is left, waits for the executor's threads and
/// closes the loop: as `asyncio.run` does.
///
/// [`Error::AlreadyRunning`] on a thread where a loop runs already.
///
/// # Panics
///
/// With the future's own panic, if it panics.
///
/// ```
/// let answer = mainspring::run(async { 6 * 7 })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn run<F: IntoFuture>(future: F) -> Result<F::Output, Error> {
    struct Close(EventLoop);
    impl Drop for Close {
        fn drop(&mut self) {
            // The loop does not run here, so nothing is refused.
            let _ = self.0.close();
        }
    }
    let event_loop = Close(EventLoop::new()?);
    let result = event_loop.0.run_until_complete(future);
    event_loop.0.cancel_every_task();
    // Destructors of what was cancelled may still have something to send or to close.
    let _ = event_loop.0.run_until_complete(async {});
    event_loop.0.shutdown_executor();
    result
}
