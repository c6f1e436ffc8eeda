//! Name lookups: which calls of `socket.getaddrinfo()` cannot block.

use mainspring_engine::name_lookup::{LookupRules, Query};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use std::cell::RefCell;

/// Whether the call may wait for something. `true` also for arguments of wrong types.
pub fn can_block(
    rules: &RefCell<LookupRules>,
    host: &Bound<'_, PyAny>,
    port: &Bound<'_, PyAny>,
    family: &Bound<'_, PyAny>,
    flags: &Bound<'_, PyAny>,
) -> bool {
    let (Ok(host), Ok(family), Ok(flags)) = (text(host), int(family), int(flags)) else { return true };
    let Ok(service) = (if port.is_instance_of::<PyInt>() { Ok(None) } else { text(port) }) else {
        return true;
    };
    rules.borrow_mut().can_block(&Query { host, service, family, flags })
}

/// The bytes that the C library gets for `None`, bytes, or ASCII text.
fn text<'a>(value: &'a Bound<'_, PyAny>) -> Result<Option<&'a [u8]>, Unsupported> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(bytes.as_bytes()));
    }
    let text = value.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    text.filter(|text| text.is_ascii()).map(|text| Some(text.as_bytes())).ok_or(Unsupported)
}

fn int(value: &Bound<'_, PyAny>) -> Result<i32, Unsupported> {
    value.cast::<PyInt>().ok().and_then(|value| value.extract().ok()).ok_or(Unsupported)
}

/// `socket.getaddrinfo()` may refuse the argument.
struct Unsupported;
