//! Timers are on time while many connections are ready.

use crate::support::{Log, collect_reports, run_on, virtual_loop};
use mainspring::net::TcpStream;
use mainspring::testing::VirtualClock;
use mainspring::{EventLoop, Protocol, Transport, sleep};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const CONNECTIONS: usize = 40;
const SERVICE_TIME: Duration = Duration::from_millis(1);

/// Takes a millisecond per `data_received` call.
struct SlowProtocol {
    clock: VirtualClock,
    served: Rc<Cell<usize>>,
}

impl Protocol for SlowProtocol {
    fn data_received(&self, _: &Transport, _: &[u8]) {
        self.clock.advance(SERVICE_TIME);
        self.served.set(self.served.get() + 1);
    }
}

struct Clients {
    event_loop: EventLoop,
    streams: Vec<TcpStream>,
    served: Rc<Cell<usize>>,
}

impl Clients {
    async fn connect(event_loop: &EventLoop, clock: &VirtualClock) -> Self {
        let served = Rc::new(Cell::new(0));
        let (clock, counter) = (clock.clone(), Rc::clone(&served));
        let factory = move || SlowProtocol { clock: clock.clone(), served: Rc::clone(&counter) };
        let server = event_loop.create_server("127.0.0.1:0", 100, factory).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            streams.push(TcpStream::connect(server.local_addr()).await.unwrap());
        }
        Clients { event_loop: event_loop.clone(), streams, served }
    }

    /// All clients send; returns when all are served.
    async fn send_all(&self) {
        let target = self.served.get() + CONNECTIONS;
        for stream in &self.streams {
            stream.transport().write(b"x");
        }
        while self.served.get() < target {
            sleep(Duration::ZERO).await;
        }
    }
}

#[test]
fn a_timer_due_while_many_connections_are_ready_does_not_wait_for_all_of_them() {
    let (event_loop, clock) = virtual_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let clients = Clients::connect(&event_loop, &clock).await;
        // The loop measures how long serving takes.
        clients.send_all().await;

        let fired_after = Log::<usize>::new();
        let (log, served, before) = (fired_after.clone(), Rc::clone(&clients.served), clients.served.get());
        let callback = move || log.add(served.get() - before);
        clients.event_loop.call_later(10 * SERVICE_TIME, callback).unwrap();
        clients.send_all().await;

        let entries = fired_after.entries();
        let [after] = entries[..] else { panic!("the timer did not fire exactly once: {entries:?}") };
        assert!((10..20).contains(&after), "fired after {after} of {CONNECTIONS}; due after 10");
    });
    reports.assert([]);
}

#[test]
fn all_connections_are_served_while_timers_are_always_due() {
    let (event_loop, clock) = virtual_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let clients = Clients::connect(&event_loop, &clock).await;
        let ticks = Rc::new(Cell::new(0));
        run_timer(&event_loop, &ticks);
        for _ in 0..3 {
            clients.send_all().await;
        }
        assert_eq!(clients.served.get(), 3 * CONNECTIONS);
        assert!(ticks.get() > 0);
        ticks.set(usize::MAX);
        sleep(SERVICE_TIME).await;
    });
    reports.assert([]);
}

/// Starts a timer that is always due.
fn run_timer(event_loop: &EventLoop, ticks: &Rc<Cell<usize>>) {
    if ticks.get() == usize::MAX {
        return;
    }
    ticks.set(ticks.get() + 1);
    let (again, ticks) = (event_loop.clone(), Rc::clone(ticks));
    event_loop.call_later(Duration::ZERO, move || run_timer(&again, &ticks)).unwrap();
}
