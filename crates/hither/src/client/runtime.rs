//! The runtime of a client, for event loops, and a flush for processes that end.

use crate::client::Client;
use hither_core::error::Result;
use tokio::runtime::Handle;

impl Client {
    /// The runtime on which the client's futures run. It ends with the client.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.context.network.runtime()
    }

    /// Saves what was learned about servers, and writes the rest of the trace, for processes that
    /// may end before the client is dropped. Dropping the client does both.
    ///
    /// # Errors
    ///
    /// As [`Client::flush_trace`].
    pub fn flush(&self) -> Result<()> {
        self.context.network.remember_all();
        self.context.writes.flush();
        self.flush_trace()
    }
}
