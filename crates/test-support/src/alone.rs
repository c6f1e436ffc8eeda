//! Tests that run alone in their process, under a watchdog.

use crate::leak_check::{for_good, open_descriptors};
use std::io::Write;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// What does not happen in so long does not happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a test panics with on purpose.
pub const DELIBERATE: &str = "deliberate";

static CURRENT: Mutex<String> = Mutex::new(String::new());

/// Says what is going on, for the watchdog.
pub fn now_testing(what: &str) {
    for_good(|| what.clone_into(&mut CURRENT.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Runs `test` alone in this process, ends it if it hangs, and checks that it leaves no descriptor open.
pub fn guarded(test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    quiet_deliberate_panics();
    now_testing("");
    let watchdog = watchdog(thread::current().name().unwrap_or("a test"));
    let before = open_descriptors();
    test();
    assert_eq!(open_descriptors(), before, "descriptors are not what they were before");
    drop(watchdog);
}

/// Ends the process unless its answer is dropped in time.
fn watchdog(test: &str) -> Sender<()> {
    let test = test.to_owned();
    let (alive, dog) = mpsc::channel::<()>();
    thread::spawn(move || {
        if dog.recv_timeout(4 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            // Not `eprintln`, which the test harness keeps for a test that ends.
            let _ = writeln!(std::io::stderr(), "{test} hangs: {current}");
            std::process::abort();
        }
    });
    alive
}

fn quiet_deliberate_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        let quiet = move |info: &panic::PanicHookInfo<'_>| {
            if info.payload().downcast_ref::<&str>() != Some(&DELIBERATE) {
                usual(info);
            }
        };
        panic::set_hook(for_good(|| Box::new(quiet)));
    });
}
