//! Tests that run one at a time, under a watchdog.

use crate::leak_check::{open_fds, untracked};
use std::io::Write;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// Time limit for a condition to become true.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The payload of deliberate panics.
pub const DELIBERATE: &str = "deliberate";

static CURRENT: Mutex<String> = Mutex::new(String::new());

/// Names the current step for the watchdog.
pub fn now_testing(what: &str) {
    untracked(|| what.clone_into(&mut CURRENT.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Runs `test` while no other isolated test runs, aborts the process if it hangs, and checks that it leaves no fd open.
pub fn isolated(test: impl FnOnce()) {
    static SERIAL: Mutex<()> = Mutex::new(());
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    silence_deliberate_panics();
    now_testing("");
    let watchdog = watchdog(thread::current().name().unwrap_or("a test"));
    let before = open_fds();
    test();
    assert_eq!(open_fds(), before, "the test changed the set of open fds");
    drop(watchdog);
}

/// Aborts the process unless the returned sender is dropped in time.
pub fn watchdog(test: &str) -> Sender<()> {
    let test = test.to_owned();
    let (alive, is_dropped) = mpsc::channel::<()>();
    thread::spawn(move || {
        if is_dropped.recv_timeout(4 * TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            // Not `eprintln`: the test harness captures its output and prints it only when a test ends.
            let _ = writeln!(std::io::stderr(), "{test} hangs: {current}");
            std::process::abort();
        }
    });
    alive
}

fn silence_deliberate_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = panic::take_hook();
        let hook = move |info: &panic::PanicHookInfo<'_>| {
            if info.payload().downcast_ref::<&str>() != Some(&DELIBERATE) {
                default_hook(info);
            }
        };
        panic::set_hook(untracked(|| Box::new(hook)));
    });
}
