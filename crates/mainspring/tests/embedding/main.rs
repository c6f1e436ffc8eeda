//! Hooks, nested runs and guest mode.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod guest;
mod hooks;
mod nested;

use std::cell::RefCell;
use std::rc::Rc;

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    /// A callback that notes `text`.
    fn noting(&self, text: &str) -> impl Fn() + 'static {
        let (log, text) = (self.clone(), text.to_owned());
        move || log.note(text.clone())
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}
