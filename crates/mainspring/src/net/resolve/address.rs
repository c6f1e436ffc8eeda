//! Addresses as callers give them: socket addresses, or names that need a lookup.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The address of an endpoint.
///
/// ```
/// use mainspring::net::{Address, lookup_host};
///
/// # mainspring::run(async {
/// let known = Address::Sockets(vec![([127, 0, 0, 1], 80).into()]);
/// assert_eq!(lookup_host(known).await?, ["127.0.0.1:80".parse().unwrap()]);
/// let named = Address::Host("localhost".to_owned(), 80);
/// assert!(lookup_host(named).await?.iter().all(|found| found.ip().is_loopback()));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Socket addresses, tried in this order.
    Sockets(Vec<SocketAddr>),
    /// A host name, which needs a lookup, and a port.
    Host(String, u16),
}

/// Converts into an [`Address`]: a socket address, a host and port, or `"host:port"`.
///
/// ```
/// use mainspring::net::{Address, ToAddress};
///
/// assert_eq!("127.0.0.1:80".to_address()?, Address::Sockets(vec![([127, 0, 0, 1], 80).into()]));
/// assert_eq!("localhost:80".to_address()?, Address::Host("localhost".to_owned(), 80));
/// assert_eq!(("::1", 80).to_address()?, "[::1]:80".to_address()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToAddress {
    /// The address. `InvalidInput` if the value is not an address.
    fn to_address(&self) -> io::Result<Address>;

    /// The socket address, if the value is exactly one. Lets `send_to` avoid an allocation per datagram.
    fn to_socket_addr(&self) -> Option<SocketAddr> {
        None
    }
}

impl ToAddress for Address {
    fn to_address(&self) -> io::Result<Address> {
        Ok(self.clone())
    }
}

impl<A: ToAddress + ?Sized> ToAddress for &A {
    fn to_address(&self) -> io::Result<Address> {
        (**self).to_address()
    }

    fn to_socket_addr(&self) -> Option<SocketAddr> {
        (**self).to_socket_addr()
    }
}

impl ToAddress for SocketAddr {
    fn to_address(&self) -> io::Result<Address> {
        Ok(Address::Sockets(vec![*self]))
    }

    fn to_socket_addr(&self) -> Option<SocketAddr> {
        Some(*self)
    }
}

impl ToAddress for [SocketAddr] {
    fn to_address(&self) -> io::Result<Address> {
        Ok(Address::Sockets(self.to_vec()))
    }
}

impl ToAddress for Vec<SocketAddr> {
    fn to_address(&self) -> io::Result<Address> {
        Ok(Address::Sockets(self.clone()))
    }
}

impl ToAddress for str {
    fn to_address(&self) -> io::Result<Address> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return address.to_address();
        }
        let parts = self.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        match parts {
            Some((host, port)) if !host.is_empty() => Ok(Address::Host(host.to_owned(), port)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("invalid address {self:?}: expected host:port"),
            )),
        }
    }
}

impl ToAddress for String {
    fn to_address(&self) -> io::Result<Address> {
        self.as_str().to_address()
    }
}

impl ToAddress for (&str, u16) {
    fn to_address(&self) -> io::Result<Address> {
        match self.0.parse::<IpAddr>() {
            Ok(ip) => (ip, self.1).to_address(),
            Err(_) => Ok(Address::Host(self.0.to_owned(), self.1)),
        }
    }
}

impl ToAddress for (String, u16) {
    fn to_address(&self) -> io::Result<Address> {
        (self.0.as_str(), self.1).to_address()
    }
}

macro_rules! impl_to_address {
    ($($address_type:ty),*) => {
        $(impl ToAddress for $address_type {
            fn to_address(&self) -> io::Result<Address> {
                SocketAddr::from(*self).to_address()
            }

            fn to_socket_addr(&self) -> Option<SocketAddr> {
                Some(SocketAddr::from(*self))
            }
        })*
    };
}

impl_to_address!(SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), ([u8; 4], u16));
