//! Callbacks of every kind that are due in the same iteration. The first of each kind may be the callback under test.

use crate::Callback;
use crate::scenario::Scenario;
use mainspring::{EventLoop, Handle, TimerHandle};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// How often a callback ran, and whether it was cancelled.
#[derive(Default)]
struct Runs {
    count: Cell<u32>,
    is_cancelled: Cell<bool>,
    ran_after_cancel: Cell<bool>,
}

impl Runs {
    fn run(&self) {
        self.count.set(self.count.get() + 1);
        self.ran_after_cancel.set(self.ran_after_cancel.get() || self.is_cancelled.get());
    }

    #[track_caller]
    fn assert(&self, what: &str, at: &str) {
        let count = self.count.get();
        assert!(!self.ran_after_cancel.get(), "{at}: {what} ran after it was cancelled");
        assert!(count <= 1, "{at}: {what} ran {count} times");
        assert!(count == 1 || self.is_cancelled.get(), "{at}: {what} did not run");
    }
}

type Pair = Rc<(UnixStream, UnixStream)>;

#[derive(Default)]
pub struct PendingCallbacks {
    handles: RefCell<Vec<Handle>>,
    timers: RefCell<Vec<TimerHandle>>,
    pairs: RefCell<Vec<Pair>>,
    event_loop: RefCell<Option<EventLoop>>,
    handle_runs: [Rc<Runs>; 2],
    timer_runs: [Rc<Runs>; 2],
    reader_runs: [Rc<Runs>; 2],
    writer_runs: [Rc<Runs>; 2],
}

impl PendingCallbacks {
    /// Schedules all of them.
    pub fn start(&self, scenario: &Rc<Scenario>) {
        let event_loop = scenario.test_loop.event_loop.clone();
        *self.event_loop.borrow_mut() = Some(event_loop.clone());
        for index in 0..2 {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(b"!").unwrap();
            let pair = Rc::new((a, b));
            self.pairs.borrow_mut().push(Rc::clone(&pair));
            self.add_reader(scenario, index, &pair);
            let (runs, inside) = (Rc::clone(&self.writer_runs[index]), Rc::downgrade(scenario));
            let call = move || {
                // The fd stays writable: count once.
                if runs.count.get() == 0 || runs.is_cancelled.get() {
                    runs.run();
                }
                callback_called(&inside, Callback::Writer, index);
            };
            event_loop.add_writer(&pair.1, call).unwrap();
            let (runs, inside) = (Rc::clone(&self.timer_runs[index]), Rc::downgrade(scenario));
            let call = move || {
                runs.run();
                callback_called(&inside, Callback::Timer, index);
            };
            let timer = event_loop.call_later(Duration::from_millis(1), call).unwrap();
            self.timers.borrow_mut().push(timer);
            let (runs, inside) = (Rc::clone(&self.handle_runs[index]), Rc::downgrade(scenario));
            let call = move || {
                runs.run();
                callback_called(&inside, Callback::CallSoon, index);
            };
            self.handles.borrow_mut().push(event_loop.call_soon(call).unwrap());
        }
    }

    fn add_reader(&self, scenario: &Rc<Scenario>, index: usize, pair: &Pair) {
        let (runs, inside) = (Rc::clone(&self.reader_runs[index]), Rc::downgrade(scenario));
        let reading = pair.1.try_clone().unwrap();
        let call = move || {
            runs.run();
            (&reading).read_exact(&mut [0]).unwrap();
            callback_called(&inside, Callback::Reader, index);
        };
        scenario.test_loop.event_loop.add_reader(&pair.1, call).unwrap();
    }

    fn event_loop(&self) -> EventLoop {
        self.event_loop.borrow().clone().unwrap()
    }

    pub fn cancel_handles(&self) {
        let handles = self.handles.borrow().clone();
        for (handle, runs) in handles.iter().zip(&self.handle_runs) {
            handle.cancel();
            runs.is_cancelled.set(true);
            assert!(handle.cancelled());
        }
    }

    pub fn cancel_timer(&self, index: usize) {
        let timer = self.timers.borrow().get(index).cloned();
        if let Some(timer) = timer {
            timer.cancel();
            self.timer_runs[index].is_cancelled.set(true);
            assert!(timer.cancelled());
        }
    }

    fn pair(&self, index: usize) -> Option<Pair> {
        self.pairs.borrow().get(index).cloned()
    }

    pub fn remove_reader(&self, index: usize) {
        if let Some(pair) = self.pair(index) {
            assert!(self.event_loop().remove_reader(&pair.1).unwrap());
            assert!(!self.event_loop().remove_reader(&pair.1).unwrap());
            self.reader_runs[index].is_cancelled.set(true);
        }
    }

    /// The new reader replaces the old one; together they read the one available byte.
    pub fn replace_reader(&self, scenario: &Rc<Scenario>, index: usize) {
        if let Some(pair) = self.pair(index) {
            self.add_reader(scenario, index, &pair);
        }
    }

    pub fn remove_writers(&self) {
        for index in 0..2 {
            if let Some(pair) = self.pair(index) {
                self.event_loop().remove_writer(&pair.1).unwrap();
                self.writer_runs[index].is_cancelled.set(true);
            }
        }
    }

    /// Drops every handle and timer held here.
    pub fn drop_handles(&self) {
        let held = (self.handles.take(), self.timers.take());
        drop(held);
    }

    /// Whether every callback that was not cancelled has run.
    pub fn are_done(&self) -> bool {
        let all = [&self.handle_runs, &self.timer_runs, &self.reader_runs, &self.writer_runs];
        let mut all = all.into_iter().flatten();
        self.event_loop.borrow().is_none() || all.all(|runs| runs.count.get() > 0 || runs.is_cancelled.get())
    }

    /// Removes all of them from the loop.
    pub fn end(&self) {
        for pair in self.pairs.take() {
            self.event_loop().remove_reader(&pair.1).unwrap();
            self.event_loop().remove_writer(&pair.1).unwrap();
        }
        self.drop_handles();
        self.event_loop.take();
    }

    #[track_caller]
    pub fn assert(&self, at: &str) {
        for index in 0..2 {
            self.handle_runs[index].assert(&format!("handle {index}"), at);
            self.timer_runs[index].assert(&format!("timer {index}"), at);
            self.reader_runs[index].assert(&format!("reader {index}"), at);
            self.writer_runs[index].assert(&format!("writer {index}"), at);
        }
    }
}

fn callback_called(scenario: &std::rc::Weak<Scenario>, callback: Callback, index: usize) {
    if index == 0
        && let Some(scenario) = scenario.upgrade()
    {
        scenario.callback_called(callback);
    }
}
