//! `Remote`: calls and tasks from other threads.

use crate::support::{Log, new_loop, run_on, run_one_iteration};
use mainspring::{EventLoop, sleep};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn all_calls_of_several_threads_run_and_keep_each_threads_order() {
    const THREADS: usize = 8;
    const CALLS: usize = 500;
    thread_local! {
        static SEEN: Log<(usize, usize)> = Log::new();
    }
    let event_loop = new_loop();
    let start = Arc::new(Barrier::new(THREADS));
    let left = Arc::new(AtomicUsize::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (remote, start, left) = (event_loop.remote(), Arc::clone(&start), Arc::clone(&left));
            std::thread::spawn(move || {
                start.wait();
                for call in 0..CALLS {
                    remote.call_soon_threadsafe(move || SEEN.with(|seen| seen.add((thread, call)))).unwrap();
                }
                left.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    // Timers fire meanwhile.
    run_on(&event_loop, async {
        while left.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_micros(50)).await;
        }
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    run_one_iteration(&event_loop);
    let seen = SEEN.with(Log::entries);
    assert_eq!(seen.len(), THREADS * CALLS);
    for thread in 0..THREADS {
        let calls: Vec<_> = seen.iter().filter(|(of, _)| *of == thread).map(|(_, call)| *call).collect();
        assert!(calls.is_sorted(), "thread {thread}: {calls:?}");
    }
}

#[test]
fn call_soon_threadsafe_on_the_loop_thread_keeps_the_order_of_call_soon() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    thread_local! {
        static SEEN: Log<&'static str> = Log::new();
    }
    let add = |entry| move || SEEN.with(|seen| seen.add(entry));
    // Before the loop runs.
    event_loop.call_soon(add("a")).unwrap();
    remote.call_soon_threadsafe(add("b")).unwrap();
    event_loop.call_soon(add("c")).unwrap();
    run_one_iteration(&event_loop);
    // While the loop runs.
    let inner = event_loop.clone();
    event_loop
        .run_until_complete(async move {
            inner.call_soon(add("d")).unwrap();
            remote.call_soon_threadsafe(add("e")).unwrap();
            inner.call_soon(add("f")).unwrap();
            sleep(Duration::ZERO).await;
        })
        .unwrap();
    SEEN.with(|seen| seen.assert(["a", "b", "c", "d", "e", "f"]));
}

#[test]
fn a_call_from_another_thread_wakes_a_blocked_loop() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let other = std::thread::spawn(move || remote.call_soon_threadsafe(|| EventLoop::current().stop()));
    event_loop.run_forever().unwrap();
    other.join().unwrap().unwrap();
}

#[test]
fn another_thread_can_spawn_a_future_that_is_not_send() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let other = std::thread::spawn(move || {
        let value = remote.spawn(|| {
            let local = std::rc::Rc::new(42);
            async move {
                sleep(Duration::from_millis(1)).await;
                *local
            }
        });
        let value = value.unwrap().wait();
        let panicked = remote.spawn(|| async { panic!("remote") }).unwrap().wait();
        remote.stop().unwrap();
        (value, panicked)
    });
    event_loop.run_forever().unwrap();
    let (value, panicked) = other.join().unwrap();
    assert_eq!(value, Ok(42));
    assert_eq!(panicked.unwrap_err().panic_text(), Some("remote"));
}

#[test]
fn close_cancels_a_sent_task_that_never_ran() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let sent = std::thread::spawn(move || remote.spawn(|| async {})).join().unwrap().unwrap();
    event_loop.close().unwrap();
    assert!(sent.wait().unwrap_err().is_cancelled());
}

#[test]
fn a_result_of_one_loop_can_be_awaited_on_another() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let event_loop = new_loop();
        sender.send(event_loop.remote()).unwrap();
        event_loop.run_forever().unwrap();
    });
    let remote = receiver.recv().unwrap();
    let local = new_loop();
    assert_eq!(run_on(&local, remote.spawn(|| async { "remote" }).unwrap()), Ok("remote"));
    remote.stop().unwrap();
    thread.join().unwrap();
}
