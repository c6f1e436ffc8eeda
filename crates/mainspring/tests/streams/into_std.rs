//! `into_std`: streams and listeners leave the loop without losing data.

use crate::support::TestLoop;
use crate::{on_both, on_pairs, settle};
use mainspring::net::{Protocol, TcpListener, TcpStream, UnixListener, UnixStream};
use mainspring::{EventLoop, yield_now};
use mainspring_engine::testing::Call;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use test_support::{DELIBERATE, TestBackend, isolated};

/// A TCP connection and its listener.
async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

#[test]
fn into_std_returns_the_connected_socket_unregistered() {
    on_both("the socket", |test_loop| {
        test_loop.run(async {
            let (near, far) = tcp_pair().await;
            let (local, transport) = (near.local_addr(), near.transport().clone());
            settle().await;
            let before = EventLoop::current().metrics();
            let fd = transport.with_fd(|fd| Ok(fd.as_raw_fd())).unwrap();
            let mut plain = near.into_std().unwrap();
            assert_eq!(plain.as_raw_fd(), fd, "the same fd, with one owner");
            let after = EventLoop::current().metrics();
            assert_eq!(after.descriptors, before.descriptors - 1);

            assert_eq!(plain.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            plain.write_all(b"hello").unwrap();
            assert_eq!(far.read_exactly(5).await.unwrap(), b"hello");
            far.write_all(b"there").await.unwrap();
            plain.set_nonblocking(false).unwrap();
            let mut there = [0; 5];
            plain.read_exact(&mut there).unwrap();
            assert_eq!(&there, b"there");

            // A kept transport handle is closed and cannot affect the socket.
            assert!(transport.is_closing() && transport.get_protocol().is_none());
            assert_eq!((transport.local_addr(), plain.local_addr().ok()), (local, local));
            transport.write(b"lost");
            transport.write_eof();
            transport.resume_reading();
            transport.abort();
            transport.close();
            assert!(transport.with_fd(|_| Ok(())).is_err());
            settle().await;
            plain.write_all(b"!").unwrap();
            assert_eq!(far.read_exactly(1).await.unwrap(), b"!");
            // It can be attached to a loop again.
            let near = TcpStream::from_std(plain).unwrap();
            far.write_all(b"again").await.unwrap();
            assert_eq!(near.read_exactly(5).await.unwrap(), b"again");
        });
    });
}

#[test]
fn a_stream_can_leave_before_its_first_iteration() {
    on_both("at once", |test_loop| {
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            far.write_all(b"hello").await.unwrap();
            let mut plain = near.into_std().unwrap();
            settle().await;
            let mut hello = [0; 5];
            plain.read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"hello");
        });
    });
}

#[test]
fn a_stream_with_unread_data_cannot_leave() {
    on_pairs("unread", async |near, far| {
        far.write_all(b"hello world").await.unwrap();
        assert_eq!(near.read_exactly(6).await.unwrap(), b"hello ");
        let refused = near.into_std().unwrap_err();
        assert_eq!(refused.error().kind(), ErrorKind::ResourceBusy);
        assert_eq!(refused.to_string(), "5 received bytes are not read yet: read them first");
        let near = refused.into_inner();
        assert_eq!(near.read_some(100).await.unwrap(), b"world");
        far.write_all(b"more").await.unwrap();
        let mut plain = near.into_std().unwrap();
        let mut more = [0; 4];
        plain.read_exact(&mut more).unwrap();
        assert_eq!(&more, b"more");
    });
}

#[test]
fn a_stream_with_unsent_data_cannot_leave() {
    on_pairs("unsent", async |near, far| {
        const LARGE: usize = 4 << 20;
        near.transport().write(&vec![7; LARGE]);
        let unsent = near.transport().get_write_buffer_size();
        let (error, near) = near.into_std().unwrap_err().into_parts();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert_eq!(error.to_string(), format!("{unsent} bytes are not sent yet: call drain() first"));
        near.transport().set_write_buffer_limits(Some(0), None).unwrap();
        let (received, drained) = mainspring::join((far.read_exactly(LARGE), near.drain())).await;
        drained.unwrap();
        assert_eq!(received.unwrap(), vec![7; LARGE]);
        near.into_std().unwrap();
        assert_eq!(far.read_to_end().await.unwrap(), b"");
    });
}

#[test]
fn into_std_sends_data_held_back_by_write_coalescing() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "one coalesced write");
        let (near, far) = test_loop.run(tcp_pair());
        for _ in 0..3 {
            let transport = near.transport().clone();
            test_loop.event_loop.call_soon(move || (0..2).for_each(|_| transport.write(&[7; 100]))).unwrap();
            test_loop.run_once();
        }
        test_loop.control.take_log();
        let plain = Rc::new(RefCell::new(None));
        let kept = Rc::clone(&plain);
        let leave = move || {
            near.transport().write(&[7; 100]);
            *kept.borrow_mut() = near.into_std().ok();
        };
        test_loop.event_loop.call_soon(leave).unwrap();
        test_loop.run_once();
        let sent: Vec<_> =
            test_loop.control.take_log().iter().filter_map(|entry| sending(&entry.call)).collect();
        assert_eq!(sent, ["more", "push"]);
        assert!(plain.take().is_some());
        assert_eq!(test_loop.run(far.read_to_end()).unwrap().len(), 700);
        drop(far);
        test_loop.assert_idle();
    });
}

