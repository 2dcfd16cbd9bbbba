//! The body of an answer, from disk to the connection in bounded memory.

pub(crate) mod block;
pub(crate) mod body;
pub(crate) mod buffer_pool;
pub(crate) mod range_encoder;
pub(crate) mod readahead;
pub(crate) mod recorded_body;
