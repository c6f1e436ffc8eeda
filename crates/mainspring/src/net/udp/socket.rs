//! `UdpSocket`: UDP with `await`.

use crate::event_loop::current_core;
use crate::net::address_error::address_error;
use crate::net::datagram::{DatagramOptions, DatagramSocket, SealedAddress, forward_to_datagram_socket};
use crate::net::resolve::{Family, Hints, SocketKind, ToAddress, resolve_with};
use std::io;
use std::net::SocketAddr;

/// A UDP socket. Derefs to [`DatagramSocket`].
///
/// All methods take `&self`, so one task can receive while another sends. It is not `Send`. Dropping it closes the
/// socket at once.
///
/// # Buffers
///
/// Datagrams wait in the kernel's receive buffer until a task receives them, directly into the task's buffer. The
/// kernel drops datagrams when its buffer is full; [`set_recv_buffer_size`](UdpSocket::set_recv_buffer_size) enlarges
/// it. This process queues nothing: if the kernel does not accept a datagram, the sender waits and retries.
///
/// # Errors
///
/// An error concerns one datagram; the socket stays usable. On a connected socket the kernel also reports ICMP errors
/// of earlier datagrams (`ConnectionRefused`); the next call returns them.
///
/// ```
/// use mainspring::net::UdpSocket;
///
/// mainspring::run(async {
///     let server = UdpSocket::bind("127.0.0.1:0").await?;
///     let client = UdpSocket::bind("127.0.0.1:0").await?;
///     client.connect(server.local_addr()?).await?;
///     assert_eq!(client.peer_addr()?, server.local_addr()?);
///     client.send(b"ping").await?;
///
///     let mut buffer = [0; 1500];
///     let (length, from) = server.recv_from(&mut buffer).await?;
///     server.send_to(&buffer[..length], from).await?;
///     assert_eq!(client.recv(&mut buffer).await?, 4);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// Without waiting:
///
/// ```
/// use mainspring::net::UdpSocket;
/// use std::io::ErrorKind;
///
/// # mainspring::run(async {
/// let socket = UdpSocket::bind("127.0.0.1:0").await?;
/// let own_addr = socket.local_addr()?;
/// let mut buffer = [0; 1500];
/// assert_eq!(socket.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
/// socket.try_send_to(b"hello", own_addr)?;
/// socket.readable().await?;
/// assert_eq!(socket.try_recv_from(&mut buffer)?, (5, own_addr));
/// // Detached from the loop.
/// let plain: std::net::UdpSocket = socket.into_std()?;
/// # drop(plain);
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct UdpSocket {
    socket: DatagramSocket<SocketAddr>,
}

forward_to_datagram_socket!(UdpSocket, SocketAddr);

impl UdpSocket {
    /// Binds a socket to the first usable address of `address`, on the running loop. Port 0 selects a free port.
    ///
    /// Cancel safety: dropping the future closes the socket.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let socket = mainspring::net::UdpSocket::bind(("localhost", 0)).await?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn bind(address: impl ToAddress) -> io::Result<Self> {
        Self::with_options(DatagramOptions::new().local_addr(address)).await
    }

    /// Creates a socket with `options`, on the running loop.
    ///
    /// Cancel safety: dropping the future closes the socket.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::{DatagramOptions, Family, UdpSocket};
    ///
    /// // Not bound: the kernel assigns a port at the first send.
    /// let socket = UdpSocket::with_options(DatagramOptions::new().family(Family::V4)).await?;
    /// assert_eq!(socket.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn with_options(options: DatagramOptions) -> io::Result<Self> {
        let core = current_core()?;
        let opened = options.open(&core).await?;
        Ok(UdpSocket { socket: DatagramSocket::new(&core, opened.socket) })
    }

    /// Attaches a socket of std to the running loop and makes it non-blocking.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let plain = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let address = plain.local_addr()?;
    /// let socket = UdpSocket::from_std(plain)?;
    /// assert_eq!(socket.local_addr()?, address);
    /// // And back. It stays non-blocking.
    /// let plain = socket.into_std()?;
    /// assert_eq!(plain.local_addr()?, address);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        DatagramSocket::adopt(socket.into()).map(|socket| UdpSocket { socket })
    }

    /// Detaches the socket from the loop. It stays non-blocking. See [`UdpSocket::from_std`].
    pub fn into_std(self) -> io::Result<std::net::UdpSocket> {
        self.socket.into_fd().map(std::net::UdpSocket::from)
    }

    /// Connects to the first usable address of `address`: the socket then receives from this address only, and
    /// [`send`](DatagramSocket::send) sends to it. No packet is sent.
    ///
    /// Cancel safety: dropping the future cancels the lookup; the connect itself does not wait.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// let client = UdpSocket::bind("127.0.0.1:0").await?;
    /// client.connect(server.local_addr()?).await?;
    /// assert_eq!(client.peer_addr()?, server.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect(&self, address: impl ToAddress) -> io::Result<()> {
        let mut failure = None;
        for address in self.addresses_of(address).await? {
            match self.with_socket(|socket| socket.connect(&address.into())) {
                Ok(()) => return Ok(()),
                Err(error) => failure = Some((address, error)),
            }
        }
        Err(failure.map_or_else(
            || io::ErrorKind::InvalidInput.into(),
            |(address, error)| address_error(format!("cannot connect to {address}: {error}"), error),
        ))
    }

    /// The addresses of `address`; only those of the socket's family, if there are any.
    async fn addresses_of(&self, address: impl ToAddress) -> io::Result<Vec<SocketAddr>> {
        let hints = Hints { family: None, kind: Some(SocketKind::Datagram) };
        let mut found = resolve_with(&*self.core()?, address.to_address()?, hints).await?;
        let family = Family::of(self.local_addr()?);
        if found.iter().any(|address| Family::of(*address) == family) {
            found.retain(|address| Family::of(*address) == family);
        }
        Ok(found)
    }

    /// Sends a datagram to the first address of `to` and returns its length. Waits while the kernel's send buffer is
    /// full.
    ///
    /// Cancel safety: safe; a cancelled datagram was not sent.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// let own_addr = socket.local_addr()?;
    /// assert_eq!(socket.send_to(b"by address", own_addr).await?, 10);
    /// assert_eq!(socket.send_to(b"by name", ("localhost", own_addr.port())).await?, 7);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn send_to(&self, data: &[u8], to: impl ToAddress) -> io::Result<usize> {
        let known = to.to_socket_addr();
        let to = match known {
            Some(address) => address,
            None => match self.addresses_of(to).await?.first() {
                Some(address) => *address,
                None => return Err(io::ErrorKind::InvalidInput.into()),
            },
        };
        self.send_to_addr(data, &to).await
    }

    /// Sends a datagram, or fails with `WouldBlock`. See [`writable`](DatagramSocket::writable).
    pub fn try_send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.try_send_to_peer(data, Some(&to.to_engine().0))
    }
}
