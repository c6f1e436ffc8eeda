//! Ten thousand connections at once, through protocols, both ends on one loop.
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
use test_support::guarded;

const WANTED: usize = 10_000;
/// Fewer would prove nothing.
const WORTHWHILE: usize = 2_000;
/// For the process, the loop and the listener.
const SPARE: usize = 100;
/// So many connect at a time: no more than the listener's queue holds.
const AT_ONCE: usize = 100;

/// How many connections this process may have, both ends counted, after asking for as many as it can get.
fn room() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (2 * WANTED + SPARE) as u64;
    let soft = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|current| current < soft) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: limit.maximum }).unwrap();
    }
    let granted = getrlimit(Resource::Nofile).current.map_or(wanted, |granted| granted.min(wanted));
    (granted as usize).saturating_sub(SPARE) / 2
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

/// Sends its number and waits for it to come back.
struct Client {
    number: u32,
    received: RefCell<Vec<u8>>,
    answered: Rc<Cell<usize>>,
}

impl Protocol for Client {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.received.borrow_mut().extend_from_slice(data);
        if self.received.borrow().len() == 4 {
            assert_eq!(*self.received.borrow(), self.number.to_be_bytes(), "the answer of another");
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
fn ten_thousand_connections_echo_at_once_and_leave_nothing() {
    let count = room().min(WANTED);
    if count < WORTHWHILE {
        println!("skipped: the limit of open files leaves room for {count} connections only");
        return;
    }
    println!("{count} connections");
    guarded(|| {
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
        let numbers = transports.len()..count.min(transports.len() + AT_ONCE);
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
    // There is room for one more afterwards.
    let one = TcpStream::connect(address).await.unwrap();
    one.write_all(b"x").await.unwrap();
    one.read_exact(&mut [0]).await.unwrap();
    one.close().await.unwrap();
    server.close();
    server.wait_closed().await;
}
