//! Random task group programs, compared with a naive model that has one ready queue.
//!
//! A script lists the actions of each task: yield, wait forever, spawn a child with its own script, fail, panic, cancel
//! a task. The scope's task may be cancelled after some iterations. Both the loop and the model log each step and each
//! drop; the logs and the results must be equal.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_one_iteration};
use mainspring::{ChildError, TaskGroup, TaskHandle, current_task, yield_now};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::rc::Rc;

/// The body's number. Children are numbered from 1 in the order in which they are spawned.
const BODY: usize = 0;

#[derive(Clone, Debug)]
enum Action {
    Yield,
    Wait,
    Spawn(Vec<Action>),
    Fail,
    Panic,
    /// Children only; ignored in the body, whose task is the scope's.
    CancelSelf,
    /// A child by spawn order, finished or not.
    Cancel(usize),
    CancelChildren,
}

/// A step of a task, or the drop of its future.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Step(usize),
    Dropped(usize),
}

#[derive(Clone, Debug)]
struct Script {
    body: Vec<Action>,
    /// The number of iterations after which the scope's task is cancelled.
    cancel_after: Option<usize>,
}

fn scripts() -> impl Strategy<Value = Script> {
    let leaf = prop_oneof![
        8 => Just(Action::Yield),
        1 => Just(Action::Wait),
        1 => Just(Action::Fail),
        1 => Just(Action::Panic),
        1 => Just(Action::CancelSelf),
        2 => (0..8usize).prop_map(Action::Cancel),
        1 => Just(Action::CancelChildren),
    ];
    let action =
        leaf.prop_recursive(4, 60, 6, |inner| prop::collection::vec(inner, 0..7).prop_map(Action::Spawn));
    let body = prop::collection::vec(action, 0..12);
    (body, prop::option::weighted(0.3, 0..12usize))
        .prop_map(|(body, cancel_after)| Script { body, cancel_after })
}

/// `None` if the scope was cancelled; else the tasks that failed, and whether by a panic.
type Outcome = Option<Vec<(usize, bool)>>;

// The loop.

struct LogOnDrop(Log<Event>, usize);

impl Drop for LogOnDrop {
    fn drop(&mut self) {
        self.0.add(Event::Dropped(self.1));
    }
}

#[derive(Clone)]
struct Recorder {
    log: Log<Event>,
    spawned: Rc<RefCell<Vec<TaskHandle>>>,
}

fn run_actions(
    recorder: Recorder,
    group: TaskGroup<usize>,
    id: usize,
    actions: Vec<Action>,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), usize>>>> {
    let guard = LogOnDrop(recorder.log.clone(), id);
    Box::pin(async move {
        let _guard = guard;
        recorder.log.add(Event::Step(id));
        for action in actions {
            match action {
                Action::Yield => {
                    yield_now().await;
                    recorder.log.add(Event::Step(id));
                }
                Action::Wait => pending().await,
                Action::Spawn(actions) => {
                    let number = recorder.spawned.borrow().len() + 1;
                    let future = run_actions(recorder.clone(), group.clone(), number, actions);
                    let task = group.spawn(future);
                    task.set_name(number.to_string());
                    recorder.spawned.borrow_mut().push(task.handle());
                }
                Action::Fail => return Err(id),
                Action::Panic => std::panic::resume_unwind(Box::new(id)),
                Action::CancelSelf if id == BODY => {}
                Action::CancelSelf => {
                    current_task().unwrap().cancel();
                }
                Action::Cancel(number) => {
                    let target = recorder.spawned.borrow().get(number).cloned();
                    if let Some(target) = target {
                        target.cancel();
                    }
                }
                Action::CancelChildren => group.cancel_children(),
            }
        }
        Ok(())
    })
}

fn run(script: Script) -> (Vec<Event>, Outcome) {
    let event_loop = new_loop();
    // Panics in cancelled scopes are reported to the handler; this test ignores them.
    event_loop.set_exception_handler(|_| ());
    let recorder = Recorder { log: Log::new(), spawned: Rc::default() };
    let inside = recorder.clone();
    let mut task = event_loop
        .spawn(TaskGroup::scope(move |group| {
            let body_group = group.clone();
            run_actions(inside, body_group, BODY, script.body)
        }))
        .unwrap();
    let mut iterations = 0;
    while event_loop.metrics().ready > 0 && !task.is_finished() {
        if script.cancel_after == Some(iterations) {
            task.cancel();
        }
        run_one_iteration(&event_loop);
        iterations += 1;
    }
    // Cancel a scope that never ends.
    task.cancel();
    while event_loop.metrics().ready > 0 {
        run_one_iteration(&event_loop);
    }
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let outcome = match std::pin::Pin::new(&mut task).poll(&mut cx) {
        std::task::Poll::Pending => panic!("the scope has not ended"),
        std::task::Poll::Ready(Err(error)) => {
            assert!(error.is_cancelled());
            None
        }
        std::task::Poll::Ready(Ok(Ok(()))) => Some(Vec::new()),
        std::task::Poll::Ready(Ok(Err(error))) => Some(error.into_iter().map(failed_task).collect()),
    };
    assert_leaves_nothing(&event_loop);
    (recorder.log.entries(), outcome)
}

fn failed_task(error: ChildError<usize>) -> (usize, bool) {
    match error {
        ChildError::Failed { error, .. } => (error, false),
        ChildError::Panicked(error) => (*error.into_panic().downcast().unwrap(), true),
    }
}

// The model.

#[derive(Default)]
struct Model {
    events: Vec<Event>,
    queue: VecDeque<usize>,
    /// By number. The first is the scope with its body.
    tasks: Vec<ModelTask>,
    failures: Vec<(usize, bool)>,
    is_open: bool,
    is_over: bool,
    body_is_dropped: bool,
    outcome: Option<Outcome>,
}

