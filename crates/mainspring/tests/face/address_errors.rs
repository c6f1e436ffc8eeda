//! Errors of connecting and binding name the address and have the system's error as their source.

use crate::support::on_every_backend;
use mainspring::net::{
    ConnectOptions, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// Checks that the message of `error` contains all of `parts`, and that its source has this errno.
#[track_caller]
fn assert_names(error: &io::Error, number: i32, parts: &[&dyn ToString]) {
    let system = io::Error::from_raw_os_error(number);
    assert_eq!(error.kind(), system.kind());
    let text = error.to_string();
    for part in parts.iter().map(|part| part.to_string()).chain([system.to_string()]) {
        assert!(text.contains(&part), "{text:?} has no {part:?}");
    }
    let below = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
    assert_eq!(below.raw_os_error(), Some(number));
    assert!(below.source().is_none());
}

/// An address without a listener.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_connection_that_is_refused_has_the_systems_error_below() {
    on_every_backend(async |_| {
        let address = free();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_names(&refused, libc::ECONNREFUSED, &[&format!("cannot connect to {address}: ")]);
        let path = std::env::temp_dir().join(format!("mainspring-nobody-{}", std::process::id()));
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_names(&refused, libc::ENOENT, &[&path.display()]);
    });
}

#[test]
fn when_all_are_refused_the_last_one_is_below_and_the_text_tells_of_all() {
    on_every_backend(async |_| {
        let addresses = vec![free(), "255.255.255.255:9".parse().unwrap(), free()];
        for options in [ConnectOptions::new(), ConnectOptions::new().happy_eyeballs_delay(Duration::ZERO)] {
            let refused = options.connect(addresses.clone()).await.unwrap_err();
            assert_names(&refused, libc::ECONNREFUSED, &[&addresses[0], &addresses[1], &addresses[2]]);
        }
        let addresses = vec![addresses[0], addresses[1]];
        let refused = TcpStream::connect(addresses.clone()).await.unwrap_err();
        assert_names(&refused, libc::ENETUNREACH, &[&addresses[0], &addresses[1]]);
    });
}

#[test]
fn an_address_to_connect_from_that_is_taken_is_named_with_the_systems_error_right_below() {
    on_every_backend(async |_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (taken, address) = (listener.local_addr().unwrap(), free());
        let refused = ConnectOptions::new().local_addr(taken).connect(address).await.unwrap_err();
        assert_names(&refused, libc::EADDRINUSE, &[&address, &format!("cannot bind to {taken}: ")]);
    });
}

#[test]
fn an_error_that_is_not_the_systems_is_below_as_well() {
    on_every_backend(async |_| {
        let refused = ConnectOptions::new().local_addr("[::1]:0").connect(free()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrNotAvailable);
        let below = refused.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!((below.kind(), below.raw_os_error()), (ErrorKind::AddrNotAvailable, None));
    });
}

#[test]
fn an_address_that_is_taken_has_the_systems_error_below() {
    on_every_backend(async |_| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = listener.local_addr();
        let refused = TcpListener::bind(taken).await.map(drop).unwrap_err();
        assert_names(&refused, libc::EADDRINUSE, &[&format!("cannot listen at {taken}: ")]);
        let name = format!("\0mainspring-taken-{}", std::process::id());
        let _listener = UnixListener::bind(&name).unwrap();
        let refused = UnixListener::bind(&name).map(drop).unwrap_err();
        assert_names(&refused, libc::EADDRINUSE, &[&&name[1..]]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = socket.local_addr().unwrap();
        let refused = UdpSocket::bind(taken).await.map(drop).unwrap_err();
        assert_names(&refused, libc::EADDRINUSE, &[&format!("cannot bind to {taken}: ")]);
    });
}

#[test]
fn a_unix_address_of_datagrams_is_named_with_the_systems_error_below() {
    on_every_backend(async |_| {
        let name = format!("mainspring-letters-{}", std::process::id());
        let taken = UnixDatagram::bind(format!("\0{name}")).unwrap().into_std().unwrap();
        let address = taken.local_addr().unwrap();
        let bind_text = format!("cannot bind to @{name}: ");
        let refused = UnixDatagram::bind(format!("\0{name}")).unwrap_err();
        assert_names(&refused, libc::EADDRINUSE, &[&bind_text]);
        assert_names(&UnixDatagram::bind_addr(&address).unwrap_err(), libc::EADDRINUSE, &[&bind_text]);

        let path = std::env::temp_dir().join("mainspring-no-such-directory").join("socket");
        let refused = UnixDatagram::bind(&path).unwrap_err();
        assert_names(&refused, libc::ENOENT, &[&format!("cannot bind to {}: ", path.display())]);

        let socket = UnixDatagram::unbound().unwrap();
        let connect_text = format!("cannot connect to {}: ", path.display());
        assert_names(&socket.connect(&path).unwrap_err(), libc::ENOENT, &[&connect_text]);
        let nobody = std::os::unix::net::SocketAddr::from_pathname(&path).unwrap();
        assert_names(&socket.connect_addr(&nobody).unwrap_err(), libc::ENOENT, &[&connect_text]);
        drop(taken);
        let refused = socket.connect_addr(&address).unwrap_err();
        assert_names(&refused, libc::ECONNREFUSED, &[&format!("cannot connect to @{name}: ")]);
    });
}
