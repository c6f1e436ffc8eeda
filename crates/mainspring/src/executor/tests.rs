//! Tests of the public API; only idleness is read from the private state.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const FOREVER: Duration = Duration::MAX;

fn pool(max_threads: usize, idle_timeout: Duration) -> Executor {
    let max_threads = NonZeroUsize::new(max_threads).unwrap();
    Executor::new(ExecutorConfig { max_threads, name_prefix: "pool".into(), idle_timeout })
}

/// Runs `call` on the pool and returns its result.
fn call<T: Send + 'static>(pool: &Executor, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    pool.submit(Box::new(move || sender.send(call()).unwrap())).unwrap();
    receiver.recv().unwrap()
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// Waits for the pool state: a thread becomes idle shortly after its job has ended.
fn wait_until(pool: &Executor, condition: impl Fn(&PoolState) -> bool) {
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
    let barrier = Arc::new(Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..3 {
        let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
        let job = move || {
            barrier.wait();
            sender.send(thread_name()).unwrap();
        };
        pool.submit(Box::new(job)).unwrap();
    }
    drop(sender);
    let mut names: Vec<_> = receiver.iter().collect();
    names.sort();
    assert_eq!(names, ["pool_0", "pool_1", "pool_2"]);
}

#[test]
fn an_idle_thread_is_used_before_a_new_one_is_started() {
    let pool = pool(4, FOREVER);
    for _ in 0..20 {
        assert_eq!(call(&pool, thread_name), "pool_0");
        wait_until(&pool, |state| state.idle == 1);
    }
    assert_eq!(pool.shared.lock().started, 1);
}

#[test]
fn jobs_that_wait_for_each_other_get_separate_threads() {
    let pool = pool(2, FOREVER);
    for _ in 0..200 {
        let barrier = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let barrier = Arc::clone(&barrier);
            let job = move || {
                barrier.wait();
            };
            pool.submit(Box::new(job)).unwrap();
        }
        barrier.wait();
    }
    assert_eq!(pool.shared.lock().started, 2);
}

#[test]
fn there_are_never_more_threads_than_allowed() {
    let pool = pool(2, FOREVER);
    let (running, max_running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..100 {
        let (running, max_running) = (Arc::clone(&running), Arc::clone(&max_running));
        let job = move || {
            max_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
        };
        pool.submit(Box::new(job)).unwrap();
    }
    pool.shutdown(true);
    assert!(max_running.load(Ordering::SeqCst) <= 2);
    assert!(pool.shared.lock().started <= 2);
}

#[test]
fn a_thread_that_was_idle_long_enough_ends_and_the_next_job_starts_another() {
    let pool = pool(4, Duration::ZERO);
    assert_eq!(call(&pool, thread_name), "pool_0");
    wait_until(&pool, |state| state.threads == 0);
    assert_eq!(call(&pool, thread_name), "pool_1");
}

/// Panics when it is dropped, even as the payload of another panic.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("dropped"));
    }
}

#[test]
fn a_panicking_job_does_not_end_its_thread() {
    let pool = pool(1, FOREVER);
    // `resume_unwind` panics without the hook's message on the terminal.
    pool.submit(Box::new(|| std::panic::resume_unwind(Box::new("job")))).unwrap();
    pool.submit(Box::new(|| std::panic::resume_unwind(Box::new(PanicsOnDrop)))).unwrap();
    assert_eq!(call(&pool, thread_name), "pool_0");
    assert_eq!(pool.shared.lock().threads, 1);
}

#[test]
fn a_shutdown_refuses_new_jobs_and_runs_the_queued_ones() {
    let pool = pool(1, FOREVER);
    let (open_gate, gate) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    pool.submit(Box::new(move || gate.recv().unwrap_or_default())).unwrap();
    for number in 0..3 {
        let sender = sender.clone();
        pool.submit(Box::new(move || sender.send(number).unwrap())).unwrap();
    }
    pool.shutdown(false);
    let (late_sender, late) = mpsc::channel();
    let Err(SubmitError::Closed(job)) = pool.submit(Box::new(move || late_sender.send(()).unwrap())) else {
        panic!("a job was accepted after the shutdown");
    };
    job();
    late.recv().unwrap();

    drop(open_gate);
    pool.shutdown(true);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_waiting_shutdown_returns_when_every_thread_has_ended() {
    thread_local! {
        static AT_THREAD_EXIT: Cell<Option<CountOnDrop>> = const { Cell::new(None) };
    }
    struct CountOnDrop(Arc<AtomicUsize>);
    impl Drop for CountOnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let pool = pool(3, FOREVER);
    let barrier = Arc::new(Barrier::new(3));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (barrier, ended) = (Arc::clone(&barrier), Arc::clone(&ended));
        let job = move || {
            AT_THREAD_EXIT.set(Some(CountOnDrop(ended)));
            barrier.wait();
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
    let (sender, receiver) = mpsc::channel();
    pool.submit(Box::new(move || gate.recv().unwrap_or_default())).unwrap();
    pool.submit(Box::new(move || sender.send(thread_name()).unwrap())).unwrap();
    drop(pool);
    drop(open_gate);
    assert_eq!(receiver.recv().unwrap(), "pool_0");
}

#[test]
fn a_zero_byte_in_the_name_is_left_out() {
    let config = ExecutorConfig { name_prefix: "a\0b".into(), ..ExecutorConfig::default() };
    assert_eq!(call(&Executor::new(config), thread_name), "ab_0");
}
