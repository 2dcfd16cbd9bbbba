//! Evaluation of expressions over chunks of entries, a batch of instances at a time.

pub(crate) mod batch;
pub(crate) mod bind;
pub(crate) mod column;
pub(crate) mod evaluate;
pub(crate) mod select;
pub(crate) mod shape;
