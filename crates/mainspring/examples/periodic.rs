//! A periodic job with priorities: a control loop that keeps its beat, requests that take what time they need, and
//! tidying up that waits until there is nothing else to do. Ends after half a second, or at Ctrl-C.
//!
//! `cargo run --example periodic`

use mainspring::time::{MissedTickBehavior, after, interval, now};
use mainspring::{Error, Lane, Runner, TaskBuilder, sleep, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn main() -> Result<(), Error> {
    let mut runner = Runner::new()
        .cancel_on_interrupt(true)
        .configure(|builder| builder.io_first(true).max_overdue(Duration::from_millis(200)));
    let ended = runner.run(async {
        let requests = Rc::new(Cell::new(0));

        // Its steps go before whatever else is ready, and a beat that was missed is left out.
        let beat = TaskBuilder::new().name("beat").lane(Lane::Io).spawn(async {
            let mut ticks = interval(Duration::from_millis(50));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            for beat in 0..10 {
                let due = ticks.tick().await;
                println!("beat {beat}, {:?} late", now() - due);
            }
        });

        let served = Rc::clone(&requests);
        spawn(async move {
            loop {
                served.set(served.get() + 1);
                sleep(Duration::from_millis(3)).await;
            }
        });

        TaskBuilder::new().name("tidying").lane(Lane::Background).spawn(async move {
            loop {
                after(Duration::from_millis(100)).await;
                println!("nothing else to do: {} requests so far", requests.take());
            }
        });

        if let Err(error) = beat.await {
            eprintln!("the beat has stopped: {error}");
        }
    });
    match ended {
        // That is how one asks it to end.
        Err(Error::Interrupted) => Ok(()),
        ended => ended,
    }
}
