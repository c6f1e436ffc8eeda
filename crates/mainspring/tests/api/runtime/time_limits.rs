//! `run` and `timeout` of a runtime.

use mainspring::testing::VirtualClock;
use mainspring::{ConcurrentFuture, JoinError, Runtime};
use std::future::pending;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A runtime on which hours pass at once.
fn virtual_runtime() -> Runtime {
    Runtime::builder().configure(|builder| builder.clock(VirtualClock::default())).start().unwrap()
}

/// Sends when it is dropped.
struct SendOnDrop(mpsc::Sender<()>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn run_returns_the_result_or_the_panic_of_a_future() {
    let runtime = Runtime::start().unwrap();
    assert_eq!(runtime.run(|| async { 6 * 7 }), Ok(42));
    assert!(runtime.run(|| async { panic!("out of luck") }).unwrap_err().is_panic());
    let handle = runtime.handle();
    let stuck = runtime.call(move || handle.run(|| async {}));
    assert!(stuck.wait().unwrap_err().to_string().contains("await the result instead"));
    let handle = runtime.handle();
    runtime.shutdown().unwrap();
    assert!(handle.run(|| async {}).unwrap_err().is_refused());
}

#[test]
fn a_timeout_is_an_error_and_cancels_the_work() {
    let runtime = virtual_runtime();
    let (sender, dropped) = mpsc::channel();
    let work = runtime.spawn(move || async move {
        let _send = SendOnDrop(sender);
        pending::<()>().await;
    });
    let error = runtime.timeout(HOUR, work).wait().unwrap_err();
    assert!(error.is_timed_out() && !error.is_cancelled());
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
    dropped.recv().unwrap();
    runtime.shutdown().unwrap();
}

#[test]
fn a_result_or_an_error_in_time_is_unchanged() {
    let runtime = virtual_runtime();
    let in_time = runtime.delay(HOUR).map(|()| 42);
    assert_eq!(runtime.timeout(2 * HOUR, in_time).wait(), Ok(42));
    let failed = ConcurrentFuture::<(), _>::ready(Err(io::Error::from(io::ErrorKind::NotFound)));
    assert_eq!(runtime.timeout(HOUR, failed).wait().unwrap_err().kind(), io::ErrorKind::NotFound);
    let late = runtime.delay(2 * HOUR).err_into::<io::Error>();
    assert_eq!(runtime.timeout(HOUR, late).wait().unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn cancelling_a_limited_future_cancels_the_work() {
    let runtime = Runtime::start().unwrap();
    let (sender, dropped) = mpsc::channel();
    let work = runtime.spawn(move || async move {
        let _send = SendOnDrop(sender);
        pending::<()>().await;
    });
    let limited = runtime.timeout(HOUR, work);
    assert!(limited.cancel());
    dropped.recv().unwrap();
    runtime.shutdown().unwrap();
}

#[test]
fn a_runtime_that_is_shut_down_refuses_a_timeout_and_cancels_the_future() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    runtime.shutdown().unwrap();
    let (promise, future) = ConcurrentFuture::<(), JoinError>::pair();
    assert!(handle.timeout(HOUR, future).wait().unwrap_err().is_refused());
    assert!(promise.is_cancelled());
}
