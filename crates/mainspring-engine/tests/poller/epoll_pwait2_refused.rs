//! A kernel or seccomp profile that refuses `epoll_pwait2`: the back end still opens and waits.
//!
//! The epoll_pwait2_refused is real: a seccomp filter on a separate thread, because a thread cannot remove its filter.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use mainspring_engine::poller::{Interest, Readiness, open_epoll};

use crate::support::{KEY, Rig, event, readable};

/// Makes every `epoll_pwait2` of this thread fail with `errno` from now on.
fn refuse_epoll_pwait2(errno: libc::c_int) -> io::Result<()> {
    let number_of_call = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let statement = |code, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, number_of_call),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_epoll_pwait2 as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: both calls affect only this thread. The kernel copies the filter, which lives until they return.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn assert_waits_when_refused_with(errno: libc::c_int) {
    let refused = thread::spawn(move || {
        if let Err(error) = refuse_epoll_pwait2(errno) {
            eprintln!("skipped: this machine has no seccomp filters ({error})");
            return;
        }
        let mut rig = Rig::new(open_epoll().unwrap());
        let timeout = Duration::from_micros(100);
        let begin = Instant::now();
        rig.parker.park(Some(timeout), usize::MAX, &mut Vec::new()).unwrap();
        assert!(begin.elapsed() >= timeout);

        let fd = readable();
        rig.register(&fd, Interest::READ);
        assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
    });
    refused.join().unwrap();
}

#[test]
fn a_kernel_without_epoll_pwait2_falls_back_to_milliseconds() {
    assert_waits_when_refused_with(libc::ENOSYS);
}

#[test]
fn a_seccomp_profile_without_epoll_pwait2_falls_back_to_milliseconds() {
    assert_waits_when_refused_with(libc::EPERM);
}
