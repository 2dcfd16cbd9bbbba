//! Values that belong to the process that made them.
//!
//! `fork` copies memory and leaves threads behind: in the child, the runtime of a client has no threads, and a lock that one
//! of them held will never be released. So nothing that has to do with threads is touched there, not even to drop it: it
//! is forgotten, and the child makes its own.

/// A value that is of use only in the process that made it.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// Of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id())
    }

    /// The value, taken out, in the process that made it.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.process == std::process::id() { self.value.take() } else { None }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

/// A client whose end may come anywhere.
///
/// The end of a client waits for its threads. It may be dropped by one of them, or by a thread that holds the GIL, which
/// they may be waiting for: so it ends on a thread of its own.
#[derive(Debug)]
pub(crate) struct Held(Option<hither::Client>);

impl Held {
    pub(crate) fn new(client: hither::Client) -> Self {
        Self(Some(client))
    }

    /// The client.
    #[expect(clippy::expect_used, reason = "only drop takes it")]
    pub(crate) fn client(&self) -> &hither::Client {
        self.0.as_ref().expect("the client is there until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            // Without a thread to spare it ends here.
            drop(std::thread::Builder::new().name("hither-end".to_owned()).spawn(|| drop(client)));
        }
    }
}
