//! A retry helper whose timeout races with the answer, and `testing::explore`, which finds the seed.

use mainspring::sync::mpsc::{self, Receiver, UnboundedSender};
use mainspring::sync::oneshot;
use mainspring::testing::{self, Options};
use mainspring::time::{interval_at, now};
use mainspring::{spawn, timeout};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct Request {
    id: u64,
    done: oneshot::Sender<()>,
}

/// Applies all waiting requests once per second. A server that knows the ids of its requests applies none twice.
async fn serve(mut requests: Receiver<Request>, applied: Rc<RefCell<Vec<u64>>>, knows_ids: bool) {
    let mut ticks = interval_at(now() + SECOND, SECOND);
    let mut seen = BTreeSet::new();
    loop {
        ticks.tick().await;
        while let Ok(Request { id, done }) = requests.try_recv() {
            if seen.insert(id) || !knows_ids {
                applied.borrow_mut().push(id);
            }
            let _ = done.send(());
        }
    }
}

/// Sends a request until it is answered within a second.
async fn retry(requests: &UnboundedSender<Request>, id: u64) {
    loop {
        let (done, answer) = oneshot::channel();
        assert!(requests.send(Request { id, done }).is_ok());
        if let Ok(Ok(())) = timeout(SECOND, answer).await {
            return;
        }
    }
}

async fn one_request(knows_ids: bool) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let applied = Rc::new(RefCell::new(Vec::new()));
    let server = spawn(serve(receiver, Rc::clone(&applied), knows_ids));
    // The server waits for its first tick.
    mainspring::yield_now().await;
    mainspring::yield_now().await;
    retry(&sender, 7).await;
    mainspring::sleep(5 * SECOND).await;
    server.cancel();
    assert_eq!(*applied.borrow(), [7], "applied more than once");
}

#[test]
fn the_order_of_asyncio_does_not_show_the_race() {
    testing::run(one_request(false)).unwrap();
}

#[test]
fn exploring_finds_the_retry_that_is_applied_twice() {
    let error = testing::explore(0..1000, || one_request(false)).unwrap_err();
    assert!(error.to_string().contains("applied more than once"), "{error}");
    let replayed = error.options().explore([error.seed()], || one_request(false));
    assert_eq!(replayed.unwrap_err().to_string(), error.to_string());
}

#[test]
fn a_server_that_knows_the_ids_passes_in_every_order() {
    testing::explore(0..1000, || one_request(true)).unwrap();
    Options::new().shuffle_ready(true).explore(0..1000, || one_request(true)).unwrap();
}
