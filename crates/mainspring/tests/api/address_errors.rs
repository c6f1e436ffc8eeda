//! Connect and bind errors name the address, and their source is the system's error.

use crate::support::on_every_backend;
use mainspring::net::{
    ConnectOptions, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// Checks that the message of `error` contains all of `parts`, and that its source has the errno `errno`.
#[track_caller]
fn assert_error(error: &io::Error, errno: i32, parts: &[&dyn ToString]) {
    let expected = io::Error::from_raw_os_error(errno);
    assert_eq!(error.kind(), expected.kind());
    let text = error.to_string();
    for part in parts.iter().map(|part| part.to_string()).chain([expected.to_string()]) {
        assert!(text.contains(&part), "{text:?} does not contain {part:?}");
    }
    let source = error.source().and_then(|error| error.downcast_ref::<io::Error>()).unwrap();
    assert_eq!(source.raw_os_error(), Some(errno));
    assert!(source.source().is_none());
}

/// An address without a listener.
fn unused_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_refused_connection_has_the_system_error_as_its_source() {
    on_every_backend(async |_| {
        let address = unused_address();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_error(&refused, libc::ECONNREFUSED, &[&format!("cannot connect to {address}: ")]);
        let path = std::env::temp_dir().join(format!("mainspring-no-listener-{}", std::process::id()));
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_error(&refused, libc::ENOENT, &[&path.display()]);
    });
}

#[test]
fn if_all_addresses_fail_the_error_names_all_and_its_source_is_the_last() {
    on_every_backend(async |_| {
        let addresses = vec![unused_address(), "255.255.255.255:9".parse().unwrap(), unused_address()];
        for options in [ConnectOptions::new(), ConnectOptions::new().happy_eyeballs_delay(Duration::ZERO)] {
            let refused = options.connect(addresses.clone()).await.unwrap_err();
            assert_error(&refused, libc::ECONNREFUSED, &[&addresses[0], &addresses[1], &addresses[2]]);
        }
        let addresses = vec![addresses[0], addresses[1]];
        let refused = TcpStream::connect(addresses.clone()).await.unwrap_err();
        assert_error(&refused, libc::ENETUNREACH, &[&addresses[0], &addresses[1]]);
    });
}

#[test]
fn a_local_address_in_use_is_named_and_the_source_is_the_system_error() {
    on_every_backend(async |_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (taken, address) = (listener.local_addr().unwrap(), unused_address());
        let refused = ConnectOptions::new().local_addr(taken).connect(address).await.unwrap_err();
        assert_error(&refused, libc::EADDRINUSE, &[&address, &format!("cannot bind to {taken}: ")]);
    });
}

#[test]
fn an_error_without_errno_is_the_source_too() {
    on_every_backend(async |_| {
        let refused =
            ConnectOptions::new().local_addr("[::1]:0").connect(unused_address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrNotAvailable);
        let source = refused.source().and_then(|error| error.downcast_ref::<io::Error>()).unwrap();
        assert_eq!((source.kind(), source.raw_os_error()), (ErrorKind::AddrNotAvailable, None));
    });
}

#[test]
fn binding_an_address_in_use_has_the_system_error_as_its_source() {
    on_every_backend(async |_| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = listener.local_addr();
        let refused = TcpListener::bind(taken).await.map(drop).unwrap_err();
        assert_error(&refused, libc::EADDRINUSE, &[&format!("cannot listen at {taken}: ")]);
        let name = format!("\0mainspring-taken-{}", std::process::id());
        let _listener = UnixListener::bind(&name).unwrap();
        let refused = UnixListener::bind(&name).map(drop).unwrap_err();
        assert_error(&refused, libc::EADDRINUSE, &[&&name[1..]]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = socket.local_addr().unwrap();
        let refused = UdpSocket::bind(taken).await.map(drop).unwrap_err();
        assert_error(&refused, libc::EADDRINUSE, &[&format!("cannot bind to {taken}: ")]);
    });
}

#[test]
fn unix_datagram_errors_name_the_address_and_have_a_source() {
    on_every_backend(async |_| {
        let name = format!("mainspring-address-errors-{}", std::process::id());
        let taken = UnixDatagram::bind(format!("\0{name}")).unwrap().into_std().unwrap();
        let address = taken.local_addr().unwrap();
        let bind_text = format!("cannot bind to @{name}: ");
        let refused = UnixDatagram::bind(format!("\0{name}")).unwrap_err();
        assert_error(&refused, libc::EADDRINUSE, &[&bind_text]);
        assert_error(&UnixDatagram::bind_addr(&address).unwrap_err(), libc::EADDRINUSE, &[&bind_text]);

        let path = std::env::temp_dir().join("mainspring-no-such-directory").join("socket");
        let refused = UnixDatagram::bind(&path).unwrap_err();
        assert_error(&refused, libc::ENOENT, &[&format!("cannot bind to {}: ", path.display())]);

        let socket = UnixDatagram::unbound().unwrap();
        let connect_text = format!("cannot connect to {}: ", path.display());
        assert_error(&socket.connect(&path).unwrap_err(), libc::ENOENT, &[&connect_text]);
        let missing = std::os::unix::net::SocketAddr::from_pathname(&path).unwrap();
        assert_error(&socket.connect_addr(&missing).unwrap_err(), libc::ENOENT, &[&connect_text]);
        drop(taken);
        let refused = socket.connect_addr(&address).unwrap_err();
        assert_error(&refused, libc::ECONNREFUSED, &[&format!("cannot connect to @{name}: ")]);
    });
}
