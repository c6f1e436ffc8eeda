//! `wait`, `try_wait`, `status`.

use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on, run_one_iteration};
use crate::{endless, is_our_child, wait_for_zombie};
use mainspring::process::Command;
use mainspring::{Error, EventLoop, spawn};
use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

#[test]
fn wait_returns_the_exit_status() {
    on_every_backend(|_| async {
        for code in [0, 3, 255] {
            let child = Command::shell(format!("exit {code}")).spawn().unwrap();
            let status = child.wait().await.unwrap();
            assert_eq!(status.code(), Some(code));
            assert_eq!(child.returncode(), Some(code));
            // Repeated calls, and `try_wait`, return the same status.
            assert_eq!(child.wait().await.unwrap(), status);
            assert_eq!(child.try_wait().unwrap(), Some(status));
            assert!(!is_our_child(child.pid()));
        }
    });
}

#[test]
fn wait_returns_the_signal_number() {
    on_every_backend(|_| async {
        let child = Command::shell("kill -ABRT $$").spawn().unwrap();
        let status = child.wait().await.unwrap();
        assert_eq!((status.signal(), status.code()), (Some(6), None));
        assert_eq!(child.returncode(), Some(-6));
    });
}

#[test]
fn several_tasks_can_wait_for_one_process() {
    on_every_backend(|_| async {
        let child = Rc::new(endless().spawn().unwrap());
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let child = Rc::clone(&child);
                spawn(async move { child.wait().await.unwrap() })
            })
            .collect();
        child.start_kill().unwrap();
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().signal(), Some(9));
        }
    });
}

#[test]
fn a_cancelled_wait_loses_nothing() {
    on_every_backend(|_| async {
        let child = endless().spawn().unwrap();
        {
            let mut waiting = pin!(child.wait());
            poll_fn(|cx| {
                assert!(waiting.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        child.kill().await.unwrap();
        assert_eq!(child.returncode(), Some(-9));
    });
}

#[test]
fn a_process_that_exited_before_wait_is_seen() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let child = Command::shell("exit 4").spawn().unwrap();
        wait_for_zombie(&child);
        assert_eq!(child.id(), Some(child.pid()));
        assert_eq!(child.wait().await.unwrap().code(), Some(4));
        assert_eq!(child.id(), None);
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn try_wait_completes_every_waiter() {
    let event_loop = new_loop();
    let child = Rc::new(run_on(&event_loop, async { endless().spawn().unwrap() }));
    let waiter = Rc::clone(&child);
    let waiting = event_loop.spawn(async move { waiter.wait().await.unwrap().signal() }).unwrap();
    run_one_iteration(&event_loop);
    child.start_kill().unwrap();
    wait_for_zombie(&child);
    assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    assert_eq!(run_on(&event_loop, waiting), Ok(Some(9)));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn try_wait_returns_none_while_the_process_runs() {
    on_every_backend(|_| async {
        let child = endless().spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(child.returncode(), None);
        child.kill().await.unwrap();
        assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    });
}

#[test]
fn a_process_reaped_elsewhere_is_an_error_for_every_waiter() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let child = Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.pid().try_into().unwrap());
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
        for _ in 0..2 {
            assert_eq!(child.wait().await.unwrap_err().raw_os_error(), Some(libc::ECHILD));
            assert_eq!(child.try_wait().unwrap_err().raw_os_error(), Some(libc::ECHILD));
        }
        assert_eq!(child.returncode(), Some(255));
        child.start_kill().unwrap();
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn children_spawned_elsewhere_are_not_reaped() {
    on_every_backend(|_| async {
        let mut other = std::process::Command::new("false").spawn().unwrap();
        assert!(Command::new("true").status().await.unwrap().success());
        assert!(!other.wait().unwrap().success());
    });
}

#[test]
fn a_missing_program_is_an_error_and_leaves_nothing() {
    on_every_backend(|_| async {
        for _ in 0..2 {
            let error = Command::new("/there/is/no/such/program").spawn().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            assert!(Command::new("/there/is/no/such/program").status().await.is_err());
        }
    });
}

#[test]
fn spawn_without_a_loop_is_an_error() {
    assert!(Command::new("true").spawn().is_err());
}

#[test]
fn wait_on_a_closed_loop_fails_and_try_wait_works() {
    let (closed, other) = (new_loop(), new_loop());
    let child = Rc::new(run_on(&closed, async { endless().spawn().unwrap() }));
    let waiter = Rc::clone(&child);
    let waiting = other.spawn(async move { waiter.wait().await }).unwrap();
    run_one_iteration(&other);
    closed.close().unwrap();
    let refused = run_on(&other, waiting).unwrap().unwrap_err();
    assert_eq!(refused.to_string(), Error::Closed.to_string());
    assert_eq!(child.try_wait().unwrap(), None);
    child.start_kill().unwrap();
    wait_for_zombie(&child);
    assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    assert!(!is_our_child(child.pid()));
}

#[test]
fn a_loop_is_not_idle_while_a_process_runs() {
    let event_loop = new_loop();
    let waiting =
        event_loop.spawn(async { Command::shell("exit 6").status().await.unwrap().code() }).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(run_on(&event_loop, waiting).unwrap(), Some(6));
}

#[test]
fn two_hundred_processes_can_run_at_once() {
    on_every_backend(|event_loop: EventLoop| async move {
        let children: Vec<_> = (0..200)
            .map(|number| Command::shell(format!("exit {}", number % 256)).spawn().unwrap())
            .collect();
        let running: Vec<_> = (0..200).map(|_| endless().spawn().unwrap()).collect();
        for (number, child) in children.iter().enumerate() {
            assert_eq!(child.wait().await.unwrap().code(), Some(number as i32 % 256));
        }
        for child in &running {
            child.start_kill().unwrap();
        }
        for child in &running {
            assert_eq!(child.wait().await.unwrap().signal(), Some(9));
        }
        assert!(!children.iter().chain(&running).any(|child| is_our_child(child.pid())));
        assert_eq!(event_loop.metrics().descriptors, 0);
    });
}
