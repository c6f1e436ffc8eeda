//! Fallible allocation, for memory whose size a user or a peer controls.

use std::io;

/// An out-of-memory error.
pub fn out_of_memory() -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

/// A copy of `data`.
pub fn copy(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(data.len())?;
    copy.extend_from_slice(data);
    Ok(copy)
}

/// Appends `data`; on failure `to` is unchanged.
pub fn append(to: &mut Vec<u8>, data: &[u8]) -> io::Result<()> {
    to.try_reserve(data.len())?;
    to.extend_from_slice(data);
    Ok(())
}

/// Replaces `bytes` with `size` zeroes.
pub fn fill_with_zeroes(bytes: &mut Vec<u8>, size: usize) -> io::Result<()> {
    bytes.clear();
    bytes.try_reserve_exact(size)?;
    bytes.resize(size, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_append_and_fill() {
        let mut bytes = copy(b"ab").unwrap();
        append(&mut bytes, b"cd").unwrap();
        assert_eq!(bytes, b"abcd");
        fill_with_zeroes(&mut bytes, 3).unwrap();
        assert_eq!(bytes, [0; 3]);
    }

    #[test]
    fn an_allocation_that_fails_is_out_of_memory() {
        let refused = fill_with_zeroes(&mut Vec::new(), isize::MAX as usize).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(out_of_memory().kind(), io::ErrorKind::OutOfMemory);
    }
}
