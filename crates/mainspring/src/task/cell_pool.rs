//! `CellPool`: memory of ended tasks, for new ones.
//!
//! The system allocator takes a third of the time to start and end a small task: row `spawn` of `bench/peers`. The pool
//! belongs to a loop, is used on its thread only, and keeps at most [`MAX_BYTES`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// The memory of cells up to this size is reused. The future of a larger one costs more than its allocation.
const MAX_SIZE: usize = 512;
/// The sizes are multiples of this.
const STEP: usize = 64;
/// The alignment of all memory in the pool.
const ALIGN: usize = 16;
/// What the pool keeps at most.
const MAX_BYTES: usize = 256 * 1024;

/// Free memory, which begins with the next one of the same size.
struct Free {
    next: Option<NonNull<Free>>,
}

#[derive(Default)]
pub(crate) struct CellPool {
    /// One list per size.
    lists: [Cell<Option<NonNull<Free>>>; MAX_SIZE / STEP],
    /// The total size of the free memory.
    bytes: Cell<usize>,
}

/// How the memory of a cell is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellLayout {
    layout: Layout,
    /// The index of its list in a pool. Larger than any index if the memory is not pooled.
    list: usize,
}

impl CellLayout {
    /// Rounds the size of a cell up to one of the sizes of the pool, if it fits.
    pub(super) const fn new(layout: Layout) -> Self {
        let size = layout.size().next_multiple_of(STEP);
        match Layout::from_size_align(size, ALIGN) {
            Ok(pooled) if size <= MAX_SIZE && size > 0 && layout.align() <= ALIGN => {
                CellLayout { layout: pooled, list: size / STEP - 1 }
            }
            _ => CellLayout { layout, list: usize::MAX },
        }
    }

    /// Frees the memory.
    ///
    /// # Safety
    ///
    /// The memory was allocated with this layout, and is not used again.
    pub(super) unsafe fn free(self, memory: NonNull<u8>) {
        // SAFETY: as this function requires.
        unsafe { dealloc(memory.as_ptr(), self.layout) };
    }
}

/// Allocates memory for a cell, with or without a pool.
#[inline(always)]
pub(super) fn allocate(pool: Option<&CellPool>, layout: CellLayout) -> NonNull<u8> {
    if let Some(free) = pool.and_then(|pool| pool.take(layout)) {
        return free;
    }
    let layout = layout.layout;
    // SAFETY: a cell has a head, so its size is not zero.
    let pointer = unsafe { alloc(layout) };
    NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(layout))
}

impl CellPool {
    #[inline(always)]
    fn take(&self, layout: CellLayout) -> Option<NonNull<u8>> {
        let list = self.lists.get(layout.list)?;
        let free = list.get()?;
        // SAFETY: memory in a list is valid, not used otherwise, and begins with a `Free`.
        list.set(unsafe { free.as_ref().next });
        self.bytes.set(self.bytes.get() - layout.layout.size());
        Some(free.cast())
    }

    /// Keeps the memory, or frees it.
    ///
    /// # Safety
    ///
    /// The memory was allocated with this layout, and is not used again.
    #[inline(always)]
    pub(super) unsafe fn put(&self, memory: NonNull<u8>, layout: CellLayout) {
        let bytes = self.bytes.get() + layout.layout.size();
        match self.lists.get(layout.list) {
            Some(list) if bytes <= MAX_BYTES => {
                let free = memory.cast::<Free>();
                // SAFETY: the memory is at least `STEP` bytes, aligned to `ALIGN`, and not used otherwise.
                unsafe { free.write(Free { next: list.get() }) };
                list.set(Some(free));
                self.bytes.set(bytes);
            }
            // SAFETY: as this function requires.
            _ => unsafe { layout.free(memory) },
        }
    }
}

impl Drop for CellPool {
    fn drop(&mut self) {
        for (list, size) in self.lists.iter().zip((STEP..).step_by(STEP)) {
            let Ok(layout) = Layout::from_size_align(size, ALIGN) else { continue };
            let mut next = list.take();
            while let Some(free) = next {
                // SAFETY: memory in the list of this size was allocated with this layout, and is not used again.
                unsafe {
                    next = free.as_ref().next;
                    dealloc(free.as_ptr().cast(), layout);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn layout(size: usize) -> CellLayout {
        CellLayout::new(Layout::from_size_align(size, 8).unwrap())
    }

    #[test]
    fn memory_is_reused_for_cells_of_a_similar_size() {
        let pool = CellPool::default();
        let memory = allocate(Some(&pool), layout(100));
        // SAFETY: it was allocated with this layout, and is not used again.
        unsafe { pool.put(memory, layout(100)) };
        let other = allocate(Some(&pool), layout(200));
        assert_ne!(other, memory);
        let same = allocate(Some(&pool), layout(128));
        assert_eq!(same, memory);
        // SAFETY: as above.
        unsafe {
            pool.put(other, layout(200));
            pool.put(same, layout(128));
        }
    }

    #[test]
    fn a_pool_has_a_limit_and_refuses_large_memory() {
        let pool = CellPool::default();
        for size in [MAX_SIZE, MAX_SIZE + 1] {
            let count = 2 * MAX_BYTES / size;
            let all: Vec<_> = (0..count).map(|_| allocate(None, layout(size))).collect();
            // SAFETY: each was allocated with this layout, and is not used again.
            all.into_iter().for_each(|memory| unsafe { pool.put(memory, layout(size)) });
            assert_eq!(pool.bytes.get(), MAX_BYTES);
        }
    }
}
