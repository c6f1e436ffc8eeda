//! `Runtime::shutdown`, `shutdown_timeout`, `shutdown_now`, `shutdown_background` and `join`.

use super::foreign_channel::Channel;
use mainspring::testing::VirtualClock;
use mainspring::{Error, EventLoop, Runtime, sleep, spawn};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

#[test]
fn shutdown_waits_for_tasks_timers_and_executor_jobs() {
    let runtime = Runtime::builder().configure(|b| b.clock(VirtualClock::default())).start().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let done = Arc::clone(&done);
        let spawned = runtime.spawn(move || async move {
            sleep(Duration::from_secs(3600)).await;
            let inner = Arc::clone(&done);
            spawn(async move {
                sleep(Duration::from_secs(3600)).await;
                inner.fetch_add(1, Ordering::SeqCst);
            });
            EventLoop::current().run_in_executor(|| ()).unwrap().await.unwrap();
            done.fetch_add(1, Ordering::SeqCst);
        });
        drop(spawned);
    }
    runtime.shutdown().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 20);
}

/// Starts a task that receives 1,000 numbers from a thread. The thread waits for `start_signal`, and sends each number
/// after the previous one was received. In between, the loop sees nothing to do.
fn spawn_task_fed_by_a_thread(runtime: &Runtime, start_signal: mpsc::Receiver<()>) -> Arc<AtomicUsize> {
    const COUNT: u32 = 1000;
    let (channel, received) = (Channel::default(), Arc::new(AtomicUsize::new(0)));
    let (receiving, counter) = (channel.clone(), Arc::clone(&received));
    let (acknowledge, acknowledged) = mpsc::channel();
    drop(runtime.spawn(move || async move {
        for number in 0..COUNT {
            assert_eq!(receiving.recv().await, number);
            counter.fetch_add(1, Ordering::SeqCst);
            // The thread has ended if its test has failed.
            let _ = acknowledge.send(());
        }
        // Shutdown waits for tasks that a task spawns, too.
        spawn(async move {
            assert_eq!(receiving.recv().await, COUNT);
            counter.fetch_add(1, Ordering::SeqCst);
        });
    }));
    std::thread::spawn(move || {
        start_signal.recv().unwrap();
        for number in 0..COUNT {
            channel.send(number);
            if acknowledged.recv().is_err() {
                return;
            }
        }
        channel.send(COUNT);
    });
    received
}

#[test]
fn shutdown_waits_for_tasks_woken_only_by_other_threads() {
    type ShutDown = fn(Runtime) -> Result<(), Error>;
    let methods: [ShutDown; 3] = [Runtime::shutdown, Runtime::join, |runtime| {
        runtime.shutdown_timeout(Duration::from_secs(3600)).map(|cancelled| assert_eq!(cancelled, 0))
    }];
    for shut_down in methods {
        let runtime = Runtime::start().unwrap();
        let (start, start_signal) = mpsc::channel();
        let received = spawn_task_fed_by_a_thread(&runtime, start_signal);
        let ending = std::thread::spawn(move || shut_down(runtime));
        start.send(()).unwrap();
        ending.join().unwrap().unwrap();
        assert_eq!(received.load(Ordering::SeqCst), 1001);
    }
}

#[test]
fn shutdown_waits_for_several_tasks_woken_by_several_threads() {
    let runtime = Runtime::start().unwrap();
    let mut starts = Vec::new();
    let counts = [(); 5].map(|()| {
        let (start, start_signal) = mpsc::channel();
        starts.push(start);
        spawn_task_fed_by_a_thread(&runtime, start_signal)
    });
    let handle = runtime.handle();
    let starting = std::thread::spawn(move || {
        while !handle.is_shut_down() {
            std::thread::yield_now();
        }
        starts.iter().for_each(|start| start.send(()).unwrap());
    });
    runtime.shutdown().unwrap();
    starting.join().unwrap();
    assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [1001; 5]);
}

#[test]
fn shutdown_background_does_not_wait() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let pending_task = runtime.spawn(pending::<()>);
    let (release, blocked) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    let blocking = runtime.call(move || {
        start.send(()).unwrap();
        blocked.recv().unwrap();
    });
    started.recv().unwrap();
    runtime.shutdown_background();
    assert!(handle.is_shut_down());
    release.send(()).unwrap();
    blocking.wait().unwrap();
    assert!(pending_task.wait().unwrap_err().is_cancelled());
}

#[test]
fn shutdown_timeout_returns_the_number_of_cancelled_tasks() {
    let runtime = Runtime::start().unwrap();
    let stuck = runtime.spawn(pending::<()>);
    let nested = runtime.spawn({
        let handle = runtime.handle();
        move || async move { handle.spawn(pending::<()>).await }
    });
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)).unwrap(), 3);
    assert!(stuck.wait().unwrap_err().is_cancelled());
    nested.wait().unwrap_err();
}

