//! Child processes and pipes of the Rust face, with real processes.

mod connected_pipes;
#[path = "../face/support.rs"]
#[allow(dead_code, reason = "shared with tests that use all of it")]
mod support;
