//! The body of an answer, from disk to the connection in bounded memory.

pub(crate) mod ahead;
pub(crate) mod block;
pub(crate) mod body;
pub(crate) mod loan;
pub(crate) mod pieces;
pub(crate) mod watched;
