//! Reaps children whose loop was closed, so that they do not stay zombies.
//!
//! Usually the loop reaps its children. This module takes those that outlive it. One thread per child, with a small
//! stack, blocks until the child exits.

use mainspring_engine::child::ChildWatch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::sync::{Mutex, PoisonError};
use std::thread;

const STACK_BYTES: usize = 64 * 1024;

/// Children for which no thread could be started. The next call retries them.
static ORPHANS: Mutex<Vec<ChildWatch>> = Mutex::new(Vec::new());

/// Reaps `child` in the background and discards its status.
pub(super) fn adopt(child: ChildWatch) {
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.push(child);
    let children = std::mem::take(&mut *orphans);
    for child in children {
        // An error means that there is nothing to reap.
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
        // Without a thread the child stays in the list.
        drop(started);
    }
}

fn reap(child: &ChildWatch) {
    while matches!(child.try_wait(), Ok(None)) {
        // The pidfd is readable once the child has exited. `poll` fails only for lack of memory, so retry.
        if retry_on_intr(|| poll(&mut [PollFd::new(child, PollFlags::IN)], None)).is_err() {
            thread::yield_now();
        }
    }
}
