//! Order across threads: what happens before something else is run before it.
//!
//! A script is a sequence of steps, each done when the one before is: by the loop's thread, or by another thread at the loop
//! thread's request, which waits for it. So every step happens before the next, and what they schedule has to run in
//! that order, as on asyncio, where `call_soon_threadsafe` appends to the same queue as `call_soon`.

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
    /// The script goes on in a callback, behind what is scheduled by now.
    GoOnLater,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Soon),
        3 => (0..THREADS).prop_map(Step::Threadsafe),
        1 => Just(Step::ThreadsafeHere),
        2 => (0..THREADS).prop_map(Step::Wake),
        1 => Just(Step::WakeHere),
        1 => Just(Step::GoOnLater),
    ];
    proptest::collection::vec(step, 1..30)
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does what it is asked, and says when it is done.
struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    done: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start() -> Self {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (tell, done) = mpsc::channel();
        let work = move || {
            for job in to_do {
                job();
                tell.send(()).unwrap();
            }
        };
        Worker { jobs: Some(jobs), done, thread: Some(thread::spawn(work)) }
    }

    /// Has the thread do `job`, which has happened when this returns.
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

/// The numbers of the steps, in the order in which what they scheduled has run.
type Ran = Arc<Mutex<Vec<usize>>>;

/// A task that adds its number when it is woken.
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
    /// Does the steps up to the next [`Step::GoOnLater`], and schedules the rest.
    fn go_on(mut self, event_loop: &EventLoop) {
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
                Step::GoOnLater => {
                    let go_on = move || {
                        add();
                        self.go_on(&EventLoop::current());
                    };
                    return drop(event_loop.call_soon(go_on).unwrap());
                }
            }
        }
    }
}

/// Runs the script, beginning before the loop runs or inside of a callback.
fn run(steps: &[Step], is_begun_inside: bool) -> Vec<usize> {
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
    if is_begun_inside {
        event_loop.call_soon(|| script.go_on(&EventLoop::current())).unwrap();
    } else {
        script.go_on(&event_loop);
    }
    event_loop.run_until_idle().unwrap();
    std::mem::take(&mut *ran.lock().unwrap())
}

#[test]
fn a_call_of_another_thread_runs_before_what_is_scheduled_because_of_it() {
    for is_begun_inside in [false, true] {
        let steps = [Step::Threadsafe(0), Step::Soon, Step::Threadsafe(1), Step::Wake(2), Step::Soon];
        assert_eq!(run(&steps, is_begun_inside), [0, 1, 2, 3, 4], "inside: {is_begun_inside}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_happens_before_is_run_before(steps in steps(), is_begun_inside: bool) {
        let ran = run(&steps, is_begun_inside);
        prop_assert_eq!(ran, (0..steps.len()).collect::<Vec<_>>());
    }
}
