//! `Runtime`: a loop on its own thread.

mod dropping;
mod foreign_channel;
mod shutdown;
mod sockets;
mod time_limits;

use mainspring::testing::{FakePoller, Op};
use mainspring::{Error, EventLoop, JoinError, Runtime, RuntimeHandle, sleep};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn a_runtime_and_its_handle_are_send_and_sync() {
    is_send_and_sync::<Runtime>();
    is_send_and_sync::<RuntimeHandle>();
}

#[test]
fn calls_and_futures_run_on_the_loop_thread() {
    let runtime = Runtime::builder().name("loop-thread").start().unwrap();
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(runtime.call(name).wait().unwrap().as_deref(), Some("loop-thread"));
    assert_eq!(runtime.spawn(move || async move { name() }).wait().unwrap().as_deref(), Some("loop-thread"));
    assert_eq!(runtime.call(|| EventLoop::current().name().to_owned()).wait().unwrap(), "loop-thread");
    assert_eq!(runtime.name(), "loop-thread");
}

#[test]
fn panics_are_errors_of_the_result_and_do_not_end_the_loop() {
    let runtime = Runtime::start().unwrap();
    let text = |result: Result<(), JoinError>| result.unwrap_err().to_string();
    assert!(text(runtime.call(|| panic!("a call")).wait()).contains("a call"));
    assert!(text(runtime.spawn(|| async { panic!("a future") }).wait()).contains("a future"));
    let make = || -> std::future::Ready<()> { panic!("a closure") };
    assert!(text(runtime.spawn(make).wait()).contains("a closure"));
    assert_eq!(runtime.call(|| 1).wait(), Ok(1));
}

#[test]
fn stopping_the_loop_does_not_end_its_runtime() {
    let runtime = Runtime::start().unwrap();
    runtime.call(|| EventLoop::current().stop()).wait().unwrap();
    runtime.remote().stop().unwrap();
    let stopping = runtime.spawn(|| async {
        sleep(Duration::from_millis(1)).await;
        EventLoop::current().stop();
        sleep(Duration::from_millis(1)).await;
    });
    runtime.shutdown().unwrap();
    assert_eq!(stopping.wait(), Ok(()));
}

#[test]
fn start_fails_if_the_loop_cannot_be_created() {
    let started = Runtime::builder().configure(|builder| builder.backend(failing_backend())).start();
    assert!(matches!(started, Err(Error::Io(_))));
    let started = catch_unwind(AssertUnwindSafe(|| {
        Runtime::builder().configure(|_| panic!("configure")).start().map(drop)
    }));
    assert!(started.is_err());
}

/// A back end that fails to register the loop's own fds.
fn failing_backend() -> mainspring::testing::Backend {
    let (backend, control) = FakePoller::open().unwrap();
    control.fail_next(Op::Update, 12);
    backend
}

#[test]
fn waiting_on_the_loop_thread_for_the_loops_own_work_panics() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let waits: [fn(&RuntimeHandle); 3] = [
        |handle| drop(handle.call(|| ()).wait()),
        |handle| drop(handle.spawn(|| async {}).wait()),
        |handle| drop(handle.call(|| 1).map(|number| number + 1).wait()),
    ];
    for wait in waits {
        let handle = handle.clone();
        let error = runtime.call(move || wait(&handle)).wait().unwrap_err();
        assert!(error.to_string().contains("await the result instead"), "{error}");
    }
    // Results of another loop and finished results may be waited for.
    let other = Runtime::start().unwrap();
    assert_eq!(runtime.call(move || other.call(|| 1).wait()).wait(), Ok(Ok(1)));
    let finished = handle.call(|| 2);
    handle.call(|| ()).wait().unwrap();
    assert_eq!(runtime.call(move || finished.wait()).wait(), Ok(Ok(2)));
}
