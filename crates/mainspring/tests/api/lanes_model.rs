//! Random programs on all lanes, compared with a naive model of the loop.

use crate::support::Log;
use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop, Lane};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// A call of a random program: its lane, how long it runs, and the calls it schedules.
#[derive(Clone, Debug)]
struct Item {
    lane: Lane,
    nanos: u64,
    children: Vec<Item>,
}

fn item() -> impl Strategy<Value = Item> {
    let lane = prop_oneof![Just(Lane::Urgent), Just(Lane::Normal), Just(Lane::Background)];
    let leaf = (lane.clone(), 0..40_u64).prop_map(|(lane, nanos)| Item { lane, nanos, children: Vec::new() });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (lane.clone(), 0..40_u64, prop::collection::vec(inner, 0..4))
            .prop_map(|(lane, nanos, children)| Item { lane, nanos, children })
    })
}

/// Runs the program on a naive loop. Returns the number and the start time of each call, in order.
fn model(program: &[Item], io_first: bool, max_overdue: Option<u64>) -> Vec<(usize, u64)> {
    let mut lanes: [VecDeque<(u64, usize, Item)>; 3] = Default::default();
    let (mut now, mut scheduled, mut ran) = (0, 0, Vec::new());
    let mut push = |lanes: &mut [VecDeque<_>; 3], now, items: &[Item]| {
        for item in items {
            lanes[item.lane as usize].push_back((now, scheduled, item.clone()));
            scheduled += 1;
        }
    };
    push(&mut lanes, now, program);
    while lanes.iter().any(|lane| !lane.is_empty()) {
        let (mut io, mut normal) = (lanes[0].len(), lanes[1].len());
        let mut background = usize::from(io + normal == 0);
        let (mut ran_normal, mut may_run_overdue) = (false, true);
        loop {
            if io_first && ran_normal && normal > 0 {
                (io, ran_normal) = (lanes[0].len(), false);
            }
            let (lane, left) = if io > 0 {
                (0, &mut io)
            } else if normal > 0 {
                let is_overdue =
                    |(since, ..): &(u64, usize, Item)| max_overdue.is_some_and(|limit| now - since > limit);
                if std::mem::take(&mut may_run_overdue) && lanes[2].front().is_some_and(is_overdue) {
                    background = 1;
                    (2, &mut background)
                } else {
                    (ran_normal, may_run_overdue) = (true, true);
                    (1, &mut normal)
                }
            } else if background > 0 {
                (2, &mut background)
            } else {
                break;
            };
            *left -= 1;
            let Some((_, number, item)) = lanes[lane].pop_front() else { break };
            ran.push((number, now));
            now += item.nanos;
            push(&mut lanes, now, &item.children);
        }
    }
    ran
}

struct Run {
    event_loop: EventLoop,
    clock: VirtualClock,
    scheduled: std::cell::Cell<usize>,
    ran: Log<(usize, u64)>,
}

/// Schedules `items` on the loop and numbers them in that order.
fn schedule(run: &Rc<Run>, items: Vec<Item>) {
    for item in items {
        let number = run.scheduled.replace(run.scheduled.get() + 1);
        let inner = Rc::clone(run);
        let call = move || {
            inner.ran.add((number, inner.event_loop.time().as_nanos()));
            inner.clock.advance(Duration::from_nanos(item.nanos));
            schedule(&inner, item.children);
        };
        run.event_loop.call_soon_in(item.lane, call).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_run_in_the_order_of_the_model(
        program in prop::collection::vec(item(), 0..6),
        io_first: bool,
        max_overdue in prop::option::of(0..60_u64),
    ) {
        let clock = VirtualClock::default();
        let event_loop = Builder::new().clock(clock.clone()).io_first(io_first).build().unwrap();
        event_loop.set_max_overdue(max_overdue.map(Duration::from_nanos));
        let run = Rc::new(Run { event_loop, clock, scheduled: Default::default(), ran: Log::new() });
        schedule(&run, program.clone());
        run.event_loop.run_until_idle().unwrap();
        prop_assert_eq!(run.ran.entries(), model(&program, io_first, max_overdue));
    }
}
