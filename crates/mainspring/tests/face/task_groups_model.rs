//! Random programs of task groups, against a naive model: one queue of whose turn it is.
//!
//! A script says what each task does in its turn: give way, wait for ever, add a child with a script of its own,
//! fail, panic, cancel somebody. The scope's own task may be cancelled after some passes. Both the loop and the model
//! note each turn and each end; the notes and the result must be the same.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_one_pass};
use mainspring::{ChildError, TaskGroup, TaskHandle, current_task, yield_now};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::rc::Rc;

/// The body's number. Children are numbered from 1 in the order in which they are added.
const BODY: usize = 0;

#[derive(Clone, Debug)]
enum Deed {
    GiveWay,
    Wait,
    Add(Vec<Deed>),
    Fail,
    Panic,
    /// A child may; for the body, whose task is the scope's, it means nothing here.
    CancelSelf,
    /// One of those that were ever added.
    Cancel(usize),
    CancelChildren,
}

/// A turn of a task, or its end.
#[derive(Clone, Debug, PartialEq)]
enum Note {
    Turn(usize),
    Gone(usize),
}

#[derive(Clone, Debug)]
struct Script {
    body: Vec<Deed>,
    /// After so many passes the scope's task is cancelled.
    patience: Option<usize>,
}

fn scripts() -> impl Strategy<Value = Script> {
    let leaf = prop_oneof![
        8 => Just(Deed::GiveWay),
        1 => Just(Deed::Wait),
        1 => Just(Deed::Fail),
        1 => Just(Deed::Panic),
        1 => Just(Deed::CancelSelf),
        2 => (0..8usize).prop_map(Deed::Cancel),
        1 => Just(Deed::CancelChildren),
    ];
    let deed = leaf.prop_recursive(4, 60, 6, |inner| prop::collection::vec(inner, 0..7).prop_map(Deed::Add));
    let body = prop::collection::vec(deed, 0..12);
    (body, prop::option::weighted(0.3, 0..12usize)).prop_map(|(body, patience)| Script { body, patience })
}

/// How a scope ended: `None` if it was cancelled; else who failed, and whether by a panic.
type Outcome = Option<Vec<(usize, bool)>>;

// The loop.

struct Goner(Log<Note>, usize);

impl Drop for Goner {
    fn drop(&mut self) {
        self.0.add(Note::Gone(self.1));
    }
}

#[derive(Clone)]
struct Stage {
    log: Log<Note>,
    added: Rc<RefCell<Vec<TaskHandle>>>,
}

fn act(
    stage: Stage,
    group: TaskGroup<usize>,
    own: usize,
    deeds: Vec<Deed>,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), usize>>>> {
    let goner = Goner(stage.log.clone(), own);
    Box::pin(async move {
        let _goner = goner;
        stage.log.add(Note::Turn(own));
        for deed in deeds {
            match deed {
                Deed::GiveWay => {
                    yield_now().await;
                    stage.log.add(Note::Turn(own));
                }
                Deed::Wait => pending().await,
                Deed::Add(deeds) => {
                    let number = stage.added.borrow().len() + 1;
                    let future = act(stage.clone(), group.clone(), number, deeds);
                    let task = group.spawn(future);
                    task.set_name(number.to_string());
                    stage.added.borrow_mut().push(task.handle());
                }
                Deed::Fail => return Err(own),
                Deed::Panic => std::panic::resume_unwind(Box::new(own)),
                Deed::CancelSelf if own == BODY => {}
                Deed::CancelSelf => {
                    current_task().unwrap().cancel();
                }
                Deed::Cancel(number) => {
                    let victim = stage.added.borrow().get(number).cloned();
                    if let Some(victim) = victim {
                        victim.cancel();
                    }
                }
                Deed::CancelChildren => group.cancel_children(),
            }
        }
        Ok(())
    })
}

fn run(script: Script) -> (Vec<Note>, Outcome) {
    let event_loop = new_loop();
    // Panics of scopes that were given up are told there; they are not what this is about.
    event_loop.set_exception_handler(|_| ());
    let stage = Stage { log: Log::new(), added: Rc::default() };
    let inside = stage.clone();
    let mut task = event_loop
        .spawn(TaskGroup::scope(move |group| {
            let own = group.clone();
            act(inside, own, BODY, script.body)
        }))
        .unwrap();
    let mut passes = 0;
    while event_loop.metrics().ready > 0 && !task.is_finished() {
        if script.patience == Some(passes) {
            task.cancel();
        }
        run_one_pass(&event_loop);
        passes += 1;
    }
    // One that waits for ever is given up.
    task.cancel();
    while event_loop.metrics().ready > 0 {
        run_one_pass(&event_loop);
    }
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let outcome = match std::pin::Pin::new(&mut task).poll(&mut cx) {
        std::task::Poll::Pending => panic!("the scope has not ended"),
        std::task::Poll::Ready(Err(error)) => {
            assert!(error.is_cancelled());
            None
        }
        std::task::Poll::Ready(Ok(Ok(()))) => Some(Vec::new()),
        std::task::Poll::Ready(Ok(Err(error))) => Some(error.into_iter().map(who).collect()),
    };
    assert_leaves_nothing(&event_loop);
    (stage.log.entries(), outcome)
}

fn who(error: ChildError<usize>) -> (usize, bool) {
    match error {
        ChildError::Failed { error, .. } => (error, false),
        ChildError::Panicked(error) => (*error.into_panic().downcast().unwrap(), true),
    }
}

// The model.

#[derive(Default)]
struct Model {
    notes: Vec<Note>,
    queue: VecDeque<usize>,
    /// By number; the scope and its body are the first.
    tasks: Vec<Actor>,
    failures: Vec<(usize, bool)>,
    is_open: bool,
    is_over: bool,
    body_is_gone: bool,
    outcome: Option<Outcome>,
}

