//! The feature `tracing`: diagnostics are events.

#[macro_use]
extern crate test_support;

use mainspring::{EventLoop, ExceptionContext};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects level, target and message of all events.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(Level, String, String)>>>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{value:?}");
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let metadata = event.metadata();
        self.0.lock().unwrap().push((*metadata.level(), metadata.target().to_owned(), message.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn what_goes_to_stderr_is_an_event() {
    let collector = Collector::default();
    test_support::untracked(|| {
        tracing::subscriber::with_default(collector.clone(), || {
            let event_loop = EventLoop::new().unwrap();
            event_loop.call_exception_handler(&ExceptionContext::new("A setting is ignored"));
            event_loop.set_exception_handler(|_| ());
            event_loop.call_exception_handler(&ExceptionContext::new("The program handles this one"));
        });
    });
    let events = collector.0.lock().unwrap().clone();
    assert_eq!(events, [(Level::ERROR, "mainspring".to_owned(), "A setting is ignored".to_owned())]);
}