#[derive(Default)]
struct ModelTask {
    actions: VecDeque<Action>,
    waits_forever: bool,
    is_queued: bool,
    is_running: bool,
    is_woken: bool,
    is_cancelled: bool,
    is_dropped: bool,
}

enum StepResult {
    Pending,
    Finished,
    Failed,
    Panicked,
}

impl Model {
    fn spawn(&mut self, actions: Vec<Action>) {
        let number = self.tasks.len();
        self.tasks.push(ModelTask { actions: actions.into(), ..ModelTask::default() });
        if self.is_open {
            self.wake(number);
        } else {
            self.tasks[number].is_dropped = true;
            self.events.push(Event::Dropped(number));
        }
    }

    fn wake(&mut self, number: usize) {
        let task = &mut self.tasks[number];
        if task.is_running {
            task.is_woken = true;
        } else if !task.is_queued && !task.is_dropped {
            task.is_queued = true;
            self.queue.push_back(number);
        }
    }

    fn cancel(&mut self, number: usize) {
        let task = &mut self.tasks[number];
        if !task.is_cancelled && !task.is_dropped {
            task.is_cancelled = true;
            if !task.is_running {
                self.wake(number);
            }
        }
    }

    fn cancel_children(&mut self) {
        for number in 1..self.tasks.len() {
            self.cancel(number);
        }
    }

    fn has_children(&self) -> bool {
        self.tasks.iter().skip(1).any(|task| !task.is_dropped)
    }

    /// Runs a task's actions until it yields or ends.
    fn step(&mut self, number: usize) -> StepResult {
        self.events.push(Event::Step(number));
        while let Some(action) = self.tasks[number].actions.pop_front() {
            match action {
                Action::Yield => {
                    self.wake(number);
                    return StepResult::Pending;
                }
                Action::Wait => {
                    self.tasks[number].waits_forever = true;
                    return StepResult::Pending;
                }
                Action::Spawn(actions) => self.spawn(actions),
                Action::Fail => return StepResult::Failed,
                Action::Panic => return StepResult::Panicked,
                Action::CancelSelf if number == BODY => {}
                Action::CancelSelf => self.cancel(number),
                Action::Cancel(target) if target + 1 < self.tasks.len() => self.cancel(target + 1),
                Action::Cancel(_) => {}
                Action::CancelChildren => self.cancel_children(),
            }
        }
        StepResult::Finished
    }

    fn child_step(&mut self, number: usize) {
        let result = if self.tasks[number].is_cancelled { StepResult::Pending } else { self.step(number) };
        match result {
            StepResult::Pending if !self.tasks[number].is_cancelled => return,
            StepResult::Failed if !self.is_over => self.failures.push((number, false)),
            StepResult::Panicked if !self.is_over => self.failures.push((number, true)),
            _ => {}
        }
        self.events.push(Event::Dropped(number));
        self.tasks[number].is_dropped = true;
        if !self.is_over && (!self.failures.is_empty() || !self.has_children()) {
            self.wake(BODY);
        }
    }

    fn drop_body(&mut self) {
        if !self.body_is_dropped {
            self.body_is_dropped = true;
            self.events.push(Event::Dropped(BODY));
        }
    }

    fn abort_if_failed(&mut self) {
        if self.is_open && !self.failures.is_empty() {
            self.is_open = false;
            self.cancel_children();
            self.drop_body();
        }
    }

    fn scope_step(&mut self, was_polled: bool) {
        if self.tasks[BODY].is_cancelled {
            // A scope that was never polled has not created its body.
            if was_polled {
                self.drop_body();
            }
            (self.is_open, self.is_over) = (false, true);
            self.cancel_children();
            self.tasks[BODY].is_dropped = true;
            self.outcome = Some(None);
            return;
        }
        self.abort_if_failed();
        // A body that waits forever is polled with the scope and logs nothing.
        if self.is_open && !self.body_is_dropped && !self.tasks[BODY].waits_forever {
            match self.step(BODY) {
                StepResult::Pending => {}
                StepResult::Finished => self.drop_body(),
                StepResult::Failed => {
                    self.drop_body();
                    self.failures.push((BODY, false));
                }
                StepResult::Panicked => {
                    self.drop_body();
                    self.failures.push((BODY, true));
                }
            }
        }
        self.abort_if_failed();
        if self.body_is_dropped && !self.has_children() {
            (self.is_open, self.is_over) = (false, true);
            self.tasks[BODY].is_dropped = true;
            self.outcome = Some(Some(std::mem::take(&mut self.failures)));
        }
    }

    fn run_iteration(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(number) = self.queue.pop_front() else { return };
            let was_polled = self.events.contains(&Event::Step(BODY));
            self.tasks[number].is_queued = false;
            self.tasks[number].is_running = true;
            if number == BODY {
                self.scope_step(was_polled)
            } else {
                self.child_step(number)
            }
            let task = &mut self.tasks[number];
            task.is_running = false;
            if std::mem::take(&mut task.is_woken) && !task.is_dropped {
                self.wake(number);
            }
        }
    }
}

fn predict(script: Script) -> (Vec<Event>, Outcome) {
    let mut model = Model { is_open: true, ..Model::default() };
    model.spawn(script.body);
    let mut iterations = 0;
    while !model.queue.is_empty() && model.outcome.is_none() {
        if script.cancel_after == Some(iterations) {
            model.cancel(BODY);
        }
        model.run_iteration();
        iterations += 1;
    }
    model.cancel(BODY);
    while !model.queue.is_empty() {
        model.run_iteration();
    }
    (model.events, model.outcome.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn task_groups_behave_like_the_model(script in scripts()) {
        prop_assert_eq!(run(script.clone()), predict(script));
    }
}
