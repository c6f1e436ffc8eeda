//! Failing allocations: the operation is refused, accepted data is not lost, and the loop continues afterwards.

use mainspring::net::TcpStream;
use mainspring::{EventLoop, Protocol, Transport};
use mainspring_engine::clock::Time;
use mainspring_engine::ready_queue::Lanes;
use mainspring_engine::timers::TimerQueue;
use mainspring_engine::transport::WriteQueue;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// The system allocator, which refuses blocks larger than this thread's limit.
struct Limited;

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn is_refused(size: usize) -> bool {
    LIMIT.try_with(Cell::get).is_ok_and(|limit| size > limit)
}

// SAFETY: forwards to the system allocator or refuses, which every allocator may.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees.
        if is_refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && is_refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's guarantees.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Runs `body` while this thread gets no block larger than `limit`.
fn with_limit<R>(limit: usize, body: impl FnOnce() -> R) -> R {
    let former = LIMIT.replace(limit);
    let result = body();
    LIMIT.set(former);
    result
}

/// A deterministic pseudo-random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn ready_lanes_refuse_an_item_and_keep_the_rest() {
    let mut lanes = Lanes::new();
    let mut pushed = 0;
    with_limit(1000, || {
        while lanes.try_reserve_normal(1) {
            lanes.push_normal(pushed);
            pushed += 1;
        }
    });
    assert!(pushed > 10);
    assert!(lanes.try_reserve_normal(1), "memory is available again");
    let mut pass = lanes.begin_iteration();
    let taken: Vec<_> = std::iter::from_fn(|| lanes.next(&mut pass, None, None)).collect();
    assert_eq!(taken, (0..pushed).collect::<Vec<_>>());
}

#[test]
fn background_items_that_cannot_be_promoted_stay() {
    let mut lanes = Lanes::new();
    // Two limits, so two queues.
    for number in 0..1000_u64 {
        let limit = (number % 2 == 0).then_some(std::time::Duration::from_nanos(1));
        lanes.try_push_background(number, Time::ZERO, limit).unwrap();
    }
    for limit in [0, 100, 1000, 10_000] {
        assert!(!with_limit(limit, || lanes.promote_if(|_| true)), "{limit} bytes are not enough");
    }
    assert_eq!(lanes.len(), 1000);
    assert!(lanes.promote_if(|_| true));
    let mut pass = lanes.begin_iteration();
    let mut taken: Vec<_> = std::iter::from_fn(|| lanes.next(&mut pass, None, None)).collect();
    assert_eq!(taken.len(), 1000);
    taken.sort_unstable();
    assert_eq!(taken, (0..1000).collect::<Vec<_>>(), "each item once");
}

#[test]
fn a_cancelled_background_task_ends_when_there_is_memory_again() {
    use mainspring::{Lane, yield_now};
    let (event_loop, _) = new_loop();
    let tasks: Vec<_> = (0..1000)
        .map(|_| event_loop.spawn_in(Lane::Background, std::future::pending::<()>()).unwrap())
        .collect();
    let ended = event_loop.run_until_complete(async {
        tasks.iter().for_each(|task| assert!(task.cancel()));
        LIMIT.set(1000);
        yield_now().await;
        LIMIT.set(usize::MAX);
        // The loop is never idle, so a call that stays in the background lane does not run.
        for _ in 0..3 {
            yield_now().await;
        }
        tasks.iter().filter(|task| task.cancelled()).count()
    });
    assert_eq!(ended.unwrap(), 1000);
}

#[test]
fn a_write_queue_refuses_a_chunk_and_keeps_the_rest() {
    let mut queue = WriteQueue::default();
    with_limit(1000, || {
        while queue.try_reserve(1) {
            queue.push("chunk", 0);
        }
    });
    assert!(queue.try_reserve(1));
    assert_eq!(queue.len(), queue.take().len() * 5);
}

