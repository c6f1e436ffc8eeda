//! What a loop counts, and its load.

use crate::support::{new_loop, run_on, virtual_loop};
use mainspring::net::UnixStream;
use mainspring::{Lane, to_thread};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn iterations_and_calls_are_counted() {
    let event_loop = new_loop();
    for _ in 0..3 {
        event_loop.call_soon(|| ()).unwrap();
    }
    event_loop.run_until_idle().unwrap();
    let counters = event_loop.counters();
    assert_eq!((counters.iterations, counters.calls), (1, 3));
}

#[test]
fn busy_and_idle_time_are_those_of_the_clock() {
    let (event_loop, clock) = virtual_loop();
    let busy = clock.clone();
    event_loop.call_soon(move || busy.advance(Duration::from_secs(3))).unwrap();
    event_loop.call_later(Duration::from_secs(10), || ()).unwrap();
    event_loop.run_until_idle().unwrap();
    clock.advance(Duration::from_secs(100));
    let counters = event_loop.counters();
    assert_eq!((counters.busy, counters.idle), (Duration::from_secs(3), Duration::from_secs(7)));
}

#[test]
fn the_lag_of_timers_is_counted_by_size() {
    let (event_loop, clock) = virtual_loop();
    event_loop.call_later(Duration::from_millis(970), || ()).unwrap();
    event_loop.call_later(Duration::from_micros(999_900), || ()).unwrap();
    event_loop.call_soon(move || clock.advance(Duration::from_secs(1))).unwrap();
    event_loop.run_until_idle().unwrap();
    let lag = event_loop.counters().timer_lag;
    let late: Vec<_> = lag.buckets().filter(|(_, count)| *count > 0).collect();
    let [first, second] = [Duration::from_micros(100), Duration::from_millis(50)];
    assert_eq!(late, [(Some(first), 1), (Some(second), 1)]);
    assert_eq!(lag.sum(), Duration::from_micros(30_100));
}

#[test]
fn bytes_and_transports_are_counted() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let event_loop = mainspring::EventLoop::current();
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, writer) = (near.into_split().0, far.into_split().1);
        writer.write_all(b"12345").await.unwrap();
        let mut buffer = [0; 5];
        reader.read_exact(&mut buffer).await.unwrap();
        let counters = event_loop.counters();
        assert_eq!((counters.sent_bytes, counters.received_bytes), (5, 5));
        assert_eq!(event_loop.transport_count(), 2);
    });
}

#[test]
fn the_load_is_counted_by_lane_and_the_executor_too() {
    let event_loop = new_loop();
    for lane in [Lane::Urgent, Lane::Background, Lane::Background, Lane::Normal] {
        event_loop.call_soon_in(lane, || ()).unwrap();
    }
    let metrics = event_loop.metrics();
    assert_eq!((metrics.ready, metrics.ready_urgent, metrics.ready_background), (4, 1, 2));

    let one = mainspring::ExecutorConfig {
        max_threads: std::num::NonZeroUsize::MIN,
        ..mainspring::ExecutorConfig::default()
    };
    let event_loop = mainspring::Builder::new().executor(one).build().unwrap();
    run_on(&event_loop, async {
        let (sender, receiver) = channel::<()>();
        let first = mainspring::spawn(to_thread(move || receiver.recv()));
        let second = mainspring::spawn(to_thread(|| ()));
        mainspring::yield_now().await;
        assert!(mainspring::EventLoop::current().metrics().executor_queued >= 1);
        sender.send(()).unwrap();
        first.await.unwrap().unwrap().unwrap();
        second.await.unwrap().unwrap();
    });
    assert_eq!(event_loop.metrics().executor_queued, 0);
}
