//! Errors of the system that say at which address: the text is for people, the system's own error is below.

use std::error::Error;
use std::fmt;
use std::io;

/// `error` with another text, which tells of the address. It keeps the kind, and has the system's error as its
/// [source](Error::source).
pub(super) fn address_error(text: String, error: io::Error) -> io::Error {
    let kind = error.kind();
    // One that tells of another address already, in its text: the system's is below that.
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

/// As a text has it: what is below is seen by the source.
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
