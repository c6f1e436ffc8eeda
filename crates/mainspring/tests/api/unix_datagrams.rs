//! Unix datagrams: `UnixDatagram`, protocols and transports.

use crate::cancel_points::cancel_at_every_poll;
use crate::support::{Log, on_every_backend, yield_times};
use mainspring::net::{DatagramProtocol, DatagramTransport, UnixDatagram};
use mainspring::spawn;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A unique path for a socket file, which is removed on drop.
struct TempPath(PathBuf);

impl TempPath {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        TempPath(std::env::temp_dir().join(format!("mainspring-api-{}-{number}", std::process::id())))
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn sockets_bound_to_paths_exchange_datagrams() {
    on_every_backend(async |_| {
        let (one_path, other_path) = (TempPath::new(), TempPath::new());
        let (one, other) =
            (UnixDatagram::bind(&one_path.0).unwrap(), UnixDatagram::bind(&other_path.0).unwrap());
        one.send_to(b"hello", &other_path.0).await.unwrap();
        let mut buffer = [0; 10];
        let (length, from) = other.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.as_pathname()), (5, Some(one_path.0.as_path())));
        other.send_to_addr(b"answer", &from).await.unwrap();
        assert_eq!(one.peek_from(&mut buffer).await.unwrap().0, 6);
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 6);
        assert_eq!(UnixDatagram::bind(&one_path.0).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn abstract_and_unnamed_addresses_work() {
    on_every_backend(async |_| {
        let name = |suffix| format!("mainspring-api-{suffix}-{}", std::process::id());
        let address = |suffix| SocketAddr::from_abstract_name(name(suffix)).unwrap();
        let server = UnixDatagram::bind_addr(&address("server")).unwrap();
        let client = UnixDatagram::bind_addr(&address("client")).unwrap();
        client.connect_addr(&address("server")).unwrap();
        assert_eq!(client.peer_addr().unwrap().as_abstract_name(), Some(name("server").as_bytes()));
        client.send(b"named").await.unwrap();
        // asyncio's notation for an abstract name.
        let nul_name = format!("\0{}", name("server"));
        assert_eq!(UnixDatagram::bind(&nul_name).unwrap_err().kind(), ErrorKind::AddrInUse);
        client.send_to(b"named", &nul_name).await.unwrap();
        let mut buffer = [0; 10];
        server.recv(&mut buffer).await.unwrap();
        let (_, from) = server.recv_from(&mut buffer).await.unwrap();
        assert_eq!(from.as_abstract_name(), Some(name("client").as_bytes()));
        UnixDatagram::unbound().unwrap().send_to_addr(b"nameless", &address("server")).await.unwrap();
        let (length, from) = server.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.is_unnamed()), (8, true));
    });
}

#[test]
fn a_sender_waits_for_a_slow_receiver_and_loses_nothing() {
    const COUNT: u32 = 3000;
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = spawn(async move {
            for number in 0..COUNT {
                assert_eq!(one.send(&number.to_ne_bytes()).await.unwrap(), 4);
            }
        });
        yield_times(10).await;
        assert!(!sending.is_finished(), "more than the queue holds");
        for number in 0..COUNT {
            let mut buffer = [0; 4];
            assert_eq!(other.recv(&mut buffer).await.unwrap(), 4);
            assert_eq!(u32::from_ne_bytes(buffer), number);
        }
        sending.await.unwrap();
    });
}

#[test]
fn a_cancelled_send_sends_nothing() {
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let mut filled = 0;
        while one.try_send(b"filling").is_ok() {
            filled += 1;
        }
        // Nothing is received, so the sender is not polled again.
        for polls in 0..2 {
            assert!(crate::polls::given_up_after(polls, one.send(b"cancelled")).await.is_none());
        }
        let mut buffer = [0; 10];
        for _ in 0..filled {
            assert_eq!(other.try_recv(&mut buffer).unwrap(), 7);
        }
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        let send = async || one.send(b"sent").await;
        cancel_at_every_poll(send, async |_| {}).await.unwrap();
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 4);
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_closed_peer_is_an_error_and_the_socket_stays_usable() {
    on_every_backend(async |_| {
        let (closed, other_path) = (TempPath::new(), TempPath::new());
        drop(UnixDatagram::bind(&closed.0).unwrap());
        let client = UnixDatagram::unbound().unwrap();
        let refused = client.send_to(b"x", &closed.0).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(client.send_to(b"x", &other_path.0).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.connect(&closed.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let server = UnixDatagram::bind(&other_path.0).unwrap();
        client.send_to(b"x", &other_path.0).await.unwrap();
        assert_eq!(server.recv(&mut [0; 10]).await.unwrap(), 1);
        assert!(client.send_to(b"x", "no\0path").await.is_err());
    });
}

#[test]
fn shutdown_closes_only_the_write_side() {
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.send(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        other.send(b"x").await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap(), 1);
    });
}

#[test]
fn a_protocol_on_a_socket_pair_receives_and_answers() {
    struct Echo(Log<String>);
    impl DatagramProtocol<SocketAddr> for Echo {
        fn datagram_received(
            &self,
            transport: &DatagramTransport<SocketAddr>,
            data: &[u8],
            from: SocketAddr,
        ) {
            self.0.add(format!("{} bytes, unnamed: {}", data.len(), from.is_unnamed()));
            transport.send(data);
        }
    }
    on_every_backend(async |event_loop| {
        let (one, other) = StdUnixDatagram::pair().unwrap();
        let log = Log::new();
        let (transport, _) =
            event_loop.create_unix_datagram_endpoint(one, || Echo(log.clone())).await.unwrap();
        assert!(transport.peer_addr().is_some_and(|peer| peer.is_unnamed()));
        let other = UnixDatagram::from_std(other).unwrap();
        other.send(b"hello").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
        log.assert(["5 bytes, unnamed: true".to_owned()]);
        transport.close();
    });
}

#[test]
fn a_protocol_bound_to_a_path_answers_by_address() {
    struct Echo;
    impl DatagramProtocol<SocketAddr> for Echo {
        fn datagram_received(
            &self,
            transport: &DatagramTransport<SocketAddr>,
            data: &[u8],
            from: SocketAddr,
        ) {
            transport.send_to(data, from);
        }
    }
    on_every_backend(async |event_loop| {
        let (one_path, other_path) = (TempPath::new(), TempPath::new());
        let bound = StdUnixDatagram::bind(&other_path.0).unwrap();
        let (server, _) = event_loop.create_unix_datagram_endpoint(bound, || Echo).await.unwrap();
        assert!(server.local_addr().is_some_and(|local| local.as_pathname() == Some(&other_path.0)));
        let client = UnixDatagram::bind(&one_path.0).unwrap();
        client.send_to(b"hello", &other_path.0).await.unwrap();
        assert_eq!(client.recv(&mut [0; 10]).await.unwrap(), 5);
        server.close();
    });
}
