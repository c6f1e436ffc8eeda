//! CPython's C API behind safe interfaces.
//!
//! | module | subject |
//! | --- | --- |
//! | `object` | `Obj`, an owned reference |
//! | `method` | methods that CPython calls, their arguments, and the guard around every entry point |
//! | `heap_type`, `native_class` | types that derive from asyncio's classes, and their instances |
//! | `free_list`, `dealloc` | memory of freed handles; deallocation with bounded recursion |
//! | `thread_exit` | threads that are inside this module when the interpreter exits |
//! | `context` | `contextvars.Context` |

pub mod context;
pub mod dealloc;
pub mod free_list;
pub mod heap_type;
pub mod method;
pub mod native_class;
pub mod object;
pub mod thread_exit;
