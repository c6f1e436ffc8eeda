//! Name resolution: `lookup_host`, custom resolvers, `getaddrinfo`, `getnameinfo`.

use crate::cancel_points::cancel_at_every_poll;
use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, yield_times};
use mainspring::net::{
    AddrInfoHints, DatagramOptions, Family, Lookup, NameInfoFlags, SocketKind, TcpListener, TcpStream,
    UdpSocket, lookup_host,
};
use mainspring::{Builder, EventLoop, Protocol};
use mainspring_engine::name_lookup::{LookupRules, Query};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

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
fn an_address_is_not_passed_to_the_resolver() {
    let event_loop = loop_with(async |lookup: Lookup| panic!("unexpected {lookup:?}"));
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
fn an_invalid_host_or_port_is_an_error() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        for invalid in ["", "host", ":80", "host:port", "host:70000"] {
            assert_eq!(lookup_host(invalid).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert!(lookup_host(("zero\0byte", 80)).await.is_err());
        let none: &[SocketAddr] = &[];
        assert_eq!(lookup_host(none).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn localhost_resolves_to_loopback_addresses() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let found = lookup_host("localhost:80").await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        let mut deduplicated = found.clone();
        deduplicated.dedup();
        assert_eq!(found, deduplicated);
    });
}

#[test]
fn every_function_that_takes_a_name_uses_the_loops_resolver() {
    struct Silent;
    impl Protocol for Silent {}
    let log = Log::new();
    let lookups = log.clone();
    let event_loop = loop_with(move |lookup: Lookup| {
        lookups.add((lookup.host, lookup.kind, lookup.family));
        async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], lookup.port))]) }
    });
    run_on(&event_loop, async {
        let listener = TcpListener::bind("listener.invalid:0").await.unwrap();
        let port = listener.local_addr().port();
        drop(TcpStream::connect(("stream.invalid", port)).await.unwrap());
        let (transport, _) =
            event_loop.create_connection(("protocol.invalid", port), || Silent).await.unwrap();
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
fn resolver_errors_empty_results_and_other_families_are_handled() {
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
fn a_resolver_may_use_the_loop_and_is_dropped_with_a_cancelled_lookup() {
    struct LogOnDrop(Log<&'static str>);
    impl Drop for LogOnDrop {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let log = Log::new();
    let seen = log.clone();
    let event_loop = loop_with(move |lookup: Lookup| {
        let guard = LogOnDrop(seen.clone());
        async move {
            yield_times(3).await;
            guard.0.add("found");
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], lookup.port))])
        }
    });
    run_on(&event_loop, async {
        let look_up = async || lookup_host("host.invalid:5").await;
        let found = cancel_at_every_poll(look_up, async |_| {}).await.unwrap();
        assert_eq!(found, [address("127.0.0.1:5")]);
    });
    let entries = log.entries();
    assert_eq!(entries.iter().filter(|entry| **entry == "found").count(), 1);
    assert_eq!(entries.last(), Some(&"dropped"));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_lookup_on_the_executor_can_be_cancelled_at_any_poll() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        cancel_at_every_poll(async || lookup_host("localhost:80").await, async |_| {}).await.unwrap();
        cancel_at_every_poll(async || UdpSocket::bind("localhost:0").await, async |_| {}).await.unwrap();
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn getaddrinfo_follows_its_hints() {
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
fn a_lookup_that_cannot_block_needs_no_thread() {
    let event_loop = new_loop();
    drop(event_loop.run_in_executor(|| ()));
    event_loop.shutdown_executor();
    run_on(&event_loop, async {
        let any = AddrInfoHints::default();
        assert!(event_loop.getaddrinfo(Some("127.0.0.1"), Some("80"), any).await.is_ok());
        assert!(event_loop.getaddrinfo(None, Some("80"), any).await.is_ok());
        let localhost = Query { host: Some(b"localhost"), service: None, family: libc::AF_UNSPEC, flags: 0 };
        let in_hosts_file = !LookupRules::default().can_block(&localhost);
        assert_eq!(event_loop.getaddrinfo(Some("localhost"), Some("80"), any).await.is_ok(), in_hosts_file);
        assert_eq!(lookup_host("localhost:80").await.is_ok(), in_hosts_file);
        // These would need one.
        assert!(event_loop.getaddrinfo(Some("127.0.0.1"), Some("http"), any).await.is_err());
        assert!(event_loop.getaddrinfo(Some("name.invalid"), None, any).await.is_err());
    });
}

#[test]
fn getnameinfo_returns_numbers_or_an_error_if_a_name_is_required() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let numbers = NameInfoFlags { numeric_host: true, numeric_service: true, ..Default::default() };
        let name = |address| event_loop.getnameinfo(address, numbers);
        assert_eq!(name(address("[::1]:8080")).await.unwrap(), ("::1".to_owned(), "8080".to_owned()));
        let contradiction = NameInfoFlags { name_required: true, ..numbers };
        // A documentation address has no name; with numeric_host the system need not query for one.
        event_loop.getnameinfo(address("192.0.2.1:80"), contradiction).await.unwrap_err();
    });
}

#[test]
fn a_closed_loop_refuses_lookups() {
    let event_loop = new_loop();
    let closed = new_loop();
    closed.close().unwrap();
    run_on(&event_loop, async {
        closed.getaddrinfo(Some("127.0.0.1"), None, AddrInfoHints::default()).await.unwrap_err();
        let numbers = NameInfoFlags { numeric_host: true, ..Default::default() };
        closed.getnameinfo(address("127.0.0.1:80"), numbers).await.unwrap_err();
    });
}
