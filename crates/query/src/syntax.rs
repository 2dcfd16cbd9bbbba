//! The parser: from the text of an expression to its syntax tree.

pub(crate) mod ast;
pub(crate) mod error;
pub(crate) mod parser;
pub(crate) mod token;
