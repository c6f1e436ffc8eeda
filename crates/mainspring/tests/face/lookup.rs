//! Name lookup.

use crate::adversity::{given_up_at_every_poll, turns};
use crate::support::{Log, assert_leaves_nothing, new_loop, run_on};
use mainspring::net::{
    AddrInfoHints, DatagramOptions, Family, Lookup, NameInfoFlags, SocketKind, TcpListener, TcpStream,
    UdpSocket, lookup_host,
};
use mainspring::{Builder, EventLoop, Protocol};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// A loop with `resolver`.
fn loop_with<F>(resolver: impl Fn(Lookup) -> F + 'static) -> EventLoop
where
    F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
{
    Builder::new().resolver(resolver).build().unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn what_is_an_address_already_is_asked_of_nobody() {
    let event_loop = loop_with(async |lookup: Lookup| panic!("asked for {lookup:?}"));
    run_on(&event_loop, async {
        assert_eq!(lookup_host("127.0.0.1:80").await.unwrap(), [address("127.0.0.1:80")]);
        assert_eq!(lookup_host(("::1", 80)).await.unwrap(), [address("[::1]:80")]);
        assert_eq!(lookup_host(("[::1]", 80)).await.unwrap(), [address("[::1]:80")]);
        let known = [address("127.0.0.1:1"), address("[::1]:2")];
        assert_eq!(lookup_host(&known[..]).await.unwrap(), known);
        UdpSocket::bind("127.0.0.1:0").await.unwrap();
    });
}

#[test]
fn what_names_no_host_is_an_error() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        for nothing in ["", "host", ":80", "host:port", "host:70000"] {
            assert_eq!(lookup_host(nothing).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert!(lookup_host(("zero\0byte", 80)).await.is_err());
        let none: &[SocketAddr] = &[];
        assert_eq!(lookup_host(none).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn the_system_knows_this_machine() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let found = lookup_host("localhost:80").await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        let mut once = found.clone();
        once.dedup();
        assert_eq!(found, once);
    });
}

#[test]
fn everything_that_takes_a_name_asks_the_resolver_of_the_loop() {
    struct Quiet;
    impl Protocol for Quiet {}
    let log = Log::new();
    let asked = log.clone();
    let event_loop = loop_with(move |lookup: Lookup| {
        asked.add((lookup.host, lookup.kind, lookup.family));
        async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], lookup.port))]) }
    });
    run_on(&event_loop, async {
        let listener = TcpListener::bind("listener.invalid:0").await.unwrap();
        let port = listener.local_addr().port();
        drop(TcpStream::connect(("stream.invalid", port)).await.unwrap());
        let (transport, _) =
            event_loop.create_connection(("protocol.invalid", port), || Quiet).await.unwrap();
        transport.abort();
        let options = DatagramOptions::new().local_addr("udp.invalid:0").family(Family::V4);
        let socket = UdpSocket::with_options(options).await.unwrap();
        socket.send_to(b"x", ("peer.invalid", socket.local_addr().unwrap().port())).await.unwrap();
        lookup_host("host.invalid:1").await.unwrap();
    });
    let entry = |host: &str, kind, family| (format!("{host}.invalid"), Some(kind), family);
    log.assert([
        entry("listener", SocketKind::Stream, None),
        entry("stream", SocketKind::Stream, None),
        entry("protocol", SocketKind::Stream, None),
        entry("udp", SocketKind::Datagram, Some(Family::V4)),
        entry("peer", SocketKind::Datagram, None),
        entry("host", SocketKind::Stream, None),
    ]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_resolver_may_fail_find_nothing_or_find_the_wrong_family() {
    let event_loop = loop_with(async |lookup: Lookup| match lookup.host.as_str() {
        "fails.invalid" => Err(io::Error::new(ErrorKind::TimedOut, "no answer")),
        "nothing.invalid" => Ok(Vec::new()),
        _ => Ok(vec![address("127.0.0.1:0"), address("[::1]:0")]),
    });
    run_on(&event_loop, async {
        assert_eq!(lookup_host("fails.invalid:1").await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(TcpStream::connect("fails.invalid:1").await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(lookup_host("nothing.invalid:1").await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let v4 = DatagramOptions::new().local_addr("both.invalid:0").family(Family::V4);
        assert!(UdpSocket::with_options(v4).await.unwrap().local_addr().unwrap().is_ipv4());
    });
}

#[test]
fn a_resolver_may_use_the_loop_and_is_dropped_when_the_lookup_is_given_up() {
    struct Alive(Log<&'static str>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let log = Log::new();
    let seen = log.clone();
    let event_loop = loop_with(move |lookup: Lookup| {
        let alive = Alive(seen.clone());
        async move {
            turns(3).await;
            alive.0.add("found");
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], lookup.port))])
        }
    });
    run_on(&event_loop, async {
        let look_up = async || lookup_host("host.invalid:5").await;
        let found = given_up_at_every_poll(look_up, async |_| {}).await.unwrap();
        assert_eq!(found, [address("127.0.0.1:5")]);
    });
    let entries = log.entries();
    assert_eq!(entries.iter().filter(|entry| **entry == "found").count(), 1);
    assert_eq!(entries.last(), Some(&"dropped"));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_lookup_in_a_thread_may_be_given_up_at_any_moment() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        given_up_at_every_poll(async || lookup_host("localhost:80").await, async |_| {}).await.unwrap();
        given_up_at_every_poll(async || UdpSocket::bind("localhost:0").await, async |_| {}).await.unwrap();
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn getaddrinfo_does_as_its_hints_say() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let numeric = AddrInfoHints { numeric_host: true, numeric_service: true, ..Default::default() };
        let found = event_loop.getaddrinfo(Some("127.0.0.1"), Some("80"), numeric).await.unwrap();
        assert!(found.len() > 1, "one for each kind: {found:?}");
        assert!(found.iter().all(|info| info.address == address("127.0.0.1:80")));
        let datagram = AddrInfoHints { kind: Some(SocketKind::Datagram), ..numeric };
        let found = event_loop.getaddrinfo(Some("::1"), Some("80"), datagram).await.unwrap();
        assert_eq!((found.len(), found[0].protocol, found[0].kind), (1, 17, datagram.kind));
        let passive = AddrInfoHints { passive: true, family: Some(Family::V4), ..datagram };
        let found = event_loop.getaddrinfo(None, Some("80"), passive).await.unwrap();
        assert_eq!(found[0].address, address("0.0.0.0:80"));
        let named = AddrInfoHints { canonical_name: true, ..datagram };
        let found = event_loop.getaddrinfo(Some("127.0.0.1"), None, named).await.unwrap();
        assert_eq!(found[0].canonical_name.as_deref(), Some("127.0.0.1"));
        event_loop.getaddrinfo(Some("no-address"), None, numeric).await.unwrap_err();
        let other_family = AddrInfoHints { family: Some(Family::V6), ..numeric };
        event_loop.getaddrinfo(Some("127.0.0.1"), None, other_family).await.unwrap_err();
        event_loop.getaddrinfo(None, None, numeric).await.unwrap_err();
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn getnameinfo_gives_numbers_or_names() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let numbers = NameInfoFlags { numeric_host: true, numeric_service: true, ..Default::default() };
        let name = |address| event_loop.getnameinfo(address, numbers);
        assert_eq!(name(address("[::1]:8080")).await.unwrap(), ("::1".to_owned(), "8080".to_owned()));
        let contradiction = NameInfoFlags { name_required: true, ..numbers };
        // A documentation address has no name, and the system need not ask for one.
        event_loop.getnameinfo(address("192.0.2.1:80"), contradiction).await.unwrap_err();
    });
}

#[test]
fn a_loop_that_is_closed_or_absent_looks_nothing_up() {
    let event_loop = new_loop();
    let closed = new_loop();
    closed.close().unwrap();
    run_on(&event_loop, async {
        closed.getaddrinfo(Some("127.0.0.1"), None, AddrInfoHints::default()).await.unwrap_err();
        let numbers = NameInfoFlags { numeric_host: true, ..Default::default() };
        closed.getnameinfo(address("127.0.0.1:80"), numbers).await.unwrap_err();
    });
}
