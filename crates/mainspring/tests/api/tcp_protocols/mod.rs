//! TCP with protocols: helpers for the submodules.

mod connecting;
mod panics;
mod transports;

use crate::support::Log;
use mainspring::{EventLoop, Future, Protocol, Server, Transport, sleep};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

/// Logs its callbacks.
struct Recorder {
    log: Log<String>,
    data: RefCell<Vec<u8>>,
    lost: Future<Option<io::ErrorKind>>,
    keeps_open: Cell<bool>,
}

impl Recorder {
    fn new() -> Self {
        let lost = EventLoop::current().create_future();
        Recorder { log: Log::new(), data: RefCell::default(), lost, keeps_open: Cell::new(false) }
    }

    async fn lost(&self) -> Option<io::ErrorKind> {
        self.lost.clone().await.unwrap()
    }
}

impl Protocol for Recorder {
    fn connection_made(&self, transport: &Transport) {
        assert!(transport.peer_addr().is_some() && transport.local_addr().is_some());
        self.log.add("made");
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.data.borrow_mut().extend_from_slice(data);
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.log.add("eof");
        self.keeps_open.get()
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        assert!(transport.is_closing());
        self.log.add("lost");
        self.lost.set_result(error.map(|error| error.kind())).unwrap();
    }

    fn pause_writing(&self, _: &Transport) {
        self.log.add("pause");
    }

    fn resume_writing(&self, _: &Transport) {
        self.log.add("resume");
    }
}

/// A server, and the list of the recorders that it creates.
async fn recording_server(event_loop: &EventLoop) -> (Server, Rc<RefCell<Vec<Rc<Recorder>>>>) {
    struct Shared(Rc<Recorder>);
    impl Protocol for Shared {
        fn connection_made(&self, transport: &Transport) {
            self.0.connection_made(transport);
        }
        fn data_received(&self, transport: &Transport, data: &[u8]) {
            self.0.data_received(transport, data);
        }
        fn eof_received(&self, transport: &Transport) -> bool {
            self.0.eof_received(transport)
        }
        fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
            self.0.connection_lost(transport, error);
        }
    }
    let recorders = Rc::new(RefCell::new(Vec::new()));
    let factory_recorders = Rc::clone(&recorders);
    let factory = move || {
        let recorder = Rc::new(Recorder::new());
        factory_recorders.borrow_mut().push(Rc::clone(&recorder));
        Shared(recorder)
    };
    (event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap(), recorders)
}

/// Runs the loop until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        sleep(Duration::from_micros(100)).await;
    }
}
