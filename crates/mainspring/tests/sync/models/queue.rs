//! The queues: no item lost, none overtaken, nobody waits for what is there.

use crate::support::{Crowd, sorted};
use mainspring::sync::{Fifo, GetError, LeastFirst, Lifo, Order, OrderedQueue, PutError, QueueShutDown};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;
use std::task::Poll;

/// Of a pair the first half is compared: the second tells equal ones apart.
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
    GiveUpGetter(Index),
    GiveUpPutter(Index),
    Done,
    Join,
    GiveUpJoin(Index),
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
        3 => any::<Index>().prop_map(Step::GiveUpGetter),
        3 => any::<Index>().prop_map(Step::GiveUpPutter),
        4 => Just(Step::Done),
        2 => Just(Step::Join),
        1 => any::<Index>().prop_map(Step::GiveUpJoin),
        1 => (0..12u8).prop_filter_map("rarely", |luck| (luck < 2).then_some(Step::ShutDown(luck == 0))),
    ];
    prop::collection::vec(step, 1..120)
}

/// Who waits on one side of the queue: in the order they came, and those whose turn it is.
#[derive(Default)]
struct Side {
    line: Vec<usize>,
    chosen: Vec<usize>,
}

impl Side {
    fn leave(&mut self, number: usize) {
        self.line.retain(|other| *other != number);
        self.chosen.retain(|other| *other != number);
    }

    fn choose_first(&mut self) {
        self.chosen.push(self.line.remove(0));
    }

    fn stand_again(&mut self, number: usize) {
        self.leave(number);
        self.line.push(number);
        self.line.sort_unstable();
    }

    fn choose_all(&mut self) {
        self.chosen.append(&mut self.line);
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
    fn room(&self) -> usize {
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
        while !self.getters.line.is_empty() && self.items.len() > self.getters.chosen.len() {
            self.getters.choose_first();
        }
        while !self.putters.line.is_empty() && self.room() > self.putters.chosen.len() {
            self.putters.choose_first();
        }
        if self.unfinished == 0 {
            self.joiners.choose_all();
        }
    }
}

type Got = Result<Item, QueueShutDown>;

/// What the model says of a getter that is polled; a new one is not in the model yet.
fn model_get(model: &mut Model, number: usize, is_new: bool) -> Poll<Option<Item>> {
    let may_take = if is_new {
        model.is_shut_down || model.items.len() > model.getters.chosen.len()
    } else {
        model.getters.chosen.contains(&number)
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
        model.getters.stand_again(number);
    }
    Poll::Pending
}

/// What the model says of a putter that is polled: whether its item was taken.
fn model_put(model: &mut Model, number: usize, item: Item, is_new: bool) -> Poll<bool> {
    if model.is_shut_down {
        model.putters.leave(number);
        return Poll::Ready(false);
    }
    let may_put = if is_new {
        model.room() > model.putters.chosen.len()
    } else {
        model.putters.chosen.contains(&number)
    };
    if may_put && model.room() > 0 {
        model.putters.leave(number);
        model.put(item);
        return Poll::Ready(true);
    }
    if is_new || may_put {
        model.putters.stand_again(number);
    }
    Poll::Pending
}

fn same_get(polled: Poll<Got>, expected: Poll<Option<Item>>) -> Result<(), TestCaseError> {
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
    let (mut getters, mut putters, mut joiners) = (Crowd::new(), Crowd::new(), Crowd::new());
    let mut putting = std::collections::BTreeMap::new();
    let mut made = 0;
    for step in steps {
        match step {
            Step::Get => {
                let subject = Rc::clone(&queue);
                let (number, polled) = getters.add(async move { subject.get().await });
                same_get(polled, model_get(&mut model, number, true))?;
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
                } else if model.room() == 0 {
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
                same_get(polled, model_get(&mut model, number, false))?;
            }
            Step::PollPutter(index) => {
                let Some(number) = putters.pick(index) else { continue };
                let polled = putters.poll(number);
                prop_assert_eq!(polled, model_put(&mut model, number, putting[&number], false));
            }
            Step::GiveUpGetter(index) => {
                let Some(number) = getters.pick(index) else { continue };
                getters.give_up(number);
                model.getters.leave(number);
            }
            Step::GiveUpPutter(index) => {
                let Some(number) = putters.pick(index) else { continue };
                putters.give_up(number);
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
                    model.joiners.line.push(number);
                }
            }
            Step::GiveUpJoin(index) => {
                let Some(number) = joiners.pick(index) else { continue };
                let is_woken = joiners.woken().contains(&number);
                prop_assert_eq!(joiners.poll(number).is_ready(), is_woken);
                joiners.give_up(number);
                model.joiners.leave(number);
            }
            Step::ShutDown(immediate) => {
                queue.shutdown(immediate);
                model.is_shut_down = true;
                model.getters.choose_all();
                model.putters.choose_all();
                if immediate {
                    model.unfinished = model.unfinished.saturating_sub(model.items.len());
                    model.items.clear();
                }
            }
        }
        model.settle();
        prop_assert_eq!(getters.woken(), sorted(model.getters.chosen.iter().copied()));
        prop_assert_eq!(putters.woken(), sorted(model.putters.chosen.iter().copied()));
        prop_assert_eq!(joiners.woken(), sorted(model.joiners.chosen.iter().copied()));
        prop_assert_eq!(queue.qsize(), model.items.len());
        prop_assert_eq!(queue.full(), model.room() == 0);
    }
    // All that is left comes out, in order.
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
    fn a_priority_queue_hands_out_the_least_that_came_first(maxsize in 0..4usize, steps in steps()) {
        check::<LeastFirst<Item>>(least, maxsize, steps)?;
    }
}