#[derive(Default)]
struct Actor {
    deeds: VecDeque<Deed>,
    waits: bool,
    is_queued: bool,
    is_running: bool,
    is_woken: bool,
    is_cancelled: bool,
    is_gone: bool,
}

enum Turn {
    Waits,
    Finishes,
    Fails,
    Panics,
}

impl Model {
    fn add(&mut self, deeds: Vec<Deed>) {
        let number = self.tasks.len();
        self.tasks.push(Actor { deeds: deeds.into(), ..Actor::default() });
        if self.is_open {
            self.wake(number);
        } else {
            self.tasks[number].is_gone = true;
            self.notes.push(Note::Gone(number));
        }
    }

    fn wake(&mut self, number: usize) {
        let actor = &mut self.tasks[number];
        if actor.is_running {
            actor.is_woken = true;
        } else if !actor.is_queued && !actor.is_gone {
            actor.is_queued = true;
            self.queue.push_back(number);
        }
    }

    fn cancel(&mut self, number: usize) {
        let actor = &mut self.tasks[number];
        if !actor.is_cancelled && !actor.is_gone {
            actor.is_cancelled = true;
            if !actor.is_running {
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
        self.tasks.iter().skip(1).any(|actor| !actor.is_gone)
    }

    /// Does what a task has to do until it gives way.
    fn act(&mut self, number: usize) -> Turn {
        self.notes.push(Note::Turn(number));
        while let Some(deed) = self.tasks[number].deeds.pop_front() {
            match deed {
                Deed::GiveWay => {
                    self.wake(number);
                    return Turn::Waits;
                }
                Deed::Wait => {
                    self.tasks[number].waits = true;
                    return Turn::Waits;
                }
                Deed::Add(deeds) => self.add(deeds),
                Deed::Fail => return Turn::Fails,
                Deed::Panic => return Turn::Panics,
                Deed::CancelSelf if number == BODY => {}
                Deed::CancelSelf => self.cancel(number),
                Deed::Cancel(victim) if victim + 1 < self.tasks.len() => self.cancel(victim + 1),
                Deed::Cancel(_) => {}
                Deed::CancelChildren => self.cancel_children(),
            }
        }
        Turn::Finishes
    }

    fn child_turn(&mut self, number: usize) {
        let turn = if self.tasks[number].is_cancelled { Turn::Waits } else { self.act(number) };
        match turn {
            Turn::Waits if !self.tasks[number].is_cancelled => return,
            Turn::Fails if !self.is_over => self.failures.push((number, false)),
            Turn::Panics if !self.is_over => self.failures.push((number, true)),
            _ => {}
        }
        self.notes.push(Note::Gone(number));
        self.tasks[number].is_gone = true;
        if !self.is_over && (!self.failures.is_empty() || !self.has_children()) {
            self.wake(BODY);
        }
    }

    fn body_goes(&mut self) {
        if !self.body_is_gone {
            self.body_is_gone = true;
            self.notes.push(Note::Gone(BODY));
        }
    }

    fn abort_if_failed(&mut self) {
        if self.is_open && !self.failures.is_empty() {
            self.is_open = false;
            self.cancel_children();
            self.body_goes();
        }
    }

    fn scope_turn(&mut self, has_begun: bool) {
        if self.tasks[BODY].is_cancelled {
            // One that never had a turn has no group yet, only what it was to run.
            if has_begun {
                self.body_goes();
            }
            (self.is_open, self.is_over) = (false, true);
            self.cancel_children();
            self.tasks[BODY].is_gone = true;
            self.outcome = Some(None);
            return;
        }
        self.abort_if_failed();
        // A body that waits for ever is polled as often as the scope is, and notes nothing.
        if self.is_open && !self.body_is_gone && !self.tasks[BODY].waits {
            match self.act(BODY) {
                Turn::Waits => {}
                Turn::Finishes => self.body_goes(),
                Turn::Fails => {
                    self.body_goes();
                    self.failures.push((BODY, false));
                }
                Turn::Panics => {
                    self.body_goes();
                    self.failures.push((BODY, true));
                }
            }
        }
        self.abort_if_failed();
        if self.body_is_gone && !self.has_children() {
            (self.is_open, self.is_over) = (false, true);
            self.tasks[BODY].is_gone = true;
            self.outcome = Some(Some(std::mem::take(&mut self.failures)));
        }
    }

    fn pass(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(number) = self.queue.pop_front() else { return };
            let has_begun = self.notes.contains(&Note::Turn(BODY));
            self.tasks[number].is_queued = false;
            self.tasks[number].is_running = true;
            if number == BODY {
                self.scope_turn(has_begun)
            } else {
                self.child_turn(number)
            }
            let actor = &mut self.tasks[number];
            actor.is_running = false;
            if std::mem::take(&mut actor.is_woken) && !actor.is_gone {
                self.wake(number);
            }
        }
    }
}

fn predict(script: Script) -> (Vec<Note>, Outcome) {
    let mut model = Model { is_open: true, ..Model::default() };
    model.add(script.body);
    let mut passes = 0;
    while !model.queue.is_empty() && model.outcome.is_none() {
        if script.patience == Some(passes) {
            model.cancel(BODY);
        }
        model.pass();
        passes += 1;
    }
    model.cancel(BODY);
    while !model.queue.is_empty() {
        model.pass();
    }
    (model.notes, model.outcome.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn groups_do_what_the_model_says(script in scripts()) {
        prop_assert_eq!(run(script.clone()), predict(script));
    }
}
