//! Errors that name an address and keep the system's error as their source.

use std::error::Error;
use std::fmt;
use std::io;

/// Returns `error` with `text` as its message. The kind is kept; the system's error becomes the
/// [source](Error::source).
pub(super) fn address_error(text: String, error: io::Error) -> io::Error {
    let kind = error.kind();
    // If `error` names an address already, keep only the system's error below it.
    let source = error.downcast().map_or_else(|error| error, |inner: AddressError| inner.source);
    io::Error::new(kind, AddressError { text, source })
}

struct AddressError {
    text: String,
    source: io::Error,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Shows the message only; the system's error is reachable through the source.
impl fmt::Debug for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl Error for AddressError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
