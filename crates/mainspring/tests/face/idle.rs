//! `run_until_idle`: what keeps a loop running, and what does not.

use crate::support::{Log, collect_reports, new_loop, virtual_loop};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{ConcurrentFuture, Error, EventLoop, Runtime, sleep, spawn};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_loop_with_nothing_to_do_ends_at_once() {
    let event_loop = new_loop();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert!(!event_loop.is_running());
}

#[test]
fn calls_timers_and_tasks_run_to_their_end_with_what_they_begin() {
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
fn tasks_that_wait_for_each_other_in_vain_end_it_and_are_counted() {
    let event_loop = new_loop();
    let first = event_loop.create_future::<()>();
    let second = event_loop.create_future::<()>();
    for (mine, others) in [(first.clone(), second.clone()), (second.clone(), first.clone())] {
        event_loop
            .spawn(async move {
                others.await.unwrap();
                mine.set_result(()).unwrap();
            })
            .unwrap();
    }
    assert_eq!(event_loop.run_until_idle().unwrap(), 2);
    // They are still there, and go on when they can.
    first.set_result(()).unwrap();
    let reports = collect_reports(&event_loop);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(reports.entries().len(), 1, "the first was given its result by somebody else");
}

#[test]
fn a_timer_that_never_comes_is_nothing_to_wait_for() {
    let event_loop = new_loop();
    event_loop.call_later(Duration::MAX, || unreachable!()).unwrap();
    event_loop.spawn(sleep(Duration::MAX)).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 1);
}

#[test]
fn a_timer_that_is_cancelled_is_nothing_to_wait_for() {
    let event_loop = new_loop();
    let timer = event_loop.call_later(HOUR, || unreachable!()).unwrap();
    event_loop.call_soon(move || timer.cancel()).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_watched_descriptor_keeps_it_until_it_is_removed() {
    let event_loop = new_loop();
    let (here, mut there) = UnixStream::pair().unwrap();
    let log = Log::new();
    let (inner, inside, mut reading) = (event_loop.clone(), log.clone(), here.try_clone().unwrap());
    let fd = std::os::fd::AsRawFd::as_raw_fd(&here);
    event_loop
        .add_reader(&here, move || {
            let mut byte = [0];
            reading.read_exact(&mut byte).unwrap();
            inside.add(byte[0]);
            if byte == *b"c" {
                inner.remove_reader(&fd).unwrap();
            }
        })
        .unwrap();
    let writer = std::thread::spawn(move || {
        there.write_all(b"abc").unwrap();
        there
    });
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert(*b"abc");
    drop(writer.join());
}

#[test]
fn a_conversation_is_run_to_its_end() {
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
            let heard = server.read_to_end().await.unwrap();
            server.write_all(&heard).await.unwrap();
            drop(server);
            inside.add(String::from_utf8(client.await.unwrap()).unwrap());
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert(["hello".to_owned()]);
}

#[test]
fn a_signal_handler_does_not_keep_it() {
    let event_loop = new_loop();
    event_loop.add_signal_handler(12, || {}).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_call_in_the_executor_keeps_it_whether_awaited_or_not() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let unwanted = event_loop.run_in_executor(move || {
        blocked.recv().unwrap();
        tell.send(()).unwrap();
    });
    drop(unwanted);
    let log = Log::new();
    let inside = log.clone();
    let wanted = event_loop.run_in_executor(|| 42).unwrap();
    event_loop.spawn(async move { inside.add(wanted.await.unwrap()) }).unwrap();
    event_loop.call_later(Duration::from_millis(1), move || release.send(()).unwrap()).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    told.try_recv().unwrap();
    log.assert([42]);
}

#[test]
fn what_other_threads_have_sent_is_run() {
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
fn a_result_of_another_loop_is_waited_for() {
    let other = Runtime::start().unwrap();
    let event_loop = new_loop();
    let later = other.delay(Duration::from_millis(5));
    event_loop.spawn(later).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn a_result_that_nobody_awaits_any_more_is_not_waited_for() {
    let event_loop = new_loop();
    let (_promise, result) = ConcurrentFuture::<()>::pair();
    let task = event_loop.spawn(result).unwrap();
    event_loop.call_later(Duration::from_millis(1), move || assert!(task.cancel())).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn tasks_that_await_each_others_results_by_way_of_the_remote_are_stuck_too() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let never = remote.spawn(std::future::pending::<()>).unwrap();
    event_loop.spawn(never).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 2);
}

#[test]
fn a_loop_that_is_kept_alive_waits_for_what_it_cannot_see() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let keep_alive = remote.keep_alive();
    let also = remote.keep_alive();
    let log = Log::new();
    let (done, inside) = (event_loop.create_future(), log.clone());
    let wake = done.clone();
    event_loop.spawn(async move { inside.add(done.await.unwrap()) }).unwrap();
    thread_local! {
        static WAKE: std::cell::RefCell<Option<mainspring::Future<i32>>> = const { std::cell::RefCell::new(None) };
    }
    WAKE.set(Some(wake));
    let other = std::thread::spawn(move || {
        drop(also);
        remote.call_soon_threadsafe(|| drop(WAKE.take().unwrap().set_result(1))).unwrap();
        drop(keep_alive);
    });
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    log.assert([1]);
    other.join().unwrap();
}

#[test]
fn a_stop_ends_it_before_and_it_can_be_taken_up_again() {
    let (event_loop, _clock) = virtual_loop();
    let stopper = event_loop.clone();
    event_loop.call_soon(move || stopper.stop()).unwrap();
    event_loop.call_later(HOUR, || {}).unwrap();
    assert!(matches!(event_loop.run_until_idle(), Err(Error::Stopped)));
    assert_eq!(event_loop.metrics().timers, 1);
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}

#[test]
fn it_is_refused_inside_of_a_loop_and_on_a_closed_one() {
    let event_loop = new_loop();
    let inner = event_loop.clone();
    let refused = event_loop.run_until_complete(async { inner.run_until_idle() }).unwrap();
    assert!(matches!(refused, Err(Error::AlreadyRunning)));
    event_loop.close().unwrap();
    assert!(matches!(event_loop.run_until_idle(), Err(Error::Closed)));
}

#[test]
fn panics_do_not_end_it() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    event_loop.call_soon(|| panic!("one")).unwrap();
    event_loop.call_later(Duration::from_millis(1), || panic!("two")).unwrap();
    drop(event_loop.spawn(async { panic!("three") }).unwrap());
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(reports.entries().len(), 3);
}

#[test]
fn a_task_that_gives_way_for_ever_keeps_it_until_it_is_stopped() {
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
