//! A periodic job with priorities: a control loop with a fixed period, requests, and cleanup that runs when the loop has
//! no other work. Ends after half a second, or on Ctrl-C.
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

        // This task runs before other ready tasks. Missed ticks are skipped.
        let control = TaskBuilder::new().name("control").lane(Lane::Urgent).spawn(async {
            let mut ticks = interval(Duration::from_millis(50));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            for tick in 0..10 {
                let due = ticks.tick().await;
                println!("tick {tick}, {:?} late", now() - due);
            }
        });

        let served = Rc::clone(&requests);
        spawn(async move {
            loop {
                served.set(served.get() + 1);
                sleep(Duration::from_millis(3)).await;
            }
        });

        TaskBuilder::new().name("cleanup").lane(Lane::Background).spawn(async move {
            loop {
                after(Duration::from_millis(100)).await;
                println!("cleanup: {} requests since the last one", requests.take());
            }
        });

        if let Err(error) = control.await {
            eprintln!("the control loop stopped: {error}");
        }
    });
    match ended {
        // Ctrl-C is a normal exit.
        Err(Error::Interrupted) => Ok(()),
        ended => ended,
    }
}
