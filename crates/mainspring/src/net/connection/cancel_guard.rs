//! `CancelGuard`: undoes a half-finished operation whose future is dropped.

/// Calls `cancel` with the value when it is dropped, unless it is [disarmed](CancelGuard::disarm) first.
pub(crate) struct CancelGuard<T> {
    value: Option<T>,
    cancel: fn(&T),
}

impl<T> CancelGuard<T> {
    pub(crate) fn new(value: T, cancel: fn(&T)) -> Self {
        CancelGuard { value: Some(value), cancel }
    }

    pub(crate) fn disarm(mut self) {
        self.value = None;
    }
}

impl<T> Drop for CancelGuard<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            (self.cancel)(&value);
        }
    }
}
