//! CPython's C API behind safe interfaces. With `handle/{data,memory,object}.rs`, the only modules with `unsafe` code.

#[allow(unsafe_code, reason = "views CPython's argument arrays as slices")]
pub mod args;
#[allow(unsafe_code, reason = "functions that CPython calls, with raw arguments")]
pub mod attribute;
#[allow(unsafe_code, reason = "refers to an object without keeping it alive")]
pub mod back_reference;
#[allow(unsafe_code, reason = "calls the buffer protocol and reads exported memory")]
pub mod buffer;
#[allow(unsafe_code, reason = "reads and writes the memory of bytes and bytearray objects")]
pub mod bytes;
#[allow(unsafe_code, reason = "reads a field of type objects")]
pub mod class_version;
#[allow(unsafe_code, reason = "calls PyContext_*")]
pub mod context;
#[allow(
    unsafe_code,
    reason = "drops data that may be uninitialized, and shares it under the interpreter lock"
)]
pub mod dealloc;
#[allow(unsafe_code, reason = "borrows file descriptors by number")]
pub mod descriptor;
#[allow(unsafe_code, reason = "reuses the memory of freed objects")]
pub mod free_list;
#[allow(unsafe_code, reason = "passes references to the garbage collector without counting them")]
pub mod gc;
#[allow(unsafe_code, reason = "attaches to the interpreter that called")]
pub mod guard;
#[allow(unsafe_code, reason = "creates types from raw specifications and accesses slots by offset")]
pub mod heap_type;
#[allow(unsafe_code, reason = "reads and writes the dictionaries of instances")]
pub mod instance_dict;
#[allow(unsafe_code, reason = "reads and releases the interpreter lock")]
pub mod interpreter;
#[allow(unsafe_code, reason = "functions that CPython calls, with raw arguments")]
pub mod method;
#[allow(unsafe_code, reason = "functions that CPython calls, and data at an offset in an object")]
pub mod native_class;
#[allow(unsafe_code, reason = "reference counting and calls through the C API")]
pub mod object;
#[allow(unsafe_code, reason = "reads and writes the memory of a bytearray that others use too")]
pub mod stream_buffer;
#[allow(unsafe_code, reason = "calls the C library and the unwinder")]
pub mod thread_exit;
