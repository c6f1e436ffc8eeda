//! Panics of user code: caught where the loop calls it, and turned into text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code; what it panics with comes back as text.
///
/// The engine holds no borrow while user code runs, and its values are whole between two operations, so nothing
/// is seen half-done afterwards.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch_payload(user_code).map_err(|payload| payload.text())
}

/// Runs user code as [`catch`] does; what it panics with comes back as it is.
pub(crate) fn catch_payload<R>(user_code: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(|payload| Payload(Some(payload)))
}

/// What a panic was given: the user's own value, which may panic once more when it is dropped. Here that does no
/// harm.
pub(crate) struct Payload(Option<Box<dyn Any + Send>>);

impl Payload {
    /// What the panic said.
    pub(crate) fn text(&self) -> String {
        let payload = self.0.as_deref();
        let text = payload.and_then(|payload| payload.downcast_ref::<&'static str>().copied());
        let string = || payload.and_then(|payload| payload.downcast_ref::<String>()).map(String::as_str);
        text.or_else(string).unwrap_or("a value of unknown type").to_owned()
    }

    /// The value itself, to be panicked with again.
    pub(crate) fn into_inner(mut self) -> Box<dyn Any + Send> {
        // It is there until this function or the destructor.
        self.0.take().unwrap_or_else(|| Box::new(()))
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
    }
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
