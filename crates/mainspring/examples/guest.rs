//! A loop inside another one: a game draws sixty frames per second, and tasks run between the frames.
//!
//! `cargo run --example guest`

use mainspring::{EventLoop, Guest, sleep};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

const FRAME: Duration = Duration::from_millis(16);

/// Waits until the descriptor is readable, at most until `deadline`.
fn wait_for(fd: RawFd, deadline: Instant, timeout: Option<Duration>) {
    let until_frame = deadline.saturating_duration_since(Instant::now());
    let timeout = timeout.map_or(until_frame, |timeout| timeout.min(until_frame));
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let millis = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
    // SAFETY: the pointer is to one structure.
    unsafe { libc::poll(&raw mut polled, 1, millis) };
}

fn run_tasks_until(guest: &Guest, deadline: Instant) -> Result<(), mainspring::Error> {
    while Instant::now() < deadline {
        wait_for(guest.as_raw_fd(), deadline, guest.next_timeout());
        guest.process_events(guest.poll_events(Some(Duration::ZERO))?)?;
        guest.process_ready()?;
    }
    Ok(())
}

fn main() -> Result<(), mainspring::Error> {
    let event_loop = EventLoop::new()?;
    let download = event_loop.spawn(async {
        for part in 1..=3 {
            sleep(Duration::from_millis(50)).await;
            println!("part {part} has arrived");
        }
    })?;
    let guest = event_loop.guest()?;
    let mut frames = 0;
    while !download.is_finished() {
        let next_frame = Instant::now() + FRAME;
        frames += 1; // draw()
        run_tasks_until(&guest, next_frame)?;
    }
    println!("{frames} frames");
    Ok(())
}
