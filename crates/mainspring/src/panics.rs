//! Panics of user code: caught where the loop calls it, and turned into text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code; what it panics with comes back as text.
///
/// The engine holds no borrow while user code runs, and its values are whole between two operations, so nothing
/// is seen half-done afterwards.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(text)
}

/// What a panic said.
fn text(payload: Box<dyn Any + Send>) -> String {
    let text = match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => {
            payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a value of unknown type".to_owned())
        }
    };
    // The payload is the user's own value, and may panic once more when it is dropped.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_says_is_told() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(catch(|| panic!("with {}", 1)), Err::<(), _>("with 1".to_owned()));
        let odd = catch(|| std::panic::panic_any(7));
        assert_eq!(odd, Err::<(), _>("a value of unknown type".to_owned()));
    }

    #[test]
    fn a_payload_that_panics_when_dropped_does_no_harm() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(catch(|| std::panic::panic_any(Bomb)).is_err());
    }
}
