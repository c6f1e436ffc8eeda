//! Ctrl-C while a `Runner` runs a future. Signals belong to the whole process, so this file has one test.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::{Error, Runner, sleep, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn press_ctrl_c() {
    // SAFETY: `raise` accepts any number, and this signal is caught.
    assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
}

struct DropCounter(Rc<Cell<u32>>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn ctrl_c_cancels_the_running_future_and_the_runner_cleans_up() {
    let dropped = Rc::new(Cell::new(0));
    let (main, left) = (DropCounter(Rc::clone(&dropped)), DropCounter(Rc::clone(&dropped)));
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
    assert_eq!(dropped.get(), 1, "the future is dropped, the runner is not");
    // The next run is not interrupted by the earlier signal, but can be interrupted itself.
    assert_eq!(runner.run(async { 1 }).unwrap(), 1);
    let again = runner.run(async {
        press_ctrl_c();
        std::future::pending::<()>().await;
    });
    assert!(matches!(again, Err(Error::Interrupted)));
    // A future that completes in the same iteration completes despite the signal.
    let done = runner.run(async {
        press_ctrl_c();
        2
    });
    assert_eq!(done.unwrap(), 2);
    drop(runner);
    assert_eq!(dropped.get(), 2);
    // The original disposition is restored: no handler is left.
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only reads the action, into a buffer for one action that the call fills on success.
    let action = unsafe {
        assert_eq!(libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()), 0);
        action.assume_init()
    };
    assert!(matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN));
}