#[test]
fn a_shut_down_runtime_refuses_work() {
    let runtime = Runtime::start().unwrap();
    let (handle, remote) = (runtime.handle(), runtime.remote());
    assert!(!handle.is_shut_down());
    runtime.shutdown().unwrap();
    assert!(handle.is_shut_down());
    assert!(matches!(handle.call_soon_threadsafe(|| ()), Err(Error::ShutDown)));
    assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
    assert!(handle.spawn(|| async {}).wait().unwrap_err().is_refused());
    assert!(handle.delay(Duration::ZERO).wait().unwrap_err().is_refused());
    let error = handle.connect("127.0.0.1:1").wait().unwrap_err();
    assert_eq!(error.to_string(), "refused: the runtime or executor is shut down");
    assert!(remote.call_soon_threadsafe(|| ()).is_err());
}

#[test]
fn during_shutdown_work_from_the_loop_thread_is_accepted_and_other_work_refused() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let (release, blocked) = mpsc::channel::<()>();
    let (inside, last) = (runtime.handle(), runtime.handle());
    let chained = runtime
        .call(move || blocked.recv().unwrap())
        .and_then(move |()| inside.delay(Duration::from_millis(1)))
        .and_then(move |()| last.spawn(|| async { 42 }));
    let ending = std::thread::spawn(move || runtime.shutdown());
    while !handle.is_shut_down() {
        std::thread::yield_now();
    }
    assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
    release.send(()).unwrap();
    assert_eq!(chained.wait(), Ok(42));
    ending.join().unwrap().unwrap();
}

#[test]
fn work_that_races_with_shutdown_is_either_refused_or_done() {
    const THREADS: usize = 3;
    for round in 0..60 {
        let runtime = Runtime::start().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(THREADS + 1));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (handle, done, start) = (runtime.handle(), Arc::clone(&done), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    let mut accepted = 0;
                    let mut results = Vec::new();
                    loop {
                        let (one, two) = (Arc::clone(&done), Arc::clone(&done));
                        match handle.call_soon_threadsafe(move || {
                            one.fetch_add(1, Ordering::SeqCst);
                        }) {
                            Ok(()) => accepted += 1,
                            Err(error) => {
                                assert!(matches!(error, Error::ShutDown));
                                return (accepted, results);
                            }
                        }
                        results.push(handle.spawn(move || async move {
                            sleep(Duration::ZERO).await;
                            two.fetch_add(1, Ordering::SeqCst);
                        }));
                    }
                })
            })
            .collect();
        start.wait();
        if round % 2 == 0 {
            runtime.shutdown().unwrap();
        } else {
            assert_eq!(runtime.shutdown_timeout(Duration::from_secs(3600)).unwrap(), 0);
        }
        let mut accepted = 0;
        for thread in threads {
            let (calls, results) = thread.join().unwrap();
            accepted += calls;
            for result in results {
                match result.wait() {
                    Ok(()) => accepted += 1,
                    Err(error) => assert!(error.is_refused(), "{error}"),
                }
            }
        }
        assert_eq!(done.load(Ordering::SeqCst), accepted);
    }
}

#[test]
fn join_accepts_work_until_the_loop_is_idle() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let (release, blocked) = mpsc::channel::<()>();
    let first = runtime.spawn(move || EventLoop::current().run_in_executor(move || blocked.recv()).unwrap());
    let joining = std::thread::spawn(move || runtime.join());
    assert_eq!(handle.call(|| 1).wait(), Ok(1), "not refused");
    release.send(()).unwrap();
    first.wait().unwrap().unwrap().unwrap();
    joining.join().unwrap().unwrap();
    assert!(handle.is_shut_down());
}

#[test]
fn shutdown_now_cancels_pending_work() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let sleeping = runtime.delay(Duration::from_secs(3600));
    let (release, blocked) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    let blocking = runtime.call(move || {
        start.send(()).unwrap();
        blocked.recv().unwrap();
    });
    started.recv().unwrap();
    let queued = runtime.call(|| unreachable!());
    let ending = std::thread::spawn(move || runtime.shutdown_now());
    while !handle.is_shut_down() {
        std::thread::yield_now();
    }
    release.send(()).unwrap();
    ending.join().unwrap().unwrap();
    blocking.wait().unwrap();
    assert!(sleeping.wait().unwrap_err().is_cancelled());
    let queued: Result<(), _> = queued.wait();
    queued.unwrap_err();
}

#[test]
fn shutdown_timeout_cancels_tasks_that_take_too_long() {
    let runtime = Runtime::start().unwrap();
    let sleeping = runtime.delay(Duration::from_secs(3600));
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)).unwrap(), 1);
    assert!(sleeping.wait().unwrap_err().is_cancelled());
    let runtime = Runtime::start().unwrap();
    let short = runtime.delay(Duration::from_millis(1));
    assert_eq!(runtime.shutdown_timeout(Duration::from_secs(3600)).unwrap(), 0);
    assert_eq!(short.wait(), Ok(()));
}
