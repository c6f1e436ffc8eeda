//! `as_completed`.

use super::Gate;
use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_iteration, virtual_loop};
use mainspring::{as_completed, sleep, timeout};
use proptest::prelude::*;
use std::future::{poll_fn, ready};
use std::time::Duration;

#[test]
fn cancelling_next_of_as_completed_loses_no_result() {
    let (event_loop, _clock) = virtual_loop();
    let order = run_on(&event_loop, async {
        let mut results = as_completed([3_u64, 1, 2].map(|number| async move {
            sleep(Duration::from_secs(number)).await;
            number
        }));
        let mut order = Vec::new();
        loop {
            assert_eq!(results.len(), 3 - order.len());
            // Half a second at a time, so most waits time out.
            match timeout(Duration::from_millis(500), results.next()).await {
                Ok(Some(number)) => order.push(number),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert!(results.is_empty());
        order
    });
    assert_eq!(order, [1, 2, 3]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn as_completed_is_a_stream() {
    use futures_core::Stream;
    let event_loop = new_loop();
    let mut results = Box::pin(as_completed([ready(1), ready(2)]));
    assert_eq!(results.size_hint(), (2, Some(2)));
    let collected = run_on(&event_loop, async {
        let mut collected = Vec::new();
        while let Some(number) = poll_fn(|cx| results.as_mut().poll_next(cx)).await {
            collected.push(number);
        }
        collected
    });
    assert_eq!(collected, [1, 2]);
}

proptest! {
    /// Completes futures in random order, several per iteration, and checks that each result comes once, in that order.
    #[test]
    fn as_completed_returns_results_in_completion_order(
        rounds in prop::collection::vec(prop::collection::vec(0..12usize, 0..5), 0..10),
    ) {
        let event_loop = new_loop();
        let gates: Vec<_> = (0..12).map(|_| Gate::default()).collect();
        let futures: Vec<_> = gates
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, gate)| async move {
                gate.opened().await;
                number
            })
            .collect();
        let log = Log::<usize>::new();
        let inside = log.clone();
        let task = event_loop
            .spawn(async move {
                let mut results = as_completed(futures);
                while let Some(number) = results.next().await {
                    inside.add(number);
                }
            })
            .unwrap();
        run_one_iteration(&event_loop);
        let mut expected = Vec::new();
        for round in rounds {
            for number in round {
                gates[number].open();
                if !expected.contains(&number) {
                    expected.push(number);
                }
            }
            run_one_iteration(&event_loop);
            prop_assert_eq!(&log.entries(), &expected);
        }
        prop_assert_eq!(task.is_finished(), expected.len() == 12);
    }
}
