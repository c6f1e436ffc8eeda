//! Catches panics of user code where the loop calls it, and converts them to text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code. Returns the text of a panic.
///
/// The engine holds no borrow while user code runs, and its values are consistent between two operations. So no code
/// sees a half-done change afterwards.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch_payload(user_code).map_err(|payload| payload.text())
}

/// Runs user code. Returns the payload of a panic.
pub(crate) fn catch_payload<R>(user_code: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(|payload| Payload(Some(payload)))
}

/// The payload of a panic: a value of the user, whose destructor may panic too. That panic is caught here.
pub(crate) struct Payload(Option<Box<dyn Any + Send>>);

impl Payload {
    /// The text of the panic.
    pub(crate) fn text(&self) -> String {
        let payload = self.0.as_deref();
        let text = payload.and_then(|payload| payload.downcast_ref::<&'static str>().copied());
        let string = || payload.and_then(|payload| payload.downcast_ref::<String>()).map(String::as_str);
        text.or_else(string).unwrap_or("a value of unknown type").to_owned()
    }

    /// The payload, for `resume_unwind`.
    pub(crate) fn into_inner(mut self) -> Box<dyn Any + Send> {
        // Always `Some` here: only this function and the destructor take it.
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
    fn the_message_of_a_panic_is_returned() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(catch(|| panic!("with {}", 1)), Err::<(), _>("with 1".to_owned()));
        let other = catch(|| std::panic::panic_any(7));
        assert_eq!(other, Err::<(), _>("a value of unknown type".to_owned()));
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_caught() {
        struct PanicsOnDrop;
        impl Drop for PanicsOnDrop {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(catch(|| std::panic::panic_any(PanicsOnDrop)).is_err());
    }
}
