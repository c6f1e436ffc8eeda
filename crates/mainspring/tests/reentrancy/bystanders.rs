//! Calls of every kind that are due in the pass of the callback: the first of each kind may be the callback itself.

use crate::Callback;
use crate::world::World;
use mainspring::{EventLoop, Handle, TimerHandle};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// How often something ran, and whether it may still.
#[derive(Default)]
struct Runs {
    count: Cell<u32>,
    is_over: Cell<bool>,
    ran_when_over: Cell<bool>,
}

impl Runs {
    fn run(&self) {
        self.count.set(self.count.get() + 1);
        self.ran_when_over.set(self.ran_when_over.get() || self.is_over.get());
    }

    #[track_caller]
    fn assert(&self, what: &str, at: &str) {
        let count = self.count.get();
        assert!(!self.ran_when_over.get(), "{at}: {what} ran after it was taken back");
        assert!(count <= 1, "{at}: {what} ran {count} times");
        assert!(count == 1 || self.is_over.get(), "{at}: {what} did not run");
    }
}

type Pair = Rc<(UnixStream, UnixStream)>;

#[derive(Default)]
pub struct Bystanders {
    handles: RefCell<Vec<Handle>>,
    timers: RefCell<Vec<TimerHandle>>,
    pairs: RefCell<Vec<Pair>>,
    event_loop: RefCell<Option<EventLoop>>,
    handle_runs: [Rc<Runs>; 2],
    timer_runs: [Rc<Runs>; 2],
    reader_runs: [Rc<Runs>; 2],
    writer_runs: [Rc<Runs>; 2],
}

impl Bystanders {
    /// Makes all of them due.
    pub fn start(&self, world: &Rc<World>) {
        let event_loop = world.stage.event_loop.clone();
        *self.event_loop.borrow_mut() = Some(event_loop.clone());
        for index in 0..2 {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(b"!").unwrap();
            let pair = Rc::new((a, b));
            self.pairs.borrow_mut().push(Rc::clone(&pair));
            self.add_reader(world, index, &pair);
            let (runs, inside) = (Rc::clone(&self.writer_runs[index]), Rc::downgrade(world));
            let call = move || {
                // Writable for ever: counted once.
                if runs.count.get() == 0 || runs.is_over.get() {
                    runs.run();
                }
                happened(&inside, Callback::Writer, index);
            };
            event_loop.add_writer(&pair.1, call).unwrap();
            let (runs, inside) = (Rc::clone(&self.timer_runs[index]), Rc::downgrade(world));
            let call = move || {
                runs.run();
                happened(&inside, Callback::Timer, index);
            };
            let timer = event_loop.call_later(Duration::from_millis(1), call).unwrap();
            self.timers.borrow_mut().push(timer);
            let (runs, inside) = (Rc::clone(&self.handle_runs[index]), Rc::downgrade(world));
            let call = move || {
                runs.run();
                happened(&inside, Callback::CallSoon, index);
            };
            self.handles.borrow_mut().push(event_loop.call_soon(call).unwrap());
        }
    }

    fn add_reader(&self, world: &Rc<World>, index: usize, pair: &Pair) {
        let (runs, inside) = (Rc::clone(&self.reader_runs[index]), Rc::downgrade(world));
        let reading = pair.1.try_clone().unwrap();
        let call = move || {
            runs.run();
            (&reading).read_exact(&mut [0]).unwrap();
            happened(&inside, Callback::Reader, index);
        };
        world.stage.event_loop.add_reader(&pair.1, call).unwrap();
    }

    fn event_loop(&self) -> EventLoop {
        self.event_loop.borrow().clone().unwrap()
    }

    pub fn cancel_handles(&self) {
        let handles = self.handles.borrow().clone();
        for (handle, runs) in handles.iter().zip(&self.handle_runs) {
            handle.cancel();
            runs.is_over.set(true);
            assert!(handle.cancelled());
        }
    }

    pub fn cancel_timer(&self, index: usize) {
        let timer = self.timers.borrow().get(index).cloned();
        if let Some(timer) = timer {
            timer.cancel();
            self.timer_runs[index].is_over.set(true);
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
            self.reader_runs[index].is_over.set(true);
        }
    }

    /// The new reader takes over: together they read the one byte that is there.
    pub fn replace_reader(&self, world: &Rc<World>, index: usize) {
        if let Some(pair) = self.pair(index) {
            self.add_reader(world, index, &pair);
        }
    }

    pub fn remove_writers(&self) {
        for index in 0..2 {
            if let Some(pair) = self.pair(index) {
                self.event_loop().remove_writer(&pair.1).unwrap();
                self.writer_runs[index].is_over.set(true);
            }
        }
    }

    /// Lets go of every handle, timer and descriptor that is held here.
    pub fn drop_handles(&self) {
        let held = (self.handles.take(), self.timers.take());
        drop(held);
    }

    /// Whether all have run that are to run.
    pub fn are_done(&self) -> bool {
        let all = [&self.handle_runs, &self.timer_runs, &self.reader_runs, &self.writer_runs];
        let mut all = all.into_iter().flatten();
        self.event_loop.borrow().is_none() || all.all(|runs| runs.count.get() > 0 || runs.is_over.get())
    }

    /// Takes all of them back.
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

fn happened(world: &std::rc::Weak<World>, callback: Callback, index: usize) {
    if index == 0
        && let Some(world) = world.upgrade()
    {
        world.happened(callback);
    }
}