fn sending(call: &Call) -> Option<&'static str> {
    match call {
        Call::Send { .. } => Some("send"),
        Call::SendMore { .. } => Some("more"),
        Call::Push { .. } => Some("push"),
        _ => None,
    }
}

#[test]
fn a_lost_connection_returns_its_error_instead_of_a_socket() {
    on_both("over", |test_loop| {
        test_loop.run(async {
            let (near, _far) = UnixStream::pair().unwrap();
            near.transport().close();
            assert_eq!(near.into_std().unwrap_err().error().kind(), ErrorKind::NotConnected);

            let (near, far) = tcp_pair().await;
            far.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            far.transport().abort();
            let reset = near.read_to_end().await.unwrap_err();
            assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
            assert_eq!(near.into_std().unwrap_err().error().kind(), ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn a_half_closed_stream_can_leave_and_still_send() {
    on_pairs("half closed", async |near, far| {
        far.shutdown();
        assert_eq!(near.read_to_end().await.unwrap(), b"");
        let mut plain = near.into_std().unwrap();
        assert_eq!(plain.read(&mut [0]).unwrap(), 0);
        plain.write_all(b"still here").unwrap();
        assert_eq!(far.read_exactly(10).await.unwrap(), b"still here");
    });
}

#[test]
fn a_stream_of_a_closed_loop_cannot_leave() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "closed");
        let (near, _far) = test_loop.run(async { UnixStream::pair().unwrap() });
        let listener = test_loop.run(async { TcpListener::bind("127.0.0.1:0").await.unwrap() });
        test_loop.event_loop.close().unwrap();
        assert!(near.into_std().unwrap_err().to_string().contains("closed"));
        assert!(listener.into_std().unwrap_err().to_string().contains("closed"));
    });
}

#[test]
fn a_stream_cannot_leave_inside_with_fd() {
    on_pairs("lent", async |near, far| {
        let transport = near.transport().clone();
        let refused = transport.with_fd(|_| Ok(near.into_std().unwrap_err())).unwrap();
        assert_eq!(refused.error().kind(), ErrorKind::ResourceBusy);
        let mut plain = refused.into_inner().into_std().unwrap();
        plain.write_all(b"x").unwrap();
        assert_eq!(far.read_exactly(1).await.unwrap(), b"x");
    });
}

#[test]
fn a_stream_cannot_leave_during_sendfile() {
    on_pairs("sendfile", async |near, far| {
        let path = std::env::temp_dir().join(format!("mainspring-leaving-{}", std::process::id()));
        fs::write(&path, vec![7; 4 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let transport = near.transport().clone();
        let sending = mainspring::spawn(async move { transport.sendfile(&file, 0, None).await });
        yield_now().await;
        let refused = near.into_std().unwrap_err();
        assert_eq!(refused.error().kind(), ErrorKind::ResourceBusy);
        assert_eq!(far.read_exactly(4 << 20).await.unwrap(), vec![7; 4 << 20]);
        assert_eq!(sending.await.unwrap().unwrap(), 4 << 20);
        refused.into_inner().into_std().unwrap();
    });
}

#[test]
fn the_protocol_is_dropped_and_its_panic_is_reported() {
    struct Bad;
    impl Protocol for Bad {}
    impl Drop for Bad {
        fn drop(&mut self) {
            std::panic::panic_any(DELIBERATE);
        }
    }
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a protocol");
        let (mut plain, far) = test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            near.transport().set_protocol(Rc::new(Bad));
            (near.into_std().unwrap(), far)
        });
        assert_eq!(test_loop.reports.take().len(), 1);
        plain.write_all(b"x").unwrap();
        assert_eq!(test_loop.run(far.read_exactly(1)).unwrap(), b"x");
        drop(far);
        test_loop.assert_idle();
    });
}

#[test]
fn a_listener_leaves_with_its_file_once_all_connections_are_accepted() {
    on_both("a listener", |test_loop| {
        let path = std::env::temp_dir().join(format!("mainspring-leaving-socket-{}", std::process::id()));
        test_loop.run(async {
            let listener = UnixListener::bind(&path).unwrap();
            let near = UnixStream::connect(&path).await.unwrap();
            settle().await;
            let refused = listener.into_std().unwrap_err();
            assert_eq!(refused.error().kind(), ErrorKind::ResourceBusy);
            assert_eq!(refused.to_string(), "1 accepted connection(s) waiting: call accept() first");
            let listener = refused.into_inner();
            let far = listener.accept().await.unwrap();
            near.write_all(b"x").await.unwrap();
            assert_eq!(far.read_exactly(1).await.unwrap(), b"x");

            let plain = listener.into_std().unwrap();
            assert!(path.exists(), "the program now owns the file");
            assert_eq!(plain.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            let _next = UnixStream::connect(&path).await.unwrap();
            plain.accept().unwrap();
        });
        fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_listener_with_several_addresses_cannot_leave() {
    on_both("several", |test_loop| {
        test_loop.run(async {
            let both: Vec<std::net::SocketAddr> =
                vec![([127, 0, 0, 1], 0).into(), ([127, 0, 0, 2], 0).into()];
            let refused = TcpListener::bind(both).await.unwrap().into_std().unwrap_err();
            assert_eq!(refused.error().kind(), ErrorKind::InvalidInput);
            let listener = refused.into_inner();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            assert_eq!(listener.accept().await.unwrap().0.peer_addr(), client.local_addr());
        });
    });
}
