//! The options of a UDP socket: time to live, broadcast, multicast, buffers.

use super::socket::UdpSocket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// # Options
///
/// Each is the system's option of the same name, and fails as that does.
///
/// ```
/// use mainspring::net::UdpSocket;
/// use std::net::Ipv4Addr;
///
/// mainspring::run(async {
///     let socket = UdpSocket::bind("0.0.0.0:0").await?;
///     socket.set_broadcast(true)?;
///     assert!(socket.broadcast()?);
///     socket.set_ttl(9)?;
///     socket.set_tos(0x10)?;
///     assert_eq!((socket.ttl()?, socket.tos()?), (9, 0x10));
///
///     socket.set_multicast_loop_v4(false)?;
///     socket.set_multicast_ttl_v4(2)?;
///     assert_eq!((socket.multicast_loop_v4()?, socket.multicast_ttl_v4()?), (false, 2));
///     let group = Ipv4Addr::new(224, 0, 0, 251);
///     if socket.join_multicast_v4(group, Ipv4Addr::LOCALHOST).is_ok() {
///         socket.leave_multicast_v4(group, Ipv4Addr::LOCALHOST)?;
///     }
///
///     // The system may give more than was asked for.
///     socket.set_recv_buffer_size(100_000)?;
///     socket.set_send_buffer_size(100_000)?;
///     assert!(socket.recv_buffer_size()? >= 100_000 && socket.send_buffer_size()? >= 100_000);
///     assert!(socket.take_error()?.is_none());
///
///     // Where the machine has IPv6.
///     if let Ok(socket) = UdpSocket::bind("[::1]:0").await {
///         socket.set_multicast_loop_v6(false)?;
///         assert!(!socket.multicast_loop_v6()?);
///         let group = "ff01::114".parse().unwrap();
///         if socket.join_multicast_v6(&group, 1).is_ok() {
///             socket.leave_multicast_v6(&group, 1)?;
///         }
///     }
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
impl UdpSocket {
    /// Whether it may send to broadcast addresses.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.broadcast())
    }

    /// Whether it may send to broadcast addresses.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_broadcast(on))
    }

    /// How many routers a datagram passes at most (IPv4).
    pub fn ttl(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.ttl_v4())
    }

    /// How many routers a datagram passes at most (IPv4).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_ttl_v4(ttl))
    }

    /// The type of service of what it sends (IPv4).
    pub fn tos(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.tos_v4())
    }

    /// The type of service of what it sends (IPv4).
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_tos_v4(tos))
    }

    /// Whether multicast datagrams come back to this machine (IPv4).
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.multicast_loop_v4())
    }

    /// Whether multicast datagrams come back to this machine (IPv4).
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_loop_v4(on))
    }

    /// How many routers a multicast datagram passes at most (IPv4).
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.multicast_ttl_v4())
    }

    /// How many routers a multicast datagram passes at most (IPv4).
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_ttl_v4(ttl))
    }

    /// Whether multicast datagrams come back to this machine (IPv6).
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.multicast_loop_v6())
    }

    /// Whether multicast datagrams come back to this machine (IPv6).
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_loop_v6(on))
    }

    /// Receives what is sent to `group`, at the interface with the address `interface`.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_socket(|socket| socket.join_multicast_v4(&group, &interface))
    }

    /// Receives no longer what is sent to `group`.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_socket(|socket| socket.leave_multicast_v4(&group, &interface))
    }

    /// Receives what is sent to `group`, at the interface of this number; 0 for one that the system chooses.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.join_multicast_v6(group, interface))
    }

    /// Receives no longer what is sent to `group`.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.leave_multicast_v6(group, interface))
    }

    /// How much the kernel keeps of what nobody has asked for yet, in bytes.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.with_socket(|socket| socket.recv_buffer_size())
    }

    /// How much the kernel keeps of what nobody has asked for yet, in bytes. The kernel has its own idea of the largest.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.with_socket(|socket| socket.set_recv_buffer_size(size))
    }

    /// How much the kernel keeps of what is not sent yet, in bytes.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.with_socket(|socket| socket.send_buffer_size())
    }

    /// How much the kernel keeps of what is not sent yet, in bytes.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.with_socket(|socket| socket.set_send_buffer_size(size))
    }
}
