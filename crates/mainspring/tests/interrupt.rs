//! Ctrl-C and the future that a `Runner` runs. The signal is the whole process's, so this file has one test.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::{Error, Runner, sleep, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn press_ctrl_c() {
    // SAFETY: `raise` takes any number, and this one is caught.
    assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
}

struct Noted(Rc<Cell<u32>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn ctrl_c_ends_the_future_that_runs_and_the_runner_winds_up() {
    let dropped = Rc::new(Cell::new(0));
    let (main, left) = (Noted(Rc::clone(&dropped)), Noted(Rc::clone(&dropped)));
    let mut runner = Runner::new().cancel_on_interrupt(true);
    let interrupted = runner.run(async move {
        spawn(async move {
            let _left = left;
            sleep(Duration::from_secs(3600)).await;
        });
        let _main = main;
        sleep(Duration::ZERO).await;
        press_ctrl_c();
        sleep(Duration::from_secs(3600)).await;
    });
    assert!(matches!(interrupted, Err(Error::Interrupted)));
    assert_eq!(dropped.get(), 1, "the future is gone, the rest is still there");
    // The next run is not interrupted by what happened before, and can be itself.
    assert_eq!(runner.run(async { 1 }).unwrap(), 1);
    let again = runner.run(async {
        press_ctrl_c();
        std::future::pending::<()>().await;
    });
    assert!(matches!(again, Err(Error::Interrupted)));
    // One that is done at once is done, interrupted or not.
    let done = runner.run(async {
        press_ctrl_c();
        2
    });
    assert_eq!(done.unwrap(), 2);
    drop(runner);
    assert_eq!(dropped.get(), 2);
    // The signal does again what it did before: nothing here has a handler any more.
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only, into room for one action, which is filled in when the call succeeds.
    let action = unsafe {
        assert_eq!(libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()), 0);
        action.assume_init()
    };
    assert!(matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN));
}
