//! Hooks, nested runs and guest mode of the engine, under a small host.

mod guest;
mod hooks;
mod nested;

use mainspring_engine::clock::MonotonicClock;
use mainspring_engine::poller::open_epoll;
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

type Callback = Rc<dyn Fn(&Engine<Notes>)>;

/// A host that notes what is called. A call gets the engine.
#[derive(Default)]
struct Notes {
    engine: RefCell<std::rc::Weak<Engine<Notes>>>,
    notes: RefCell<Vec<String>>,
    in_idle: RefCell<Option<Callback>>,
    fails_in_hooks: Cell<bool>,
}

impl Notes {
    fn note(&self, text: impl Into<String>) {
        self.notes.borrow_mut().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        self.notes.take()
    }

    fn hook(&self, name: &str) -> io::Result<()> {
        self.note(name);
        if self.fails_in_hooks.get() { Err(io::Error::other(name)) } else { Ok(()) }
    }
}

impl Host for Notes {
    type Call = Callback;
    type Handle = Callback;
    type Watch = Callback;
    type Source = &'static str;
    type Owner = ();
    type Inbound = &'static str;
    type Error = io::Error;

    fn run_call(&self, call: Callback) -> io::Result<()> {
        let engine = self.engine.borrow().upgrade();
        engine.inspect(|engine| call(engine));
        Ok(())
    }

    fn io_ready(&self, _: &'static str, _: Readiness) -> Option<Callback> {
        None
    }

    fn scope_ended(&self, source: &'static str) -> io::Result<()> {
        self.note(format!("{source} ended"));
        Ok(())
    }

    fn receive(&self, inbound: &'static str) -> Option<Callback> {
        Some(noting(inbound))
    }

    fn on_iteration_begin(&self) -> io::Result<()> {
        self.hook("begin")
    }

    fn on_iteration_end(&self) -> io::Result<()> {
        self.hook("end")
    }

    fn on_idle(&self, timeout: Option<Duration>) -> io::Result<()> {
        let kind = timeout.map_or("without limit", |_| "with limit");
        self.note(format!("idle {kind}"));
        let scheduled = self.in_idle.take();
        if let (Some(call), Some(engine)) = (scheduled, self.engine.borrow().upgrade()) {
            engine.call_soon(call);
        }
        Ok(())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> io::Result<()> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> io::Error {
        error
    }
}

fn new_engine() -> Rc<Engine<Notes>> {
    let clock = Box::new(MonotonicClock);
    let engine = Rc::new(Engine::new(Notes::default(), open_epoll().unwrap(), clock).unwrap());
    engine.host().engine.replace(Rc::downgrade(&engine));
    engine
}

fn call(body: impl Fn(&Engine<Notes>) + 'static) -> Callback {
    Rc::new(body)
}

fn noting(name: &'static str) -> Callback {
    call(move |engine| engine.host().note(name))
}

fn stopping() -> Callback {
    call(|engine| engine.stop())
}
