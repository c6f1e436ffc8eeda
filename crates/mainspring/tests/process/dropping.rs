//! Dropped processes, and loops that are closed while processes run.

use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on, run_one_iteration};
use crate::{assert_is_reaped, endless, is_our_child};
use mainspring::process::{Command, Stdio};
use mainspring::{EventLoop, select, sleep, spawn, yield_now};
use std::time::Duration;

/// Runs the loop until no fd is registered.
async fn wait_until_nothing_is_registered(event_loop: &EventLoop) {
    while event_loop.metrics().descriptors > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn kill_on_drop_kills_and_reaps_the_process() {
    on_every_backend(|event_loop: EventLoop| async move {
        let child = endless().kill_on_drop(true).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.pid();
        drop(child);
        wait_until_nothing_is_registered(&event_loop).await;
        assert!(!is_our_child(pid));
    });
}

#[test]
fn a_dropped_process_keeps_running_and_is_reaped_when_it_exits() {
    on_every_backend(|event_loop: EventLoop| async move {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (pid, stdin, stdout) = (child.pid(), child.stdin.take().unwrap(), child.stdout.take().unwrap());
        drop(child);
        stdin.write_all(b"still there\n").await.unwrap();
        assert_eq!(stdout.read_line().await.unwrap(), b"still there\n");
        drop((stdin, stdout));
        wait_until_nothing_is_registered(&event_loop).await;
        assert!(!is_our_child(pid));
    });
}

#[test]
fn kill_on_drop_ignores_an_exited_process() {
    on_every_backend(|_| async {
        let child = Command::new("true").kill_on_drop(true).spawn().unwrap();
        child.wait().await.unwrap();
        drop(child);
    });
}

#[test]
fn a_cancelled_task_kills_its_kill_on_drop_process() {
    on_every_backend(|event_loop: EventLoop| async move {
        let pid = event_loop.create_future();
        let pid_future = pid.clone();
        let waiting = spawn(async move {
            let child = endless().kill_on_drop(true).spawn().unwrap();
            pid_future.set_result(child.pid()).unwrap();
            child.wait().await
        });
        let pid = pid.await.unwrap();
        assert!(waiting.cancel());
        assert!(waiting.await.unwrap_err().is_cancelled());
        wait_until_nothing_is_registered(&event_loop).await;
        assert!(!is_our_child(pid));
    });
}

#[test]
fn a_cancelled_output_kills_its_kill_on_drop_process() {
    on_every_backend(|event_loop: EventLoop| async move {
        drop(endless().kill_on_drop(true).output());
        drop(endless().kill_on_drop(true).status());
        wait_until_nothing_is_registered(&event_loop).await;
    });
}

#[test]
fn a_cancelled_wait_with_output_drops_its_process() {
    on_every_backend(|event_loop: EventLoop| async move {
        for kill_on_drop in [true, false] {
            let mut cat = Command::new("cat");
            let child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(kill_on_drop);
            let child = child.spawn().unwrap();
            let pid = child.pid();
            // Cancelled after it has closed the input, which ends the other process.
            drop(select(child.wait_with_output(), yield_now()).await);
            wait_until_nothing_is_registered(&event_loop).await;
            assert!(!is_our_child(pid));
        }
    });
}

#[test]
fn closing_the_loop_before_the_process_exits_leaves_no_zombie() {
    for kill_on_drop in [true, false] {
        let event_loop = new_loop();
        let [held, dropped, in_task] = run_on(&event_loop, async move {
            [(); 3].map(|()| endless().kill_on_drop(kill_on_drop).spawn().unwrap())
        });
        let pids = [held.pid(), dropped.pid(), in_task.pid()];
        let waiting = event_loop.spawn(async move { in_task.wait().await }).unwrap();
        run_one_iteration(&event_loop);
        drop(dropped);
        event_loop.close().unwrap();
        drop((waiting, held));
        for pid in pids {
            if !kill_on_drop {
                assert!(is_our_child(pid), "the process is still running");
                let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            assert_is_reaped(pid);
        }
    }
}

#[test]
fn the_end_of_run_leaves_no_zombie() {
    let pid = mainspring::run(async { endless().kill_on_drop(true).spawn().unwrap().pid() }).unwrap();
    assert_is_reaped(pid);
}

#[test]
fn an_exited_process_is_unregistered() {
    let event_loop = new_loop();
    let opened = run_on(&event_loop, async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let watched = mainspring::EventLoop::current().metrics().descriptors;
        drop(child.stdin.take());
        child.wait().await.unwrap();
        watched
    });
    assert!(opened >= 1);
    assert_leaves_nothing(&event_loop);
}
