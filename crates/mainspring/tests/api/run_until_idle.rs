//! `run_until_idle`: what keeps the loop running.

use crate::support::{Log, collect_reports, new_loop, virtual_loop};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{ConcurrentFuture, Error, EventLoop, Runtime, sleep, spawn};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_idle_loop_returns_at_once() {
    let event_loop = new_loop();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert!(!event_loop.is_running());
}

#[test]
fn calls_timers_and_tasks_finish_with_everything_they_start() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let (inner, inside) = (event_loop.clone(), log.clone());
    event_loop
        .call_soon(move || {
            let (last, log) = (inner.clone(), inside.clone());
            inner
                .call_later(HOUR, move || {
                    let inside = log.clone();
                    last.spawn(async move {
                        sleep(HOUR).await;
                        spawn(async move {
                            sleep(HOUR).await;
                            inside.add("last");
                        });
                    })
                    .unwrap();
                    log.add("timer");
                })
                .unwrap();
            inside.add("call");
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert(["call", "timer", "last"]);
    assert_eq!(event_loop.time().as_nanos(), 3 * HOUR.as_nanos() as u64);
}

#[test]
fn deadlocked_tasks_are_counted_and_do_not_keep_the_loop_running() {
    let event_loop = new_loop();
    let first = event_loop.create_future::<()>();
    let second = event_loop.create_future::<()>();
    for (to_set, to_await) in [(first.clone(), second.clone()), (second.clone(), first.clone())] {
        event_loop
            .spawn(async move {
                to_await.await.unwrap();
                to_set.set_result(()).unwrap();
            })
            .unwrap();
    }
    assert_eq!(event_loop.run_until_idle().unwrap(), 2);
    // They still exist and continue when woken.
    first.set_result(()).unwrap();
    let reports = collect_reports(&event_loop);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(reports.entries().len(), 1, "set_result of the first task fails: the result is set already");
}

#[test]
fn a_timer_that_never_fires_does_not_keep_the_loop_running() {
    let event_loop = new_loop();
    event_loop.call_later(Duration::MAX, || unreachable!()).unwrap();
    event_loop.spawn(sleep(Duration::MAX)).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 1);
}

#[test]
fn a_cancelled_timer_does_not_keep_the_loop_running() {
    let event_loop = new_loop();
    let timer = event_loop.call_later(HOUR, || unreachable!()).unwrap();
    event_loop.call_soon(move || timer.cancel()).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_reader_keeps_the_loop_running_until_it_is_removed() {
    let event_loop = new_loop();
    let (local, mut peer) = UnixStream::pair().unwrap();
    let log = Log::new();
    let (inner, inside, mut reading) = (event_loop.clone(), log.clone(), local.try_clone().unwrap());
    let fd = std::os::fd::AsRawFd::as_raw_fd(&local);
    event_loop
        .add_reader(&local, move || {
            let mut byte = [0];
            reading.read_exact(&mut byte).unwrap();
            inside.add(byte[0]);
            if byte == *b"c" {
                inner.remove_reader(&fd).unwrap();
            }
        })
        .unwrap();
    let writer = std::thread::spawn(move || {
        peer.write_all(b"abc").unwrap();
        peer
    });
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert(*b"abc");
    drop(writer.join());
}

#[test]
fn a_tcp_exchange_is_completed() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    event_loop
        .spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr();
            let client = spawn(async move {
                let client = TcpStream::connect(address).await.unwrap();
                client.write_all(b"hello").await.unwrap();
                client.shutdown();
                client.read_to_end().await.unwrap()
            });
            let (server, _) = listener.accept().await.unwrap();
            drop(listener);
            let received = server.read_to_end().await.unwrap();
            server.write_all(&received).await.unwrap();
            drop(server);
            inside.add(String::from_utf8(client.await.unwrap()).unwrap());
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert(["hello".to_owned()]);
}

