//! Detaching streams from the loop, as long as no data would be lost.

use super::Stream;
use crate::error::Error;
use mainspring_engine::transport::ProtocolSink;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Returned when a stream or a listener cannot be detached from its loop. It contains the error and the unchanged
/// object. See [`TcpStream::into_std`](crate::net::TcpStream::into_std) and its siblings.
///
/// `?` converts it into the [`io::Error`] and drops the object, which closes it.
///
/// ```
/// use mainspring::net::UnixStream;
///
/// # mainspring::run(async {
/// let (stream, peer) = UnixStream::pair()?;
/// peer.write_all(b"hello world").await?;
/// assert_eq!(stream.read_exactly(6).await?, b"hello ");
///
/// let refused = stream.into_std().unwrap_err();
/// assert_eq!(refused.error().kind(), std::io::ErrorKind::ResourceBusy);
/// assert_eq!(refused.to_string(), "5 received bytes are not read yet: read them first");
/// // Read the received bytes, then retry.
/// let stream = refused.into_inner();
/// assert_eq!(stream.read_some(100).await?, b"world");
/// let plain: std::os::unix::net::UnixStream = stream.into_std()?;
/// # drop(plain);
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct IntoStdError<S> {
    error: io::Error,
    inner: S,
}

impl<S> IntoStdError<S> {
    pub(in crate::net) fn new(error: io::Error, inner: S) -> Self {
        IntoStdError { error, inner }
    }

    /// The error: [`ResourceBusy`](io::ErrorKind::ResourceBusy) if data would be lost.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// The stream or listener, still attached to its loop.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// The error and the object.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    /// stream.transport().close();
    /// let (error, stream) = stream.into_std().unwrap_err().into_parts();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    /// stream.close().await?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_parts(self) -> (io::Error, S) {
        (self.error, self.inner)
    }
}

impl<S> fmt::Display for IntoStdError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> fmt::Debug for IntoStdError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoStdError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> std::error::Error for IntoStdError<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<S> From<IntoStdError<S>> for io::Error {
    fn from(refused: IntoStdError<S>) -> Self {
        refused.error
    }
}

/// An error for an operation that would lose data.
pub(in crate::net) fn resource_busy(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

impl Stream {
    /// Detaches the socket from the loop. The stream is unusable afterwards. Fails without a change.
    pub(in crate::net) fn take_socket(&self) -> io::Result<OwnedFd> {
        let transport = self.transport();
        if let Some(error) = self.reader.shared.buffered.error() {
            return Err(error);
        }
        if transport.is_loop_closed() {
            return Err(Error::Closed.into());
        }
        if transport.is_closing() {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the connection is closed"));
        }
        match (self.reader.buffered(), transport.get_write_buffer_size()) {
            (0, 0) => {}
            (0, unsent) => {
                return Err(resource_busy(format!("{unsent} bytes are not sent yet: call drain() first")));
            }
            (unread, _) => {
                return Err(resource_busy(format!(
                    "{unread} received bytes are not read yet: read them first"
                )));
            }
        }
        let socket = transport.with(|transport, cx| Ok(transport.detach_fd(cx))).flatten();
        let in_use = || resource_busy("a file is being sent, or the fd is in use".to_owned());
        let socket = socket.ok_or_else(in_use)?;
        // Detaching drops the protocol, which may run user code.
        transport.with(|transport, cx| transport.protocol_slot().detach(cx));
        Ok(socket)
    }
}
