//! What a seed shuffles, and what it does not.

use crate::support::{Log, yield_times};
use crate::{Echo, HOUR, run};
use mainspring::net::{TcpStream, UnixStream};
use mainspring::testing::{Options, VirtualClock};
use mainspring::{Builder, EventLoop, gather, sleep, spawn, yield_now};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use std::time::Duration;

const SEEDS: std::ops::Range<u64> = 0..100;

/// The orders that occur with each seed. Checks that each seed gives the same order twice.
fn orders(options: &Options, order: impl AsyncFn(Log<u8>, VirtualClock)) -> BTreeSet<Vec<u8>> {
    let _watchdog = test_support::watchdog("a shuffled order");
    let with_seed = |seed| {
        let (log, clock) = (Log::new(), VirtualClock::default());
        let builder = Builder::new().testing(&options.clone().seed(seed)).clock(clock.clone());
        builder.build().unwrap().run_until_complete(order(log.clone(), clock)).unwrap();
        log.entries()
    };
    let found = SEEDS.map(|seed| {
        let entries = with_seed(seed);
        assert_eq!(entries, with_seed(seed), "seed {seed}");
        entries
    });
    found.collect()
}

async fn three_equal_timers(log: Log<u8>, _: VirtualClock) {
    for number in 0..3 {
        EventLoop::current().call_later(HOUR, log.adder(number)).unwrap();
    }
    sleep(2 * HOUR).await;
}

async fn three_timers(log: Log<u8>, clock: VirtualClock) {
    for number in 0..3 {
        let nanos = Duration::from_nanos(number.into());
        EventLoop::current().call_later(HOUR + nanos, log.adder(number)).unwrap();
    }
    // All three are due in one iteration.
    clock.advance(2 * HOUR);
    yield_times(2).await;
}

async fn three_callbacks(log: Log<u8>, _: VirtualClock) {
    for number in 0..3 {
        EventLoop::current().call_soon(log.adder(number)).unwrap();
    }
    yield_times(2).await;
}

async fn three_tasks(log: Log<u8>, _: VirtualClock) {
    gather((0..3).map(|number| {
        let log = log.clone();
        spawn(async move { log.add(number) })
    }))
    .await;
}

/// Three fds become ready in one poll.
async fn three_events(log: Log<u8>, _: VirtualClock) {
    let event_loop = EventLoop::current();
    let mut pairs = Vec::new();
    for number in 0..3 {
        let (here, mut there) = StdUnixStream::pair().unwrap();
        there.write_all(b"x").unwrap();
        let (log, here) = (log.clone(), Rc::new(here));
        let watched = Rc::clone(&here);
        let on_ready = move || {
            assert!(EventLoop::current().remove_reader(&*watched).unwrap());
            log.add(number);
        };
        event_loop.add_reader(&*here, on_ready).unwrap();
        pairs.push((here, there));
    }
    while log.entries().len() < 3 {
        yield_now().await;
    }
}

#[test]
fn equal_deadlines_and_io_events_are_shuffled() {
    assert_eq!(orders(&Options::new(), three_equal_timers).len(), 6, "all orders");
    assert_eq!(orders(&Options::new(), three_events).len(), 6, "all orders");
}

#[test]
fn different_deadlines_callbacks_and_task_steps_keep_their_order() {
    let in_order = BTreeSet::from([vec![0, 1, 2]]);
    assert_eq!(orders(&Options::new(), three_timers), in_order);
    assert_eq!(orders(&Options::new(), three_callbacks), in_order);
    assert_eq!(orders(&Options::new(), three_tasks), in_order);
}

#[test]
fn ready_task_steps_are_shuffled_on_request_and_callbacks_are_not() {
    let options = Options::new().shuffle_ready(true);
    assert_eq!(orders(&options, three_tasks).len(), 6, "all orders");
    assert_eq!(orders(&options, three_callbacks), BTreeSet::from([vec![0, 1, 2]]));
    assert_eq!(orders(&options, three_timers), BTreeSet::from([vec![0, 1, 2]]));
}

#[test]
fn without_a_seed_the_order_is_that_of_asyncio() {
    for order in [Options::new(), Options::new().shuffle_ready(true)] {
        let log = Log::new();
        run(&order, async {
            three_equal_timers(log.clone(), VirtualClock::default()).await;
            three_tasks(log.clone(), VirtualClock::default()).await;
        });
        log.assert([0, 1, 2, 0, 1, 2]);
    }
}

/// Clients whose data arrives in pieces, at an echo server of protocols and one of streams.
async fn echo_in_pieces() {
    let event_loop = EventLoop::current();
    let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let streams = spawn(async move {
        while let data @ [_, ..] = there.read_some(100).await.unwrap().as_slice() {
            there.write_all(data).await.unwrap();
        }
    });
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(TcpStream::connect(server.local_addr()).await.unwrap());
    }
    let tasks = clients.into_iter().enumerate().map(|(number, client)| {
        spawn(async move {
            for round in 0..5 {
                let piece = vec![number as u8 * 16 + round; 1 + 40_000 * usize::from(round == 3)];
                client.write_all(&piece).await.unwrap();
                sleep(Duration::from_millis(1)).await;
                assert_eq!(client.read_exactly(piece.len()).await.unwrap(), piece);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for round in 0..5_u8 {
        here.write_all(&[round; 10]).await.unwrap();
        assert_eq!(here.read_exactly(10).await.unwrap(), [round; 10]);
    }
    drop(here);
    for task in tasks {
        task.await.unwrap();
    }
    streams.await.unwrap();
    server.close();
}

#[test]
fn transports_work_in_every_order() {
    for seed in 0..200 {
        run(&Options::new().seed(seed).shuffle_ready(true), echo_in_pieces());
    }
}
