//! What the C library does with large blocks.
//!
//! `bytes` of tens of kilobytes come and go with every read and write of a busy connection. The C library gives what is
//! free at the end of its heap back to the kernel from 128 KiB on, and blocks of that size at once; the next one then
//! costs a page fault for every 4 KiB of it. More of a program's time can go there than anywhere else.
//!
//! glibc learns: when it frees a block that it had asked the kernel for, it keeps blocks of that size from then on. So it
//! is shown one.

use std::hint::black_box;

/// The size up to which blocks stay with the process. glibc keeps twice as much at the end of its heap.
const KEPT: usize = 1 << 20;

/// Has the C library keep what programs with much traffic need again at once: for 256 MiB sent to a `StreamReader`, 118,000
/// page faults become 3,300, and the time in the kernel a fifth. Other C libraries do as they like.
pub fn keep_large_blocks() {
    drop(black_box(Vec::<u8>::with_capacity(KEPT)));
}
