//! Ten thousand connections at once, as protocols, both ends on one loop.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod support;

use mainspring::net::TcpStream;
use mainspring::{EventLoop, Protocol, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use test_support::isolated;

const MAX_CONNECTIONS: usize = 10_000;
/// Fewer connections would prove nothing.
const MIN_CONNECTIONS: usize = 2_000;
/// Fds for the process, the loop and the listener.
const SPARE_FDS: usize = 100;
/// Connects in progress at a time: at most the listener's backlog.
const MAX_CONNECTING: usize = 100;

/// How many connections this process may open, counting both ends, after raising its limit.
fn connection_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (2 * MAX_CONNECTIONS + SPARE_FDS) as u64;
    let soft = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|current| current < soft) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: limit.maximum }).unwrap();
    }
    let granted = getrlimit(Resource::Nofile).current.map_or(wanted, |granted| granted.min(wanted));
    (granted as usize).saturating_sub(SPARE_FDS) / 2
}

struct Echo(Rc<Cell<usize>>);

impl Protocol for Echo {
    fn connection_made(&self, _: &Transport) {
        self.0.set(self.0.get() + 1);
    }

    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        assert!(error.is_none(), "{error:?}");
        self.0.set(self.0.get() - 1);
    }
}

/// Sends its number and waits for the echo.
struct Client {
    number: u32,
    received: RefCell<Vec<u8>>,
    answered: Rc<Cell<usize>>,
}

impl Protocol for Client {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.received.borrow_mut().extend_from_slice(data);
        if self.received.borrow().len() == 4 {
            assert_eq!(*self.received.borrow(), self.number.to_be_bytes(), "the echo of another client");
            self.answered.set(self.answered.get() + 1);
        }
    }
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        mainspring::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn ten_thousand_concurrent_connections_echo_and_leave_nothing() {
    let count = connection_limit().min(MAX_CONNECTIONS);
    if count < MIN_CONNECTIONS {
        println!("skipped: the limit of open files allows only {count} connections");
        return;
    }
    println!("{count} connections");
    isolated(|| {
        let event_loop = EventLoop::new().unwrap();
        event_loop.run_until_complete(echo_on(&event_loop, count)).unwrap();
        for _ in 0..3 {
            event_loop.stop();
            event_loop.run_forever().unwrap();
        }
        assert_eq!(event_loop.metrics(), Default::default());
    });
}

async fn echo_on(event_loop: &EventLoop, count: usize) {
    let (open, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let opening = Rc::clone(&open);
    let factory = move || Echo(Rc::clone(&opening));
    let server = event_loop.create_server("127.0.0.1:0", 4096, factory).await.unwrap();
    let address = server.local_addr();
    let mut transports = Vec::new();
    while transports.len() < count {
        let numbers = transports.len()..count.min(transports.len() + MAX_CONNECTING);
        let connecting: Vec<_> = numbers
            .map(|number| {
                let (inner, answered) = (event_loop.clone(), Rc::clone(&answered));
                let client = Client { number: number as u32, received: RefCell::default(), answered };
                mainspring::spawn(async move { inner.create_connection(address, || client).await })
            })
            .collect();
        for task in connecting {
            transports.push(task.await.unwrap().unwrap().0);
        }
    }
    until(|| open.get() == count).await;
    assert_eq!(event_loop.metrics().descriptors, 2 * count + 1);
    for (number, transport) in transports.iter().enumerate() {
        transport.write(&(number as u32).to_be_bytes());
    }
    until(|| answered.get() == count).await;
    transports.iter().for_each(Transport::close);
    until(|| open.get() == 0).await;
    drop(transports);
    // One more connection works afterwards.
    let one = TcpStream::connect(address).await.unwrap();
    one.write_all(b"x").await.unwrap();
    one.read_exact(&mut [0]).await.unwrap();
    one.close().await.unwrap();
    server.close();
    server.wait_closed().await;
}
