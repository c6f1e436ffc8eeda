//! Many connections that are ready at once, and timers beside them.

use crate::support::{Log, collect_reports, run_on, virtual_loop};
use mainspring::net::TcpStream;
use mainspring::testing::VirtualClock;
use mainspring::{EventLoop, Protocol, Transport, sleep};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const CROWD: usize = 40;
const EACH: Duration = Duration::from_millis(1);

/// Takes a millisecond for whatever arrives.
struct Slow {
    clock: VirtualClock,
    served: Rc<Cell<usize>>,
}

impl Protocol for Slow {
    fn data_received(&self, _: &Transport, _: &[u8]) {
        self.clock.advance(EACH);
        self.served.set(self.served.get() + 1);
    }
}

struct Crowd {
    event_loop: EventLoop,
    clients: Vec<TcpStream>,
    served: Rc<Cell<usize>>,
}

impl Crowd {
    async fn gather(event_loop: &EventLoop, clock: &VirtualClock) -> Self {
        let served = Rc::new(Cell::new(0));
        let (clock, counted) = (clock.clone(), Rc::clone(&served));
        let factory = move || Slow { clock: clock.clone(), served: Rc::clone(&counted) };
        let server = event_loop.create_server("127.0.0.1:0", 100, factory).await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..CROWD {
            clients.push(TcpStream::connect(server.local_addr()).await.unwrap());
        }
        Crowd { event_loop: event_loop.clone(), clients, served }
    }

    /// All of them say something; done when all are served.
    async fn speak(&self) {
        let target = self.served.get() + CROWD;
        for client in &self.clients {
            client.transport().write(b"now");
        }
        while self.served.get() < target {
            sleep(Duration::ZERO).await;
        }
    }
}

#[test]
fn a_timer_that_comes_due_while_a_crowd_is_served_does_not_wait_for_all_of_it() {
    let (event_loop, clock) = virtual_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let crowd = Crowd::gather(&event_loop, &clock).await;
        // The loop comes to know how long serving takes.
        crowd.speak().await;

        let fired_after = Log::<usize>::new();
        let (log, served, before) = (fired_after.clone(), Rc::clone(&crowd.served), crowd.served.get());
        let note = move || log.add(served.get() - before);
        crowd.event_loop.call_later(10 * EACH, note).unwrap();
        crowd.speak().await;

        let entries = fired_after.entries();
        let [after] = entries[..] else { panic!("the timer has not fired once: {entries:?}") };
        assert!((10..20).contains(&after), "it fired after {after} of {CROWD}, and was due after 10");
    });
    reports.assert([]);
}

#[test]
fn everybody_is_served_however_many_timers_are_due() {
    let (event_loop, clock) = virtual_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let crowd = Crowd::gather(&event_loop, &clock).await;
        let ticks = Rc::new(Cell::new(0));
        tick(&event_loop, &ticks);
        for _ in 0..3 {
            crowd.speak().await;
        }
        assert_eq!(crowd.served.get(), 3 * CROWD);
        assert!(ticks.get() > 0);
        ticks.set(usize::MAX);
        sleep(EACH).await;
    });
    reports.assert([]);
}

/// A timer that is always due.
fn tick(event_loop: &EventLoop, ticks: &Rc<Cell<usize>>) {
    if ticks.get() == usize::MAX {
        return;
    }
    ticks.set(ticks.get() + 1);
    let (again, ticks) = (event_loop.clone(), Rc::clone(ticks));
    event_loop.call_later(Duration::ZERO, move || tick(&again, &ticks)).unwrap();
}
