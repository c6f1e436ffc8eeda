//! The queues: no item is lost or overtaken, and no waiter waits while its item is available.

use crate::support::{Waiters, sorted};
use mainspring::sync::{Fifo, GetError, LeastFirst, Lifo, Order, OrderedQueue, PutError, QueueShutDown};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;
use std::task::Poll;

/// Compares the first field only; the second identifies the item.
#[derive(Clone, Copy, Debug)]
struct Item(u8, usize);

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Get,
    GetNowait,
    Put(u8),
    PutNowait(u8),
    PollGetter(Index),
    PollPutter(Index),
    MoveGetter(Index),
    CancelGetter(Index),
    CancelPutter(Index),
    Done,
    Join,
    CancelJoin(Index),
    ShutDown(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Get),
        2 => Just(Step::GetNowait),
        6 => any::<u8>().prop_map(|rank| Step::Put(rank % 4)),
        2 => any::<u8>().prop_map(|rank| Step::PutNowait(rank % 4)),
        5 => any::<Index>().prop_map(Step::PollGetter),
        5 => any::<Index>().prop_map(Step::PollPutter),
        1 => any::<Index>().prop_map(Step::MoveGetter),
        3 => any::<Index>().prop_map(Step::CancelGetter),
        3 => any::<Index>().prop_map(Step::CancelPutter),
        4 => Just(Step::Done),
        2 => Just(Step::Join),
        1 => any::<Index>().prop_map(Step::CancelJoin),
        1 => (0..12u8).prop_filter_map("rarely", |luck| (luck < 2).then_some(Step::ShutDown(luck == 0))),
    ];
    prop::collection::vec(step, 1..120)
}

/// The waiters on one side of the queue: in order of arrival, and those that must be woken.
#[derive(Default)]
struct Side {
    waiting: Vec<usize>,
    woken: Vec<usize>,
}

impl Side {
    fn leave(&mut self, number: usize) {
        self.waiting.retain(|other| *other != number);
        self.woken.retain(|other| *other != number);
    }

    fn wake_first(&mut self) {
        self.woken.push(self.waiting.remove(0));
    }

    fn requeue(&mut self, number: usize) {
        self.leave(number);
        self.waiting.push(number);
        self.waiting.sort_unstable();
    }

    fn wake_all(&mut self) {
        self.woken.append(&mut self.waiting);
    }
}

struct Model {
    items: Vec<Item>,
    next: fn(&[Item]) -> usize,
    maxsize: usize,
    is_shut_down: bool,
    unfinished: usize,
    getters: Side,
    putters: Side,
    joiners: Side,
}

impl Model {
    fn free_slots(&self) -> usize {
        if self.maxsize == 0 { usize::MAX } else { self.maxsize - self.items.len() }
    }

    fn get(&mut self) -> Option<Item> {
        let item =
            if self.items.is_empty() { None } else { Some(self.items.remove((self.next)(&self.items))) };
        self.settle();
        item
    }

    fn put(&mut self, item: Item) {
        self.items.push(item);
        self.unfinished += 1;
        self.settle();
    }

    fn settle(&mut self) {
        while !self.getters.waiting.is_empty() && self.items.len() > self.getters.woken.len() {
            self.getters.wake_first();
        }
        while !self.putters.waiting.is_empty() && self.free_slots() > self.putters.woken.len() {
            self.putters.wake_first();
        }
        if self.unfinished == 0 {
            self.joiners.wake_all();
        }
    }
}

type Got = Result<Item, QueueShutDown>;

/// The model's result for a polled getter. A new getter is not in the model yet.
fn model_get(model: &mut Model, number: usize, is_new: bool) -> Poll<Option<Item>> {
    let may_take = if is_new {
        model.is_shut_down || model.items.len() > model.getters.woken.len()
    } else {
        model.getters.woken.contains(&number)
    };
    if may_take && !model.items.is_empty() {
        model.getters.leave(number);
        return Poll::Ready(model.get());
    }
    if model.is_shut_down {
        model.getters.leave(number);
        return Poll::Ready(None);
    }
    if is_new || may_take {
        model.getters.requeue(number);
    }
    Poll::Pending
}

/// The model's result for a polled putter: whether its item was accepted.
fn model_put(model: &mut Model, number: usize, item: Item, is_new: bool) -> Poll<bool> {
    if model.is_shut_down {
        model.putters.leave(number);
        return Poll::Ready(false);
    }
    let may_put = if is_new {
        model.free_slots() > model.putters.woken.len()
    } else {
        model.putters.woken.contains(&number)
    };
    if may_put && model.free_slots() > 0 {
        model.putters.leave(number);
        model.put(item);
        return Poll::Ready(true);
    }
    if is_new || may_put {
        model.putters.requeue(number);
    }
    Poll::Pending
}

fn assert_same_get(polled: Poll<Got>, expected: Poll<Option<Item>>) -> Result<(), TestCaseError> {
    let show = |item: Option<Item>| item.map(|item| item.1);
    prop_assert_eq!(polled.map(|got| show(got.ok())), expected.map(show));
    Ok(())
}

