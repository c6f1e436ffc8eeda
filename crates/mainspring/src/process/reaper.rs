//! Children that nobody waits for any more: each is waited for here, so that none stays a zombie.
//!
//! A child is usually reaped by its loop. It comes here when the loop was closed before it ended. A thread per child
//! blocks until then; it has little stack, and ends with the child.

use mainspring_engine::child::ChildWatch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::sync::{Mutex, PoisonError};
use std::thread;

const STACK_BYTES: usize = 64 * 1024;

/// Children that the system gave no thread for. They wait for the next one that comes.
static ORPHANS: Mutex<Vec<ChildWatch>> = Mutex::new(Vec::new());

/// Waits for `child` somewhere else, and says nothing of its end.
pub(super) fn adopt(child: ChildWatch) {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.push(child);
    let children = std::mem::take(&mut *orphans);
    for child in children {
        // An error says that there is nothing to wait for.
        if !matches!(child.try_wait(), Ok(None)) {
            continue;
        }
        orphans.push(child);
        let name = "orphan".to_owned();
        let started = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(|| {
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = orphans.pop();
            orphans.shrink_to_fit();
            drop(orphans);
            if let Some(child) = taken {
                reap(&child);
            }
        });
        // Without a thread it stays where it is.
        drop(started);
    }
}

fn reap(child: &ChildWatch) {
    while matches!(child.try_wait(), Ok(None)) {
        // Readable when the child has ended. The kernel refuses this for want of memory only, which passes.
        if retry_on_intr(|| poll(&mut [PollFd::new(child, PollFlags::IN)], None)).is_err() {
            thread::yield_now();
        }
    }
}
