//! Connecting: the choice of addresses and the timing of attempts.

use crate::on_both;
use mainspring::net::{Address, ConnectOptions, TcpListener, TcpStream};
use mainspring::{EventLoop, Protocol, Time, Transport, timeout};
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(250);

/// An address whose accept queue is full, so that a connect neither succeeds nor fails while this value lives.
struct UnansweringAddress {
    address: SocketAddr,
    _sockets: Vec<Socket>,
}

impl UnansweringAddress {
    fn new() -> Self {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut sockets = vec![listener];
        loop {
            let client = socket();
            let connected = client.connect_timeout(&address, Duration::from_millis(100));
            sockets.push(client);
            if connected.is_err() {
                return UnansweringAddress { address: address.as_socket().unwrap(), _sockets: sockets };
            }
        }
    }
}

/// An address without a listener.
fn refusing_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_silent_address_does_not_delay_the_next_beyond_the_happy_eyeballs_delay() {
    on_both("happy eyeballs", |test_loop| {
        let hole = UnansweringAddress::new();
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addresses = vec![hole.address, listener.local_addr()];
            let options = ConnectOptions::new().happy_eyeballs_delay(DELAY);
            let stream = options.connect(addresses).await.unwrap();
            assert_eq!(stream.peer_addr(), Some(listener.local_addr()));
            listener.accept().await.unwrap();
        });
        assert_eq!(test_loop.event_loop.time(), Time::from_nanos(DELAY.as_nanos() as u64));
    });
}

#[test]
fn a_refused_address_is_followed_by_the_next_at_once() {
    on_both("a refusal", |test_loop| {
        for delay in [None, Some(DELAY)] {
            let mut options = ConnectOptions::new();
            if let Some(delay) = delay {
                options = options.happy_eyeballs_delay(delay);
            }
            test_loop.run(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let stream = options
                    .connect(vec![refusing_address(), refusing_address(), listener.local_addr()])
                    .await
                    .unwrap();
                assert_eq!(stream.peer_addr(), Some(listener.local_addr()));
            });
        }
        assert_eq!(test_loop.event_loop.time(), Time::from_nanos(0), "the loop did not wait");
    });
}

#[test]
fn without_happy_eyeballs_a_silent_address_blocks_the_next() {
    on_both("no happy eyeballs", |test_loop| {
        let hole = UnansweringAddress::new();
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let connecting = TcpStream::connect(vec![hole.address, listener.local_addr()]);
            timeout(Duration::from_secs(1), connecting).await.unwrap_err();
        });
    });
}

#[test]
fn the_error_lists_every_address_in_order() {
    on_both("all refuse", |test_loop| {
        let addresses = [refusing_address(), refusing_address(), refusing_address()];
        let options = ConnectOptions::new().happy_eyeballs_delay(DELAY);
        let error = test_loop.run(options.connect(&addresses[..])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let text = error.to_string();
        let places = addresses.map(|address| text.find(&address.to_string()).unwrap());
        assert!(places.is_sorted(), "{text}");
    });
}

#[test]
fn a_cancelled_race_closes_every_socket() {
    on_both("a cancelled race", |test_loop| {
        let hole = UnansweringAddress::new();
        test_loop.run(async {
            let options = ConnectOptions::new().happy_eyeballs_delay(DELAY);
            let racing = options.connect(vec![hole.address; 4]);
            timeout(10 * DELAY, racing).await.unwrap_err();
        });
    });
}

#[test]
fn a_connection_uses_the_requested_local_address() {
    on_both("local_addr", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let from: Vec<SocketAddr> = vec!["[::1]:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
            let options = ConnectOptions::new().local_addr(from);
            let stream = options.connect(listener.local_addr()).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.ip().to_string(), "127.0.0.2");
            assert_eq!(stream.local_addr(), Some(peer));

            let wrong_family = ConnectOptions::new().local_addr("[::1]:0");
            let error = wrong_family.connect(listener.local_addr()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable, "{error}");
            let taken = ConnectOptions::new().local_addr("192.0.2.1:0");
            assert!(taken.connect(listener.local_addr()).await.is_err());
            let nonsense = ConnectOptions::new().local_addr("nonsense");
            let error = nonsense.connect(listener.local_addr()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let nowhere = ConnectOptions::new().connect(Address::Sockets(Vec::new())).await;
            assert_eq!(nowhere.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        });
    });
}

#[derive(Default)]
struct Made(Cell<u32>);

impl Protocol for Made {
    fn connection_made(&self, transport: &Transport) {
        self.0.set(self.0.get() + 1);
        transport.write(b"made");
    }
}

#[test]
fn a_protocol_can_be_set_on_a_connection_of_any_origin() {
    on_both("protocols", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let options = ConnectOptions::new().interleave(1);
            let (transport, made) =
                options.create_connection(listener.local_addr(), Made::default).await.unwrap();
            assert_eq!(made.0.get(), 1);
            let (peer, _) = listener.accept().await.unwrap();
            assert_eq!(peer.read_exactly(4).await.unwrap(), b"made");
            transport.close();

            let event_loop = EventLoop::current();
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let (transport, made) = event_loop.connect_accepted_socket(near, Made::default).await.unwrap();
            assert_eq!(made.0.get(), 1);
            let far = mainspring::net::UnixStream::from_std(far).unwrap();
            assert_eq!(far.read_exactly(4).await.unwrap(), b"made");
            assert!(transport.unix_peer_addr().unwrap().is_unnamed());
            transport.close();

            let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let refused = event_loop.connect_accepted_socket(udp, Made::default).await;
            assert_eq!(refused.map(drop).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        });
    });
}

#[test]
fn set_protocol_replaces_the_protocol_of_a_connection() {
    struct Log(&'static str, Rc<Cell<Vec<String>>>);
    impl Protocol for Log {
        fn data_received(&self, _: &Transport, data: &[u8]) {
            let mut log = self.1.take();
            log.push(format!("{}: {}", self.0, data.escape_ascii()));
            self.1.set(log);
        }
    }
    on_both("set_protocol", |test_loop| {
        let log = Rc::new(Cell::default());
        test_loop.run(async {
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let first = Log("first", Rc::clone(&log));
            let (transport, _) = EventLoop::current().connect_accepted_socket(near, || first).await.unwrap();
            let far = mainspring::net::UnixStream::from_std(far).unwrap();
            far.write_all(b"1").await.unwrap();
            crate::settle().await;
            transport.set_protocol(Rc::new(Log("second", Rc::clone(&log))));
            far.write_all(b"2").await.unwrap();
            crate::settle().await;
            assert!(transport.get_protocol().is_some());
            transport.close();
            crate::settle().await;
            assert!(transport.get_protocol().is_none());
            transport.set_protocol(Rc::new(Log("third", Rc::clone(&log))));
            assert!(transport.get_protocol().is_none(), "the protocol is dropped with the connection");
        });
        assert_eq!(log.take(), ["first: 1", "second: 2"]);
    });
}
