//! The pool from outside, except that "has become idle" is read from its state.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const FOREVER: Duration = Duration::MAX;

fn pool(max_threads: usize, idle_timeout: Duration) -> Executor {
    let max_threads = NonZeroUsize::new(max_threads).unwrap();
    Executor::new(ExecutorConfig { max_threads, name_prefix: "pool".into(), idle_timeout })
}

/// Runs `call` on the pool and gives what it returns.
fn call<T: Send + 'static>(pool: &Executor, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (give, take) = mpsc::channel();
    pool.submit(Box::new(move || give.send(call()).unwrap())).unwrap();
    take.recv().unwrap()
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// A thread is idle a moment after its job has ended; this gives it that moment.
fn until(pool: &Executor, condition: impl Fn(&PoolState) -> bool) {
    while !condition(&pool.shared.lock()) {
        thread::yield_now();
    }
}

#[test]
fn the_default_size_is_asyncios() {
    let cpus = thread::available_parallelism().unwrap().get();
    assert_eq!(ExecutorConfig::default().max_threads.get(), 32.min(cpus + 4));
}

#[test]
fn threads_are_started_on_demand_and_numbered() {
    let pool = pool(4, FOREVER);
    assert_eq!(pool.shared.lock().threads, 0);
    let together = Arc::new(Barrier::new(3));
    let (give, take) = mpsc::channel();
    for _ in 0..3 {
        let (together, give) = (Arc::clone(&together), give.clone());
        let job = move || {
            together.wait();
            give.send(thread_name()).unwrap();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    drop(give);
    let mut names: Vec<_> = take.iter().collect();
    names.sort();
    assert_eq!(names, ["pool_0", "pool_1", "pool_2"]);
}

#[test]
fn an_idle_thread_is_used_before_a_new_one_is_started() {
    let pool = pool(4, FOREVER);
    for _ in 0..20 {
        assert_eq!(call(&pool, thread_name), "pool_0");
        until(&pool, |state| state.idle == 1);
    }
    assert_eq!(pool.shared.lock().started, 1);
}

#[test]
fn jobs_that_wait_for_each_other_get_a_thread_each_though_one_was_idle() {
    let pool = pool(2, FOREVER);
    for _ in 0..200 {
        let together = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let together = Arc::clone(&together);
            let job = move || {
                together.wait();
            };
            pool.submit(Box::new(job)).unwrap();
        }
        together.wait();
    }
    assert_eq!(pool.shared.lock().started, 2);
}

#[test]
fn there_are_never_more_threads_than_allowed() {
    let pool = pool(2, FOREVER);
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..100 {
        let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
        let job = move || {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            at_once.fetch_sub(1, Ordering::SeqCst);
        };
        pool.submit(Box::new(job)).unwrap();
    }
    pool.shutdown(true);
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert!(pool.shared.lock().started <= 2);
}

#[test]
fn a_thread_that_was_idle_long_enough_ends_and_the_next_job_starts_another() {
    let pool = pool(4, Duration::ZERO);
    assert_eq!(call(&pool, thread_name), "pool_0");
    until(&pool, |state| state.threads == 0);
    assert_eq!(call(&pool, thread_name), "pool_1");
}

/// Panics when it is dropped, even as the payload of another panic.
struct Spiteful;

impl Drop for Spiteful {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn a_job_that_panics_leaves_the_pool_and_its_thread_as_they_were() {
    let pool = pool(1, FOREVER);
    // `resume_unwind` panics without the hook's message on the terminal.
    pool.submit(Box::new(|| std::panic::resume_unwind(Box::new("job")))).unwrap();
    pool.submit(Box::new(|| std::panic::resume_unwind(Box::new(Spiteful)))).unwrap();
    assert_eq!(call(&pool, thread_name), "pool_0");
    assert_eq!(pool.shared.lock().threads, 1);
}

#[test]
fn a_shutdown_refuses_new_jobs_and_runs_the_queued_ones() {
    let pool = pool(1, FOREVER);
    let (open_gate, gate) = mpsc::channel::<()>();
    let (give, take) = mpsc::channel();
    pool.submit(Box::new(move || gate.recv().unwrap_or_default())).unwrap();
    for number in 0..3 {
        let give = give.clone();
        pool.submit(Box::new(move || give.send(number).unwrap())).unwrap();
    }
    pool.shutdown(false);
    let (give_late, late) = mpsc::channel();
    let Err(SubmitError::Closed(job)) = pool.submit(Box::new(move || give_late.send(()).unwrap())) else {
        panic!("a job was accepted after the shutdown");
    };
    job();
    late.recv().unwrap();

    drop(open_gate);
    pool.shutdown(true);
    assert_eq!(take.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_waiting_shutdown_returns_when_every_thread_has_ended() {
    thread_local! {
        static LAST_WORDS: Cell<Option<Farewell>> = const { Cell::new(None) };
    }
    struct Farewell(Arc<AtomicUsize>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let pool = pool(3, FOREVER);
    let together = Arc::new(Barrier::new(3));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (together, ended) = (Arc::clone(&together), Arc::clone(&ended));
        let job = move || {
            LAST_WORDS.set(Some(Farewell(ended)));
            together.wait();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    pool.shutdown(true);
    assert_eq!(ended.load(Ordering::SeqCst), 3);
    pool.shutdown(true);
}

#[test]
fn a_job_may_shut_its_own_pool_down() {
    let pool = Arc::new(pool(1, FOREVER));
    let inner = Arc::clone(&pool);
    call(&pool, move || inner.shutdown(true));
    pool.shutdown(true);
    assert_eq!(pool.shared.lock().threads, 0);
}

#[test]
fn dropping_the_pool_does_not_wait_and_does_not_drop_its_jobs() {
    let pool = pool(1, FOREVER);
    let (open_gate, gate) = mpsc::channel::<()>();
    let (give, take) = mpsc::channel();
    pool.submit(Box::new(move || gate.recv().unwrap_or_default())).unwrap();
    pool.submit(Box::new(move || give.send(thread_name()).unwrap())).unwrap();
    drop(pool);
    drop(open_gate);
    assert_eq!(take.recv().unwrap(), "pool_0");
}

#[test]
fn a_zero_byte_in_the_name_is_left_out() {
    let config = ExecutorConfig { name_prefix: "a\0b".into(), ..ExecutorConfig::default() };
    assert_eq!(call(&Executor::new(config), thread_name), "ab_0");
}
