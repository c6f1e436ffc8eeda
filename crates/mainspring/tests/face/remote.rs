//! Other threads.

use crate::support::{Log, new_loop, run_on, run_one_pass};
use mainspring::{EventLoop, sleep};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn every_call_of_many_threads_runs_and_each_threads_in_its_order() {
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
    // Deadlines come and go meanwhile.
    run_on(&event_loop, async {
        while left.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_micros(50)).await;
        }
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    run_one_pass(&event_loop);
    let seen = SEEN.with(Log::entries);
    assert_eq!(seen.len(), THREADS * CALLS);
    for thread in 0..THREADS {
        let calls: Vec<_> = seen.iter().filter(|(of, _)| *of == thread).map(|(_, call)| *call).collect();
        assert!(calls.is_sorted(), "thread {thread}: {calls:?}");
    }
}

#[test]
fn from_the_loops_own_thread_calls_keep_the_order_of_call_soon() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    thread_local! {
        static SEEN: Log<&'static str> = Log::new();
    }
    let add = |entry| move || SEEN.with(|seen| seen.add(entry));
    // Before the loop runs...
    event_loop.call_soon(add("a")).unwrap();
    remote.call_soon_threadsafe(add("b")).unwrap();
    event_loop.call_soon(add("c")).unwrap();
    run_one_pass(&event_loop);
    // ...and while it does.
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
fn a_call_from_another_thread_wakes_a_sleeping_loop() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let other = std::thread::spawn(move || remote.call_soon_threadsafe(|| EventLoop::current().stop()));
    event_loop.run_forever().unwrap();
    other.join().unwrap().unwrap();
}

#[test]
fn a_future_that_is_not_send_can_be_made_on_the_loop_from_elsewhere() {
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
        let panicked = remote.spawn(|| async { panic!("there") }).unwrap().wait();
        remote.stop().unwrap();
        (value, panicked)
    });
    event_loop.run_forever().unwrap();
    let (value, panicked) = other.join().unwrap();
    assert_eq!(value, Ok(42));
    assert_eq!(panicked.unwrap_err().panic_text(), Some("there"));
}

#[test]
fn what_was_sent_and_never_ran_is_cancelled_at_close() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let sent = std::thread::spawn(move || remote.spawn(|| async {})).join().unwrap().unwrap();
    event_loop.close().unwrap();
    assert!(sent.wait().unwrap_err().is_cancelled());
}

#[test]
fn a_result_of_one_loop_can_be_awaited_on_another() {
    let (address, other) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let event_loop = new_loop();
        address.send(event_loop.remote()).unwrap();
        event_loop.run_forever().unwrap();
    });
    let remote = other.recv().unwrap();
    let here = new_loop();
    assert_eq!(run_on(&here, remote.spawn(|| async { "there" }).unwrap()), Ok("there"));
    remote.stop().unwrap();
    thread.join().unwrap();
}
