//! The wakers of tasks, on the loop's thread and on others.

use mainspring::{EventLoop, spawn, yield_now};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

fn run<F: IntoFuture>(future: F) -> F::Output {
    mainspring::run(future).unwrap()
}

/// A future that shows its waker and is never ready. Counts its polls.
fn show_waker(
    shown: &Arc<Mutex<Option<Waker>>>,
    polls: &Rc<Cell<usize>>,
) -> impl Future<Output = ()> + use<> {
    let (shown, polls) = (Arc::clone(shown), Rc::clone(polls));
    poll_fn(move |cx| {
        polls.set(polls.get() + 1);
        *shown.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    })
}

/// A task that shows its waker, after its first step.
struct Sleeper {
    shown: Arc<Mutex<Option<Waker>>>,
    polls: Rc<Cell<usize>>,
}

impl Sleeper {
    fn start(event_loop: &EventLoop) -> Self {
        let sleeper = Sleeper { shown: Arc::default(), polls: Rc::default() };
        event_loop.spawn(show_waker(&sleeper.shown, &sleeper.polls)).unwrap();
        event_loop.run_once().unwrap();
        sleeper
    }

    fn waker(&self) -> Waker {
        self.shown.lock().unwrap().clone().unwrap()
    }
}

#[test]
fn wakes_before_a_step_count_once_on_any_thread() {
    let event_loop = EventLoop::new().unwrap();
    let sleeper = Sleeper::start(&event_loop);
    let waker = sleeper.waker();
    waker.wake_by_ref();
    let elsewhere = waker.clone();
    thread::spawn(move || {
        elsewhere.wake_by_ref();
        elsewhere.wake();
    })
    .join()
    .unwrap();
    waker.wake();
    event_loop.run_once().unwrap();
    assert_eq!(sleeper.polls.get(), 2);
    event_loop.run_once().unwrap();
    assert_eq!(sleeper.polls.get(), 2, "nothing is left in the inbox");
}

#[test]
fn a_wake_from_another_thread_works_again_after_each_step() {
    let event_loop = EventLoop::new().unwrap();
    let sleeper = Sleeper::start(&event_loop);
    for step in 2..5 {
        let waker = sleeper.waker();
        thread::spawn(move || waker.wake()).join().unwrap();
        event_loop.run_once().unwrap();
        assert_eq!(sleeper.polls.get(), step);
    }
}

#[test]
fn a_task_that_wakes_itself_runs_after_the_tasks_that_it_wakes_later() {
    let order = run(async {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let sleeper = Rc::new(Cell::new(None::<Waker>));
        let (shown, seen) = (Rc::clone(&sleeper), Rc::clone(&order));
        let second = spawn(async move {
            let mut is_woken = false;
            poll_fn(|cx| {
                shown.set(Some(cx.waker().clone()));
                if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            seen.borrow_mut().push("second");
        });
        yield_now().await;
        let seen = Rc::clone(&order);
        let first = spawn(async move {
            let mut is_woken = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut is_woken, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                sleeper.take().unwrap().wake();
                Poll::Pending
            })
            .await;
            seen.borrow_mut().push("first");
        });
        first.await.unwrap();
        second.await.unwrap();
        order.take()
    });
    assert_eq!(order, ["second", "first"]);
}

#[test]
fn the_waker_of_a_poll_can_be_cloned_and_used_by_other_threads() {
    run(async {
        let mut polls = 0;
        let task = spawn(poll_fn(move |cx| {
            polls += 1;
            let waker = cx.waker();
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let clone = waker.clone();
                        waker.wake_by_ref();
                        clone.wake();
                    });
                }
            });
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        }));
        assert_eq!(task.await, Ok(3));
    });
}

#[test]
fn a_waker_outlives_its_task_and_its_loop() {
    let event_loop = EventLoop::new().unwrap();
    let sleeper = Sleeper::start(&event_loop);
    let wakers = [sleeper.waker(), sleeper.waker(), sleeper.waker()];
    let finished = sleeper.waker();
    event_loop.all_tasks()[0].cancel();
    event_loop.run_once().unwrap();
    finished.wake();
    event_loop.run_once().unwrap();
    drop((sleeper, event_loop));
    let [here, there, dropped] = wakers;
    here.wake_by_ref();
    thread::spawn(move || {
        there.wake();
        drop(dropped);
    })
    .join()
    .unwrap();
    here.wake();
}

#[test]
fn a_loop_closed_after_a_wake_from_another_thread_drops_the_future_on_its_own_thread() {
    struct Dropped(Rc<Cell<bool>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let event_loop = EventLoop::new().unwrap();
    let is_dropped = Rc::new(Cell::new(false));
    let dropped = Dropped(Rc::clone(&is_dropped));
    let shown = Arc::default();
    let future = show_waker(&shown, &Rc::default());
    let task = event_loop
        .spawn(async move {
            let _dropped = dropped;
            future.await;
        })
        .unwrap();
    event_loop.run_once().unwrap();
    let waker = shown.lock().unwrap().take().unwrap();
    thread::spawn(move || waker.wake()).join().unwrap();
    event_loop.close().unwrap();
    assert!(is_dropped.get() && task.is_finished());
}

#[test]
fn no_wake_of_many_threads_is_lost() {
    const THREADS: usize = 3;
    const WAKES: usize = 2_000;
    run(async {
        let (sent, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None::<Waker>)));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (sent, shown) = (Arc::clone(&sent), Arc::clone(&shown));
                thread::spawn(move || {
                    for _ in 0..WAKES {
                        sent.fetch_add(1, Ordering::SeqCst);
                        // A clone, so that wakers are counted on several threads.
                        let waker = shown.lock().unwrap().clone();
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                })
            })
            .collect();
        let task = spawn(poll_fn(move |cx| {
            *shown.lock().unwrap() = Some(cx.waker().clone());
            if sent.load(Ordering::SeqCst) == THREADS * WAKES { Poll::Ready(()) } else { Poll::Pending }
        }));
        assert_eq!(task.await, Ok(()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
