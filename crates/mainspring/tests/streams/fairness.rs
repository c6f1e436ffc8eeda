//! A stream that is always readable does not starve other tasks.

use mainspring::net::UnixStream;
use mainspring::testing::VirtualClock;
use mainspring::{Builder, spawn, yield_now};
use mainspring_engine::poller::{Backend, Interest, Key, Poller, open_epoll};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use test_support::isolated;

/// A back end whose `recv` always fills the buffer.
struct Endless(Box<dyn Poller>);

impl Poller for Endless {
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()> {
        self.0.update(fd, key, old, new)
    }

    fn recv(&mut self, _: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

#[test]
fn a_peer_that_sends_endlessly_does_not_starve_other_tasks() {
    isolated(|| {
        let Backend { poller, parker } = open_epoll().unwrap();
        let backend = Backend { poller: Box::new(Endless(poller)), parker };
        let event_loop = Builder::new().clock(VirtualClock::default()).backend(backend).build().unwrap();
        event_loop
            .run_until_complete(async {
                let (near, far) = UnixStream::pair().unwrap();
                let reading = spawn(async move {
                    let mut buffer = vec![0; 1024];
                    while near.read(&mut buffer).await.is_ok() {}
                });
                far.write_all(b"x").await.unwrap();
                for _ in 0..100 {
                    yield_now().await;
                }
                reading.cancel();
            })
            .unwrap();
    });
}
