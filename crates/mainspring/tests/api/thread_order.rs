//! Order across threads: calls run in happens-before order of their scheduling.
//!
//! A script is a sequence of steps. The loop's thread does each step, or has another thread do it and waits. So every
//! step happens before the next, and the scheduled calls must run in that order, as in asyncio, where
//! `call_soon_threadsafe` appends to the same queue as `call_soon`.

use crate::support::new_loop;
use mainspring::{EventLoop, Remote};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};

const THREADS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// `EventLoop::call_soon`.
    Soon,
    /// `Remote::call_soon_threadsafe` by another thread.
    Threadsafe(usize),
    /// `Remote::call_soon_threadsafe` by the loop's own thread.
    ThreadsafeHere,
    /// Another thread wakes a task.
    Wake(usize),
    /// The loop's own thread wakes a task.
    WakeHere,
    /// The script continues in a callback, after the calls that are scheduled so far.
    ContinueInCallback,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Soon),
        3 => (0..THREADS).prop_map(Step::Threadsafe),
        1 => Just(Step::ThreadsafeHere),
        2 => (0..THREADS).prop_map(Step::Wake),
        1 => Just(Step::WakeHere),
        1 => Just(Step::ContinueInCallback),
    ];
    proptest::collection::vec(step, 1..30)
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs and signals when each is done.
struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    done: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start() -> Self {
        let (jobs, received_jobs) = mpsc::channel::<Job>();
        let (sender, done) = mpsc::channel();
        let work = move || {
            for job in received_jobs {
                job();
                sender.send(()).unwrap();
            }
        };
        Worker { jobs: Some(jobs), done, thread: Some(thread::spawn(work)) }
    }

    /// Runs `job` on the thread and waits until it is done.
    fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
        self.done.recv().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The numbers of the steps, in the order in which their calls have run.
type Ran = Arc<Mutex<Vec<usize>>>;

/// A task that waits until it is woken.
#[derive(Clone, Default)]
struct Sleeper(Arc<Mutex<(bool, Option<Waker>)>>);

impl Sleeper {
    async fn wait(self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            state.1 = Some(cx.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn wake(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take().unwrap();
        drop(state);
        waker.wake();
    }
}

struct Script {
    steps: VecDeque<(usize, Step)>,
    sleepers: Vec<Sleeper>,
    workers: Vec<Worker>,
    remote: Remote,
    ran: Ran,
}

impl Script {
    /// Does the steps up to the next [`Step::ContinueInCallback`], and schedules the rest.
    fn run_steps(mut self, event_loop: &EventLoop) {
        while let Some((number, step)) = self.steps.pop_front() {
            let ran = Arc::clone(&self.ran);
            let add = move || ran.lock().unwrap().push(number);
            let sleeper = self.sleepers[number].clone();
            match step {
                Step::Soon => drop(event_loop.call_soon(add).unwrap()),
                Step::ThreadsafeHere => self.remote.call_soon_threadsafe(add).unwrap(),
                Step::Threadsafe(thread) => {
                    let remote = self.remote.clone();
                    self.workers[thread].run(move || remote.call_soon_threadsafe(add).unwrap());
                }
                Step::WakeHere => sleeper.wake(),
                Step::Wake(thread) => self.workers[thread].run(move || sleeper.wake()),
                Step::ContinueInCallback => {
                    let run_steps = move || {
                        add();
                        self.run_steps(&EventLoop::current());
                    };
                    return drop(event_loop.call_soon(run_steps).unwrap());
                }
            }
        }
    }
}

/// Runs the script, starting before the loop runs or inside a callback.
fn run(steps: &[Step], starts_in_callback: bool) -> Vec<usize> {
    let event_loop = new_loop();
    let ran = Ran::default();
    let sleepers: Vec<_> = steps.iter().map(|_| Sleeper::default()).collect();
    for (number, sleeper) in sleepers.iter().cloned().enumerate() {
        let ran = Arc::clone(&ran);
        let task = event_loop.spawn(async move {
            sleeper.wait().await;
            ran.lock().unwrap().push(number);
        });
        drop(task.unwrap());
    }
    event_loop.run_until_idle().unwrap();
    let script = Script {
        steps: steps.iter().copied().enumerate().collect(),
        sleepers,
        workers: (0..THREADS).map(|_| Worker::start()).collect(),
        remote: event_loop.remote(),
        ran: Arc::clone(&ran),
    };
    if starts_in_callback {
        event_loop.call_soon(|| script.run_steps(&EventLoop::current())).unwrap();
    } else {
        script.run_steps(&event_loop);
    }
    event_loop.run_until_idle().unwrap();
    std::mem::take(&mut *ran.lock().unwrap())
}

#[test]
fn a_call_of_another_thread_runs_before_calls_scheduled_after_it() {
    for starts_in_callback in [false, true] {
        let steps = [Step::Threadsafe(0), Step::Soon, Step::Threadsafe(1), Step::Wake(2), Step::Soon];
        assert_eq!(
            run(&steps, starts_in_callback),
            [0, 1, 2, 3, 4],
            "starts in callback: {starts_in_callback}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn calls_run_in_happens_before_order(steps in steps(), starts_in_callback: bool) {
        let ran = run(&steps, starts_in_callback);
        prop_assert_eq!(ran, (0..steps.len()).collect::<Vec<_>>());
    }
}
