//! Receiving and sending on streams: data, EOF, errors and partial transfers.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mainspring_engine::poller::{Interest, Readiness};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use socket2::SockRef;

use crate::support::{KEY, Open, Rig, event, pair};

fn recv(rig: &mut Rig, from: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 64];
    let received = rig.poller.recv(from.as_fd(), &mut buffer)?;
    Ok(buffer[..received].to_vec())
}

fn send(rig: &mut Rig, to: &impl AsFd, chunks: &[&[u8]]) -> io::Result<usize> {
    let chunks: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    rig.poller.send(to.as_fd(), &chunks)
}

pub fn recv_returns_bytes_then_would_block_then_eof(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    rig.register(&ours, Interest::READ);
    theirs.write_all(b"tick").unwrap();
    rig.events();
    assert_eq!(recv(&mut rig, &ours).unwrap(), b"tick");
    assert_eq!(recv(&mut rig, &ours).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(theirs);
    rig.events();
    assert_eq!(recv(&mut rig, &ours).unwrap(), b"");
}

pub fn a_half_closed_peer_is_readable_and_can_still_be_sent_to(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    rig.register(&ours, Interest::READ);
    theirs.shutdown(Shutdown::Write).unwrap();
    assert!(rig.events().iter().all(|event| event.key == KEY && event.readiness.inbound));
    assert_eq!(recv(&mut rig, &ours).unwrap(), b"");

    // After EOF a transport removes its interest. Then EOF must not be reported again and again.
    rig.change(&ours, Interest::READ, Interest::NONE);
    assert_eq!(rig.events_now(), []);
    assert_eq!(send(&mut rig, &ours, &[b"tock"]).unwrap(), 4);
    let mut answer = [0; 4];
    theirs.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"tock");
}

pub fn a_reset_is_reported_as_writable_and_returned_by_recv(open: Open) {
    let mut rig = Rig::new(open());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    SockRef::from(&theirs).set_linger(Some(Duration::ZERO)).unwrap();
    drop(theirs);

    rig.register(&ours, Interest::WRITE);
    assert!(rig.events().iter().all(|event| event.key == KEY && event.readiness.outbound));
    assert_eq!(recv(&mut rig, &ours).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

pub fn sending_to_a_closed_peer_is_an_error_without_sigpipe(open: Open) {
    // Rust programs ignore SIGPIPE. Here it must kill, as in a program that embeds the engine.
    // SAFETY: the default action is valid, and no other test relies on an ignored SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut rig = Rig::new(open());
    let (ours, theirs) = pair();
    drop(theirs);
    assert_eq!(send(&mut rig, &ours, &[b"a"]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(send(&mut rig, &ours, &[b"a", b"b"]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

pub fn several_chunks_arrive_in_order(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    assert_eq!(send(&mut rig, &ours, &[b"one ", b"", b"two ", b"three"]).unwrap(), 13);
    let mut arrived = [0; 13];
    theirs.read_exact(&mut arrived).unwrap();
    assert_eq!(&arrived, b"one two three");
}

pub fn more_than_iov_max_chunks_are_sent_in_part(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    let bytes: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
    let chunks: Vec<&[u8]> = bytes.chunks(1).collect();
    let mut sent = 0;
    while sent < chunks.len() {
        sent += send(&mut rig, &ours, &chunks[sent..]).unwrap();
    }
    let mut arrived = vec![0; bytes.len()];
    theirs.read_exact(&mut arrived).unwrap();
    assert_eq!(arrived, bytes);
}

pub fn sending_nothing_sends_nothing(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, theirs) = pair();
    assert_eq!(send(&mut rig, &ours, &[]).unwrap(), 0);
    assert_eq!(send(&mut rig, &ours, &[b""]).unwrap(), 0);
    assert_eq!(recv(&mut rig, &theirs).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Reads until nothing more is available.
fn drain(from: &mut UnixStream) -> usize {
    from.set_nonblocking(true).unwrap();
    let mut total = 0;
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(read) => total += read,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return total;
            }
        }
    }
}

pub fn a_peer_that_does_not_read_causes_short_sends(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    SockRef::from(&ours).set_send_buffer_size(16 * 1024).unwrap();
    let chunk = vec![7; 1024 * 1024];
    let first = send(&mut rig, &ours, &[&chunk, &chunk]).unwrap();
    assert!(first > 0 && first < 2 * chunk.len());

    let mut sent = first;
    let epoll_pwait2_refused = loop {
        match send(&mut rig, &ours, &[&chunk]) {
            Ok(more) => sent += more,
            Err(error) => break error,
        }
    };
    assert_eq!(epoll_pwait2_refused.kind(), ErrorKind::WouldBlock);
    rig.register(&ours, Interest::WRITE);
    assert_eq!(rig.events_now(), []);

    assert_eq!(drain(&mut theirs), sent);
    assert_eq!(rig.events(), [event(KEY, Readiness::OUTBOUND)]);
    assert!(send(&mut rig, &ours, &[&chunk]).unwrap() > 0);
}

/// Receives from `ours` when it is readable, and checks that each `recv` returns one of `pieces`.
fn assert_received_in_pieces(rig: &mut Rig, ours: &impl AsFd, pieces: &[&[u8]]) {
    for piece in pieces {
        assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)], "before {piece:?}");
        assert_eq!(recv(rig, ours).unwrap(), *piece, "one recv returns less than the buffer holds");
    }
    assert_eq!(rig.events_now(), []);
}

pub fn data_after_the_urgent_mark_is_reported_after_a_short_recv(open: Open) {
    let mut rig = Rig::new(open());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    theirs.write_all(b"before").unwrap();
    assert_eq!(SockRef::from(&theirs).send_out_of_band(b"!").unwrap(), 1);
    theirs.write_all(b"after").unwrap();
    // All bytes have arrived: EOF is not reported before them.
    let mut peeked = [0; 6];
    while ours.peek(&mut peeked).unwrap() < peeked.len() {}
    rig.register(&ours, Interest::READ);
    assert_received_in_pieces(&mut rig, &ours, &[b"before", b"after"]);
}

pub fn data_after_a_message_with_an_fd_is_reported_after_a_short_recv(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    theirs.write_all(b"plain").unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sent = [theirs.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
    sendmsg(&theirs, &[IoSlice::new(b"with")], &mut control, SendFlags::empty()).unwrap();
    theirs.write_all(b"plain again").unwrap();
    rig.register(&ours, Interest::READ);
    assert_received_in_pieces(&mut rig, &ours, &[b"plainwith", b"plain again"]);
}