/// Inserts, cancels and pops timers while allocations fail at times. A map records the expected order.
#[test]
fn timers_are_refused_or_fire_in_order() {
    for seed in 0..40 {
        let mut numbers = Random(seed);
        let mut timers = TimerQueue::new();
        let mut expected = BTreeMap::new();
        let mut keys = Vec::new();
        let mut now = 0;
        let mut refused = 0;
        for number in 0..4000_u64 {
            let limit = if numbers.below(3) == 0 { 0 } else { usize::MAX };
            match numbers.below(8) {
                0..5 => {
                    // From milliseconds to hours ahead.
                    let when = now + (1 << (18 + numbers.below(24))) + numbers.below(1 << 20);
                    match with_limit(limit, || timers.try_insert(Time::from_nanos(when), number)) {
                        Ok(key) => {
                            expected.insert((when, number), ());
                            keys.push((key, when, number));
                        }
                        Err(item) => {
                            assert_eq!(item, number);
                            refused += 1;
                        }
                    }
                }
                5 if !keys.is_empty() => {
                    let (key, when, number) = keys.swap_remove(numbers.below(keys.len() as u64) as usize);
                    let cancelled = with_limit(limit, || timers.cancel(key));
                    let was_there = expected.remove(&(when, number)).is_some();
                    assert_eq!(cancelled, was_there.then_some(number));
                }
                _ => {
                    now += 1 << (16 + numbers.below(18));
                    with_limit(limit, || timers.next_wakeup());
                    while let Some(item) = with_limit(limit, || timers.pop_due(Time::from_nanos(now))) {
                        let ((when, number), ()) = expected.pop_first().unwrap();
                        assert_eq!(item, number);
                        assert!(when <= now);
                    }
                    if limit > 0 {
                        assert!(expected.first_key_value().is_none_or(|(&(when, _), ())| when > now));
                    }
                }
            }
            assert_eq!(timers.len(), expected.len());
        }
        assert!(refused > 0, "seed {seed}");
        while let Some(when) = timers.next_wakeup() {
            while let Some(item) = timers.pop_due(when) {
                assert_eq!(Some(item), expected.pop_first().map(|((_, number), ())| number));
            }
        }
        assert!(expected.is_empty());
    }
}

const MIB: usize = 1 << 20;

fn new_loop() -> (EventLoop, Rc<RefCell<Vec<String>>>) {
    let event_loop = EventLoop::new().unwrap();
    let reports = Rc::new(RefCell::new(Vec::new()));
    let collected = Rc::clone(&reports);
    event_loop.set_exception_handler(move |context| collected.borrow_mut().push(context.to_string()));
    (event_loop, reports)
}

#[test]
fn a_stream_that_cannot_buffer_received_data_ends_with_an_error() {
    struct WritesOnConnect;
    impl Protocol for WritesOnConnect {
        fn connection_made(&self, transport: &Transport) {
            transport.write(&vec![0; 8 * MIB]);
        }
    }
    let (event_loop, _) = new_loop();
    let outcome = event_loop.run_until_complete(async {
        let server = EventLoop::current().create_server("127.0.0.1:0", 10, || WritesOnConnect).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        let (reader, _writer) = stream.split();
        // Once data is buffered, the loop and the sender need no further allocation.
        while reader.buffered() == 0 {
            mainspring::sleep(std::time::Duration::ZERO).await;
        }
        LIMIT.set(300_000);
        let outcome = reader.read_to_end().await;
        LIMIT.set(usize::MAX);
        server.close();
        outcome
    });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
}

#[test]
fn a_write_that_cannot_be_buffered_fails_and_the_loop_continues() {
    let (event_loop, reports) = new_loop();
    event_loop
        .run_until_complete(async {
            let event_loop = EventLoop::current();
            struct Silent;
            impl Protocol for Silent {
                fn connection_made(&self, transport: &Transport) {
                    transport.pause_reading();
                }
            }
            let server = event_loop.create_server("127.0.0.1:0", 10, || Silent).await.unwrap();
            let (transport, _) = event_loop.create_connection(server.local_addr(), || Silent).await.unwrap();
            let large = vec![0; 64 * MIB];
            with_limit(MIB, || transport.write(&large));
            assert!(transport.is_closing(), "part of the data was already sent");
            // Other connections are not affected.
            let stream = TcpStream::connect(server.local_addr()).await.unwrap();
            stream.write_all(b"small").await.unwrap();
            server.close();
        })
        .unwrap();
    assert!(reports.borrow().iter().all(|report| !report.contains("panic")), "{:?}", reports.borrow());
}

#[test]
fn reading_a_file_without_memory_fails_and_keeps_the_data_read() {
    let (event_loop, _) = new_loop();
    let path = std::env::temp_dir().join(format!("mainspring-out-of-memory-{}", std::process::id()));
    std::fs::write(&path, vec![7; 4 * MIB]).unwrap();
    let outcome = event_loop.run_until_complete(async {
        let mut all = Vec::new();
        let mut file = mainspring::fs::File::open(&path).await?;
        LIMIT.set(MIB);
        let outcome = file.read_to_end(&mut all).await;
        LIMIT.set(usize::MAX);
        assert!(!all.is_empty() && all.iter().all(|&byte| byte == 7));
        let all_of_it = mainspring::fs::read(&path).await?;
        assert_eq!(all_of_it.len(), 4 * MIB);
        outcome
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(outcome.unwrap().unwrap_err().kind(), io::ErrorKind::OutOfMemory);
}
