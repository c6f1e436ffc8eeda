//! Channels, intervals, task sets and signals implement `futures_core::Stream`.

use crate::support::{new_loop, run_on, virtual_loop};
use futures_core::Stream;
use mainspring::signal::{SignalKind, signal};
use mainspring::sync::{mpsc, threadsafe};
use mainspring::time::{interval, now};
use mainspring::{JoinSet, spawn};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

#[test]
fn a_channel_yields_sent_values_and_ends_when_the_last_sender_is_dropped() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let (sender, mut receiver) = mpsc::channel(1);
        spawn(async move {
            sender.send(1).await.unwrap();
            sender.send(2).await.unwrap();
        });
        assert_eq!(next(&mut receiver).await, Some(1));
        assert_eq!(next(&mut receiver).await, Some(2));
        assert_eq!(next(&mut receiver).await, None);

        let (sender, mut receiver) = threadsafe::channel(1);
        let thread = std::thread::spawn(move || sender.blocking_send(3));
        assert_eq!(next(&mut receiver).await, Some(3));
        assert_eq!(next(&mut receiver).await, None);
        thread.join().unwrap().unwrap();
    });
}

#[test]
fn an_interval_yields_its_ticks() {
    let (event_loop, _clock) = virtual_loop();
    run_on(&event_loop, async {
        let (start, period) = (now(), Duration::from_secs(1));
        let mut ticks = interval(period);
        assert_eq!(next(&mut ticks).await, Some(start));
        assert_eq!(next(&mut ticks).await, Some(start.saturating_add(period)));
    });
}

#[test]
fn a_join_set_yields_results() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { "done" });
        assert_eq!(next(&mut tasks).await, Some(Ok("done")));
        assert_eq!(next(&mut tasks).await, None);
    });
}

#[test]
fn a_signal_stream_ends_when_the_loop_closes() {
    let event_loop = new_loop();
    let mut hangup = run_on(&event_loop, async {
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        assert_eq!(next(&mut hangup).await, Some(()));
        hangup
    });
    event_loop.close().unwrap();
    assert_eq!(run_on(&new_loop(), next(&mut hangup)), None);
}
