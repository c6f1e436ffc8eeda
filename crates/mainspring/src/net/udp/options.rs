//! Socket options of a UDP socket.

use super::socket::UdpSocket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// # Options
///
/// Each method gets or sets the socket option of the same name and returns the system's error.
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
///     // The system may allocate more than requested.
///     socket.set_recv_buffer_size(100_000)?;
///     socket.set_send_buffer_size(100_000)?;
///     assert!(socket.recv_buffer_size()? >= 100_000 && socket.send_buffer_size()? >= 100_000);
///     assert!(socket.take_error()?.is_none());
///
///     // On machines with IPv6.
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
    /// Gets `SO_BROADCAST`: whether the socket may send to broadcast addresses.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.broadcast())
    }

    /// Sets `SO_BROADCAST`.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_broadcast(on))
    }

    /// Gets `IP_TTL`: the maximum number of hops (IPv4).
    pub fn ttl(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.ttl_v4())
    }

    /// Sets `IP_TTL`.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_ttl_v4(ttl))
    }

    /// Gets `IP_TOS`: the type of service (IPv4).
    pub fn tos(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.tos_v4())
    }

    /// Sets `IP_TOS`.
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_tos_v4(tos))
    }

    /// Gets `IP_MULTICAST_LOOP`: whether multicast datagrams are looped back to this machine (IPv4).
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.multicast_loop_v4())
    }

    /// Sets `IP_MULTICAST_LOOP`.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_loop_v4(on))
    }

    /// Gets `IP_MULTICAST_TTL`: the maximum number of hops of multicast datagrams (IPv4).
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        self.with_socket(|socket| socket.multicast_ttl_v4())
    }

    /// Sets `IP_MULTICAST_TTL`.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_ttl_v4(ttl))
    }

    /// Gets `IPV6_MULTICAST_LOOP`: whether multicast datagrams are looped back to this machine (IPv6).
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.with_socket(|socket| socket.multicast_loop_v6())
    }

    /// Sets `IPV6_MULTICAST_LOOP`.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.with_socket(|socket| socket.set_multicast_loop_v6(on))
    }

    /// Joins the multicast `group` on the interface with the address `interface`.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_socket(|socket| socket.join_multicast_v4(&group, &interface))
    }

    /// Leaves the multicast `group`.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_socket(|socket| socket.leave_multicast_v4(&group, &interface))
    }

    /// Joins the multicast `group` on the interface with this index; 0 lets the system choose.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.join_multicast_v6(group, interface))
    }

    /// Leaves the multicast `group`.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_socket(|socket| socket.leave_multicast_v6(group, interface))
    }

    /// Gets `SO_RCVBUF`: the size of the kernel's receive buffer in bytes.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.with_socket(|socket| socket.recv_buffer_size())
    }

    /// Sets `SO_RCVBUF`. The kernel limits it to `net.core.rmem_max`.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.with_socket(|socket| socket.set_recv_buffer_size(size))
    }

    /// Gets `SO_SNDBUF`: the size of the kernel's send buffer in bytes.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.with_socket(|socket| socket.send_buffer_size())
    }

    /// Sets `SO_SNDBUF`. The kernel limits it to `net.core.wmem_max`.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.with_socket(|socket| socket.set_send_buffer_size(size))
    }
}
