//! Queues as programs use them.

use crate::support::{pending, run, run_iterations};
use mainspring::sync::{GetError, PriorityQueue, Queue, QueueShutDown};
use mainspring::{spawn, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

#[test]
fn workers_share_the_items_and_join_waits_for_them() {
    run(async {
        let queue = Rc::new(Queue::new(3));
        let done = Rc::new(RefCell::new(Vec::new()));
        let workers = [(); 3].map(|()| {
            let (queue, done) = (queue.clone(), done.clone());
            spawn(async move {
                while let Ok(number) = queue.get().await {
                    run_iterations(number % 3).await;
                    done.borrow_mut().push(number);
                    queue.task_done().unwrap();
                }
            })
        });
        for number in 0..20usize {
            queue.put(number).await.unwrap();
        }
        queue.join().await;
        done.borrow_mut().sort_unstable();
        assert_eq!(*done.borrow(), Vec::from_iter(0..20));
        queue.shutdown(false);
        for worker in workers {
            worker.await.unwrap();
        }
    });
}

#[test]
fn a_get_that_times_out_takes_nothing() {
    run(async {
        let queue = Rc::new(Queue::new(0));
        let other = queue.clone();
        let task = spawn(async move {
            for _ in 0..100 {
                let _ = timeout(Duration::from_nanos(1), other.get()).await.map(|got| assert_eq!(got, Ok(1)));
                if other.get_nowait().is_ok() {
                    return;
                }
            }
        });
        run_iterations(5).await;
        queue.put(1).await.unwrap();
        queue.put(2).await.unwrap();
        task.await.unwrap();
        assert_eq!(queue.qsize(), 0);
    });
}

#[test]
fn a_getter_whose_item_was_taken_keeps_its_place() {
    let queue = Rc::new(Queue::new(0));
    let get = |queue: &Rc<Queue<i32>>| {
        let queue = queue.clone();
        async move { queue.get().await }
    };
    let [mut first, mut second, mut third] = [(); 3].map(|()| pending(get(&queue)));
    for number in 0..3 {
        queue.put_nowait(number).unwrap();
    }
    while queue.get_nowait().is_ok() {}
    // Polling them in another order does not change their places.
    assert!(second.poll().is_pending() && third.poll().is_pending() && first.poll().is_pending());
    queue.put_nowait(3).unwrap();
    assert!(first.is_woken() && !second.is_woken());
    assert_eq!(first.poll(), Poll::Ready(Ok(3)));
    queue.put_nowait(4).unwrap();
    assert!(second.is_woken() && !third.is_woken());
}

#[test]
fn a_newcomer_does_not_take_an_item_assigned_to_a_waiter() {
    let queue = Rc::new(Queue::new(1));
    let (one, two) = (queue.clone(), queue.clone());
    let mut first = pending(async move { one.get().await });
    queue.put_nowait('a').unwrap();
    let mut late = pending(async move { two.get().await });
    assert_eq!(first.poll(), Poll::Ready(Ok('a')));
    assert!(late.poll().is_pending());
}

#[test]
fn a_shut_down_queue_is_drained_and_then_refuses() {
    run(async {
        let queue = Rc::new(Queue::new(1));
        queue.put(1).await.unwrap();
        let other = queue.clone();
        let putter = spawn(async move { other.put(2).await });
        run_iterations(1).await;
        queue.shutdown(false);
        assert_eq!(putter.await.unwrap(), Err(QueueShutDown(2)));
        assert_eq!(queue.put(3).await, Err(QueueShutDown(3)));
        assert_eq!(queue.get().await, Ok(1));
        assert_eq!(queue.get().await, Err(QueueShutDown(())));
        assert_eq!(queue.get_nowait(), Err(GetError::ShutDown));
    });
}

#[test]
fn an_immediate_shutdown_drops_the_items_and_ends_join() {
    run(async {
        let queue = Rc::new(Queue::new(0));
        let item = Rc::new(());
        queue.put(item.clone()).await.unwrap();
        let other = queue.clone();
        let joiner = spawn(async move { other.join().await });
        run_iterations(1).await;
        queue.shutdown(true);
        joiner.await.unwrap();
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

#[test]
fn a_priority_queue_chooses_the_item_at_get_time() {
    let queue = Rc::new(PriorityQueue::new(0));
    let other = queue.clone();
    let mut getter = pending(async move { other.get().await });
    queue.put_nowait((5, "later")).unwrap();
    queue.put_nowait((1, "first")).unwrap();
    assert_eq!(getter.poll(), Poll::Ready(Ok((1, "first"))));
}

#[test]
fn debug_shows_the_state_of_a_queue() {
    let queue: Queue<u8> = Queue::default();
    queue.put_nowait(1).unwrap();
    let shown = "Queue { maxsize: 0, items: 1, getting: 0, putting: 0, unfinished: 1, shut_down: false, .. }";
    assert_eq!(format!("{queue:?}"), shown);
}
