//! Asking the processor for memory before it is looked at.
//!
//! With a thousand connections nothing of them is in the near caches when something arrives on one: each line that is looked at
//! costs as much as a hundred instructions and more. But a wait brings many of them, and the kernel is busy for a microsecond
//! with each. What the next one needs can come meanwhile. It is a hint: right or wrong, nothing but the time changes.

/// What comes from memory at a time, in bytes.
const LINE: usize = 64;

/// Has the line with this address in it brought near, and the next one, where the processor knows how. Any address will do:
/// nothing is read.
#[inline(always)]
pub(crate) fn prefetch_two<T: ?Sized>(address: *const T) {
    prefetch(address.cast::<u8>());
    prefetch(address.cast::<u8>().wrapping_add(LINE));
}

#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this kind has the instruction, which changes nothing that a program could see and does not
        // fail where there is no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Has those parts of a value brought near that whoever comes to work on it is likely to begin with: what follows its front,
/// and its end, where an `async` block keeps how far it is and what it waits for.
#[inline(always)]
pub(crate) fn prefetch_ends(front: *const u8, length: usize) {
    prefetch(front.wrapping_add(LINE));
    prefetch_two(front.wrapping_add(length.saturating_sub(LINE)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_does_any_harm() {
        prefetch_two(std::ptr::null::<u64>());
        prefetch_two(usize::MAX as *const u8);
        prefetch_ends(std::ptr::null(), usize::MAX);
        let value = [1_u8; 3];
        prefetch_ends(value.as_ptr(), 0);
        prefetch_two(&raw const value[..]);
        assert_eq!(value, [1; 3]);
    }
}