fn check<O: Order<Item> + 'static>(
    next: fn(&[Item]) -> usize,
    maxsize: usize,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let queue = Rc::new(OrderedQueue::<Item, O>::new(maxsize));
    let mut model = Model {
        items: Vec::new(),
        next,
        maxsize,
        is_shut_down: false,
        unfinished: 0,
        getters: Side::default(),
        putters: Side::default(),
        joiners: Side::default(),
    };
    let (mut getters, mut putters, mut joiners) = (Waiters::new(), Waiters::new(), Waiters::new());
    let mut putting = std::collections::BTreeMap::new();
    let mut made = 0;
    for step in steps {
        match step {
            Step::Get => {
                let subject = Rc::clone(&queue);
                let (number, polled) = getters.add(async move { subject.get().await });
                assert_same_get(polled, model_get(&mut model, number, true))?;
            }
            Step::GetNowait => {
                let got = queue.get_nowait();
                let expected = model.get();
                prop_assert_eq!(got.ok().map(|item| item.1), expected.map(|item| item.1));
                let refusal = if model.is_shut_down { GetError::ShutDown } else { GetError::Empty };
                prop_assert!(expected.is_some() || got == Err(refusal));
            }
            Step::Put(rank) => {
                let item = Item(rank, made);
                made += 1;
                let subject = Rc::clone(&queue);
                let (number, polled) = putters.add(async move { subject.put(item).await.is_ok() });
                putting.insert(number, item);
                prop_assert_eq!(polled, model_put(&mut model, number, item, true));
            }
            Step::PutNowait(rank) => {
                let item = Item(rank, made);
                made += 1;
                let put = queue.put_nowait(item);
                if model.is_shut_down {
                    prop_assert_eq!(put, Err(PutError::ShutDown(item)));
                } else if model.free_slots() == 0 {
                    prop_assert_eq!(put, Err(PutError::Full(item)));
                } else {
                    prop_assert_eq!(put, Ok(()));
                    model.put(item);
                }
            }
            Step::PollGetter(index) | Step::MoveGetter(index) => {
                let Some(number) = getters.pick(index) else { continue };
                let polled = match step {
                    Step::MoveGetter(_) => getters.move_to_another_task(number),
                    _ => getters.poll(number),
                };
                assert_same_get(polled, model_get(&mut model, number, false))?;
            }
            Step::PollPutter(index) => {
                let Some(number) = putters.pick(index) else { continue };
                let polled = putters.poll(number);
                prop_assert_eq!(polled, model_put(&mut model, number, putting[&number], false));
            }
            Step::CancelGetter(index) => {
                let Some(number) = getters.pick(index) else { continue };
                getters.cancel(number);
                model.getters.leave(number);
            }
            Step::CancelPutter(index) => {
                let Some(number) = putters.pick(index) else { continue };
                putters.cancel(number);
                model.putters.leave(number);
            }
            Step::Done => {
                prop_assert_eq!(queue.task_done().is_ok(), model.unfinished > 0);
                model.unfinished = model.unfinished.saturating_sub(1);
            }
            Step::Join => {
                let subject = Rc::clone(&queue);
                let (number, polled) = joiners.add(async move { subject.join().await });
                prop_assert_eq!(polled.is_ready(), model.unfinished == 0);
                if polled.is_pending() {
                    model.joiners.waiting.push(number);
                }
            }
            Step::CancelJoin(index) => {
                let Some(number) = joiners.pick(index) else { continue };
                let is_woken = joiners.woken().contains(&number);
                prop_assert_eq!(joiners.poll(number).is_ready(), is_woken);
                joiners.cancel(number);
                model.joiners.leave(number);
            }
            Step::ShutDown(immediate) => {
                queue.shutdown(immediate);
                model.is_shut_down = true;
                model.getters.wake_all();
                model.putters.wake_all();
                if immediate {
                    model.unfinished = model.unfinished.saturating_sub(model.items.len());
                    model.items.clear();
                }
            }
        }
        model.settle();
        prop_assert_eq!(getters.woken(), sorted(model.getters.woken.iter().copied()));
        prop_assert_eq!(putters.woken(), sorted(model.putters.woken.iter().copied()));
        prop_assert_eq!(joiners.woken(), sorted(model.joiners.woken.iter().copied()));
        prop_assert_eq!(queue.qsize(), model.items.len());
        prop_assert_eq!(queue.full(), model.free_slots() == 0);
    }
    // The remaining items come out in order.
    while let Some(item) = model.get() {
        prop_assert_eq!(queue.get_nowait().map(|item| item.1), Ok(item.1));
    }
    prop_assert!(queue.empty());
    Ok(())
}

fn least(items: &[Item]) -> usize {
    let least = items.iter().enumerate().min_by_key(|(index, item)| (item.0, *index));
    least.map_or(0, |(index, _)| index)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_is_first_in_first_out(maxsize in 0..4usize, steps in steps()) {
        check::<Fifo<Item>>(|_| 0, maxsize, steps)?;
    }

    #[test]
    fn a_lifo_queue_is_last_in_first_out(maxsize in 0..4usize, steps in steps()) {
        check::<Lifo<Item>>(|items| items.len() - 1, maxsize, steps)?;
    }

    #[test]
    fn a_priority_queue_returns_the_smallest_item_that_arrived_first(maxsize in 0..4usize, steps in steps()) {
        check::<LeastFirst<Item>>(least, maxsize, steps)?;
    }
}