#[test]
fn a_signal_handler_does_not_keep_the_loop_running() {
    let event_loop = new_loop();
    event_loop.add_signal_handler(12, || {}).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn an_executor_job_keeps_the_loop_running_even_if_not_awaited() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let (sender, finished) = mpsc::channel();
    let not_awaited = event_loop.run_in_executor(move || {
        blocked.recv().unwrap();
        sender.send(()).unwrap();
    });
    drop(not_awaited);
    let log = Log::new();
    let inside = log.clone();
    let awaited = event_loop.run_in_executor(|| 42).unwrap();
    event_loop.spawn(async move { inside.add(awaited.await.unwrap()) }).unwrap();
    event_loop.call_later(Duration::from_millis(1), move || release.send(()).unwrap()).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    finished.try_recv().unwrap();
    log.assert([42]);
}

#[test]
fn calls_sent_by_other_threads_are_run() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let results: Vec<_> =
        std::thread::spawn(move || (0..10).map(|n| remote.spawn(move || async move { n })).collect())
            .join()
            .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap().wait().unwrap(), n);
    }
}

#[test]
fn a_task_awaiting_another_loop_keeps_the_loop_running() {
    let other = Runtime::start().unwrap();
    let event_loop = new_loop();
    let later = other.delay(Duration::from_millis(5));
    event_loop.spawn(later).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_concurrent_future_no_longer_awaited_does_not_keep_the_loop_running() {
    let event_loop = new_loop();
    let (_promise, result) = ConcurrentFuture::<()>::pair();
    let task = event_loop.spawn(result).unwrap();
    event_loop.call_later(Duration::from_millis(1), move || assert!(task.cancel())).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn tasks_deadlocked_through_a_remote_are_counted_too() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let never = remote.spawn(std::future::pending::<()>).unwrap();
    event_loop.spawn(never).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 2);
}

#[test]
fn keep_alive_keeps_the_loop_running() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let keep_alive = remote.keep_alive();
    let second_keep_alive = remote.keep_alive();
    let log = Log::new();
    let (done, inside) = (event_loop.create_future(), log.clone());
    let wake = done.clone();
    event_loop.spawn(async move { inside.add(done.await.unwrap()) }).unwrap();
    thread_local! {
        static WAKE: std::cell::RefCell<Option<mainspring::Future<i32>>> = const { std::cell::RefCell::new(None) };
    }
    WAKE.set(Some(wake));
    let other = std::thread::spawn(move || {
        drop(second_keep_alive);
        remote.call_soon_threadsafe(|| drop(WAKE.take().unwrap().set_result(1))).unwrap();
        drop(keep_alive);
    });
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert([1]);
    other.join().unwrap();
}

#[test]
fn stop_ends_the_run_and_the_loop_can_run_again() {
    let (event_loop, _clock) = virtual_loop();
    let stopper = event_loop.clone();
    event_loop.call_soon(move || stopper.stop()).unwrap();
    event_loop.call_later(HOUR, || {}).unwrap();
    assert!(matches!(event_loop.run_until_idle(), Err(Error::Stopped)));
    assert_eq!(event_loop.metrics().timers, 1);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_running_or_closed_loop_refuses_run_until_idle() {
    let event_loop = new_loop();
    let inner = event_loop.clone();
    let refused = event_loop.run_until_complete(async { inner.run_until_idle() }).unwrap();
    assert!(matches!(refused, Err(Error::AlreadyRunning)));
    event_loop.close().unwrap();
    assert!(matches!(event_loop.run_until_idle(), Err(Error::Closed)));
}

#[test]
fn panics_do_not_end_the_run() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    event_loop.call_soon(|| panic!("one")).unwrap();
    event_loop.call_later(Duration::from_millis(1), || panic!("two")).unwrap();
    drop(event_loop.spawn(async { panic!("three") }).unwrap());
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(reports.entries().len(), 3);
}

#[test]
fn a_task_that_always_yields_keeps_the_loop_running_until_it_is_stopped() {
    let event_loop = new_loop();
    event_loop
        .spawn(async {
            for _ in 0..1000 {
                sleep(Duration::ZERO).await;
            }
            EventLoop::current().stop();
            loop {
                sleep(Duration::ZERO).await;
            }
        })
        .unwrap();
    assert!(matches!(event_loop.run_until_idle(), Err(Error::Stopped)));
}
