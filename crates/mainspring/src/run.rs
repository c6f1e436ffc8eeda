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
    struct WindUp(EventLoop);
    impl Drop for WindUp {
        fn drop(&mut self) {
            self.0.wind_up(!std::thread::panicking());
        }
    }
    let event_loop = WindUp(EventLoop::new()?);
    event_loop.0.run_until_complete(future)
}
