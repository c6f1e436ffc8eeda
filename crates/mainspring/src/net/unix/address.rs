//! Unix addresses: conversions between paths, std's type and the engine's.

use mainspring_engine::poller::PeerAddress;
use socket2::SockAddr;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;

/// Converts a path, or an abstract name (a leading zero byte, as in asyncio). `InvalidInput` if it is empty or too
/// long.
pub(in crate::net) fn to_sock_addr(path: &Path) -> io::Result<SockAddr> {
    if path.as_os_str().is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of a Unix socket must not be empty",
        ));
    }
    SockAddr::unix(path).map_err(|error| {
        let text = format!("invalid Unix address {}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Formats the address of `path` for messages.
pub(in crate::net) fn display_path(address: &SockAddr, path: &Path) -> String {
    match address.as_abstract_namespace() {
        Some(name) => display_abstract(name),
        None => path.display().to_string(),
    }
}

/// Formats an address of std for messages.
pub(in crate::net) fn display_std(address: &UnixAddress) -> String {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(name)) => display_abstract(name),
        (None, None) => "an unnamed address".to_owned(),
    }
}

/// As `ss` and `/proc/net/unix` display it.
fn display_abstract(name: &[u8]) -> String {
    format!("@{}", name.escape_ascii())
}

/// Converts to std's type. `None` if it is not a Unix address.
pub(in crate::net) fn to_std(address: &PeerAddress) -> Option<UnixAddress> {
    let PeerAddress::Unix(name) = address else { return None };
    match name.as_slice() {
        [0, name @ ..] => UnixAddress::from_abstract_name(name).ok(),
        path => UnixAddress::from_pathname(OsStr::from_bytes(path)).ok(),
    }
}
