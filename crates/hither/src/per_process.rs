//! Values that are valid only in the process that made them.
//!
//! `fork` copies memory but no threads: in the child, the runtime of a client has no threads, and a
//! lock that one of them held is never released. So the child uses no value that depends on
//! threads, and does not even drop it: it leaks the parent's values, and makes its own.

/// A value that is valid only in the process that made it.
#[derive(Debug)]
pub struct PerProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> PerProcess<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// The number of the process that made the value.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// The value; None in another process.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id())
    }

    /// Takes the value out; None in another process.
    pub fn take(&mut self) -> Option<T> {
        if self.process == std::process::id() { self.value.take() } else { None }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_of_another_process_is_neither_used_nor_dropped() {
        let counted = Arc::new(());
        let mut other = PerProcess { process: 0, value: Some(Arc::clone(&counted)) };
        assert!(other.get().is_none() && other.take().is_none());
        drop(other);
        assert_eq!(Arc::strong_count(&counted), 2);
    }
}
