//! Accepting connections, and the address of each peer.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use mainspring_engine::poller::{Interest, PeerAddress, Readiness};
use rustix::io::FdFlags;
use rustix::net::{SocketAddrUnix, bind};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::support::{KEY, Open, Rig, event};

fn listener(domain: Domain, address: &SockAddr) -> Socket {
    let listener = Socket::new(domain, Type::STREAM, None).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener.bind(address).unwrap();
    listener.listen(8).unwrap();
    listener
}

/// A listener on the loopback `address`, with a port that the kernel picks.
fn inet_listener(address: &str) -> Socket {
    let address: SocketAddr = address.parse().unwrap();
    listener(Domain::for_address(address), &address.into())
}

/// A Unix listener with an abstract name that the kernel picks.
fn unix_listener() -> Socket {
    listener(Domain::UNIX, &SockAddr::unix("").unwrap())
}

fn client(listener: &Socket, bound_to: Option<&SocketAddrUnix>) -> Socket {
    let address = listener.local_addr().unwrap();
    let client = Socket::new(address.domain(), Type::STREAM, None).unwrap();
    if let Some(name) = bound_to {
        bind(&client, name).unwrap();
    }
    client.connect(&address).unwrap();
    client
}

/// The peer address of a connection from a Unix socket that is bound to `name`.
fn unix_peer(open: Open, name: Option<&SocketAddrUnix>) -> PeerAddress {
    let mut rig = Rig::new(open());
    let listener = unix_listener();
    let _client = client(&listener, name);
    rig.register(&listener, Interest::READ);
    rig.events();
    rig.poller.accept(listener.as_fd()).unwrap().1
}

/// A path of exactly `length` bytes (or the shortest possible), for a socket file. Removes the file when dropped.
struct SocketPath(PathBuf);

impl SocketPath {
    fn of_length(length: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let unique = format!("ms-{}-{}-", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut path = std::env::temp_dir().join(unique).into_os_string();
        while path.len() < length {
            path.push("x");
        }
        SocketPath(path.into())
    }

    fn as_path(&self) -> &Path {
        &self.0
    }

    fn as_bytes(&self) -> Vec<u8> {
        self.0.as_os_str().as_bytes().to_vec()
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn an_accepted_connection_is_nonblocking_and_close_on_exec(open: Open) {
    let mut rig = Rig::new(open());
    let listener = unix_listener();
    let _client = client(&listener, None);
    rig.register(&listener, Interest::READ);
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
    let (connection, _) = rig.poller.accept(listener.as_fd()).unwrap();
    assert!(SockRef::from(&connection).nonblocking().unwrap());
    assert!(rustix::io::fcntl_getfd(&connection).unwrap().contains(FdFlags::CLOEXEC));
}

pub fn without_a_connection_accept_would_block(open: Open) {
    let mut rig = Rig::new(open());
    let listener = unix_listener();
    rig.register(&listener, Interest::READ);
    assert_eq!(rig.events_now(), []);
    let epoll_pwait2_refused = rig.poller.accept(listener.as_fd()).unwrap_err();
    assert_eq!(epoll_pwait2_refused.kind(), ErrorKind::WouldBlock);
}

fn assert_inet_peer_address(open: Open, listener: &Socket) {
    let mut rig = Rig::new(open());
    let client = client(listener, None);
    rig.register(listener, Interest::READ);
    rig.events();
    let (_connection, peer) = rig.poller.accept(listener.as_fd()).unwrap();
    let name = client.local_addr().unwrap().as_socket().unwrap();
    assert_eq!(peer, PeerAddress::Inet(name));
}

pub fn accept_returns_an_ipv4_peer_address(open: Open) {
    assert_inet_peer_address(open, &inet_listener("127.0.0.1:0"));
}

pub fn accept_returns_an_ipv6_peer_address(open: Open) {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("not tried: this machine has no IPv6 loopback");
        return;
    }
    assert_inet_peer_address(open, &inet_listener("[::1]:0"));
}

pub fn accept_returns_a_unix_path(open: Open) {
    let path = SocketPath::of_length(0);
    let name = SocketAddrUnix::new(path.as_path()).unwrap();
    assert_eq!(unix_peer(open, Some(&name)), PeerAddress::Unix(path.as_bytes()));
}

pub fn accept_returns_an_abstract_unix_name(open: Open) {
    let path = SocketPath::of_length(0);
    let mut bytes = path.as_bytes();
    bytes.extend(b"\0with a zero inside");
    let name = SocketAddrUnix::new_abstract_name(&bytes).unwrap();
    bytes.insert(0, 0);
    assert_eq!(unix_peer(open, Some(&name)), PeerAddress::Unix(bytes));
}

pub fn accept_returns_an_empty_name_for_an_unnamed_unix_peer(open: Open) {
    assert_eq!(unix_peer(open, None), PeerAddress::Unix(Vec::new()));
}

pub fn accept_returns_a_unix_path_of_maximum_length(open: Open) {
    let path = SocketPath::of_length(108);
    let name = SocketAddrUnix::new(path.as_path()).unwrap();
    assert_eq!(unix_peer(open, Some(&name)), PeerAddress::Unix(path.as_bytes()));
}
