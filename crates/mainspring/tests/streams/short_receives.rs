//! A `recv` that returns less than requested although more follows: at the urgent mark of TCP, and after a Unix message
//! with ancillary data. The rest must still arrive.

use crate::on_both;
use crate::support::TestLoop;
use mainspring::net::{TcpStream, UnixStream};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use socket2::SockRef;
use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream as StdTcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;

/// Sends `bytes` with an fd.
fn send_with_fd(to: &StdUnixStream, bytes: &[u8]) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sent = [to.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
}

/// Every read method returns all of `abcdefgh\n`, although one `recv` does not. `connect` returns a stream to which all
/// of it was sent.
macro_rules! assert_every_read_method_gets_everything {
    ($test_loop:expr, $connect:expr) => {
        $test_loop.run(async {
            let (stream, _peer) = $connect;
            assert_eq!(stream.read_exactly(9).await.unwrap(), b"abcdefgh\n");
            let (stream, _peer) = $connect;
            assert_eq!(stream.read_line().await.unwrap(), b"abcdefgh\n");
            let (stream, _peer) = $connect;
            let mut received = Vec::new();
            while received.len() < 9 {
                let mut buffer = [0; 100];
                let count = stream.read(&mut buffer).await.unwrap();
                received.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(received, b"abcdefgh\n");
        })
    };
}

#[test]
fn bytes_after_the_urgent_mark_arrive() {
    let connect = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        peer.write_all(b"abcd").unwrap();
        assert_eq!(SockRef::from(&peer).send_out_of_band(b"!").unwrap(), 1);
        peer.write_all(b"efgh\n").unwrap();
        (TcpStream::from_std(ours).unwrap(), peer)
    };
    on_both("the urgent mark", |test_loop: &TestLoop| {
        assert_every_read_method_gets_everything!(test_loop, connect())
    });
}

#[test]
fn bytes_after_a_message_with_fds_arrive() {
    let connect = || {
        let (ours, mut peer) = StdUnixStream::pair().unwrap();
        peer.write_all(b"ab").unwrap();
        send_with_fd(&peer, b"cd");
        peer.write_all(b"ef").unwrap();
        send_with_fd(&peer, b"gh\n");
        (UnixStream::from_std(ours).unwrap(), peer)
    };
    on_both("ancillary data", |test_loop: &TestLoop| {
        assert_every_read_method_gets_everything!(test_loop, connect())
    });
}
