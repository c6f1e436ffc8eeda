//! Unix datagrams, with `await` and with protocols.

use crate::adversity::{given_up_at_every_poll, turns};
use crate::support::{Log, on_every_backend};
use mainspring::net::{DatagramProtocol, DatagramTransport, UnixDatagram};
use mainspring::spawn;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A unique path, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("mainspring-face-{}-{number}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn sockets_with_paths_answer_each_other() {
    on_every_backend(async |_| {
        let (here, there) = (Place::new(), Place::new());
        let (one, other) = (UnixDatagram::bind(&here.0).unwrap(), UnixDatagram::bind(&there.0).unwrap());
        one.send_to(b"hello", &there.0).await.unwrap();
        let mut buffer = [0; 10];
        let (length, from) = other.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.as_pathname()), (5, Some(here.0.as_path())));
        other.send_to_addr(b"answer", &from).await.unwrap();
        assert_eq!(one.peek_from(&mut buffer).await.unwrap().0, 6);
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 6);
        assert_eq!(UnixDatagram::bind(&here.0).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn abstract_names_and_no_names_are_addresses_too() {
    on_every_backend(async |_| {
        let name = |what| format!("mainspring-face-{what}-{}", std::process::id());
        let address = |what| SocketAddr::from_abstract_name(name(what)).unwrap();
        let server = UnixDatagram::bind_addr(&address("server")).unwrap();
        let client = UnixDatagram::bind_addr(&address("client")).unwrap();
        client.connect_addr(&address("server")).unwrap();
        assert_eq!(client.peer_addr().unwrap().as_abstract_name(), Some(name("server").as_bytes()));
        client.send(b"named").await.unwrap();
        // asyncio's notation for an abstract name.
        let written = format!("\0{}", name("server"));
        assert_eq!(UnixDatagram::bind(&written).unwrap_err().kind(), ErrorKind::AddrInUse);
        client.send_to(b"named", &written).await.unwrap();
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
fn a_sender_waits_for_a_slow_receiver_and_nothing_is_lost() {
    const COUNT: u32 = 3000;
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = spawn(async move {
            for number in 0..COUNT {
                assert_eq!(one.send(&number.to_ne_bytes()).await.unwrap(), 4);
            }
        });
        turns(10).await;
        assert!(!sending.is_finished(), "it is more than the queue takes");
        for number in 0..COUNT {
            let mut buffer = [0; 4];
            assert_eq!(other.recv(&mut buffer).await.unwrap(), 4);
            assert_eq!(u32::from_ne_bytes(buffer), number);
        }
        sending.await.unwrap();
    });
}

#[test]
fn a_send_that_is_given_up_at_any_moment_was_not_sent() {
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let mut filled = 0;
        while one.try_send(b"filling").is_ok() {
            filled += 1;
        }
        // Nothing is received, so the sender is not polled again.
        for polls in 0..2 {
            assert!(crate::polls::given_up_after(polls, one.send(b"given up")).await.is_none());
        }
        let mut buffer = [0; 10];
        for _ in 0..filled {
            assert_eq!(other.try_recv(&mut buffer).unwrap(), 7);
        }
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        let send = async || one.send(b"sent").await;
        given_up_at_every_poll(send, async |_| {}).await.unwrap();
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 4);
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_the_socket_goes_on() {
    on_every_backend(async |_| {
        let (gone, there) = (Place::new(), Place::new());
        drop(UnixDatagram::bind(&gone.0).unwrap());
        let client = UnixDatagram::unbound().unwrap();
        let refused = client.send_to(b"x", &gone.0).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(client.send_to(b"x", &there.0).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.connect(&gone.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let server = UnixDatagram::bind(&there.0).unwrap();
        client.send_to(b"x", &there.0).await.unwrap();
        assert_eq!(server.recv(&mut [0; 10]).await.unwrap(), 1);
        assert!(client.send_to(b"x", "no\0path").await.is_err());
    });
}

#[test]
fn shutdown_is_seen_by_both_ends() {
    on_every_backend(async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.send(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        other.send(b"x").await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap(), 1);
    });
}

#[test]
fn a_protocol_on_a_pair_receives_and_answers() {
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
        let (here, there) = (Place::new(), Place::new());
        let bound = StdUnixDatagram::bind(&there.0).unwrap();
        let (server, _) = event_loop.create_unix_datagram_endpoint(bound, || Echo).await.unwrap();
        assert!(server.local_addr().is_some_and(|local| local.as_pathname() == Some(&there.0)));
        let client = UnixDatagram::bind(&here.0).unwrap();
        client.send_to(b"hello", &there.0).await.unwrap();
        assert_eq!(client.recv(&mut [0; 10]).await.unwrap(), 5);
        server.close();
    });
}
