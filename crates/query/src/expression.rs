//! An expression over branches, as text and as a syntax tree.

use crate::function::names;
use crate::syntax::ast::Node;
use crate::syntax::parser::parse;
use hither_core::Error;
use std::fmt;
use std::str::FromStr;

/// A formula over the branches of a tree.
///
/// `Display` writes it with all its parentheses. [`Expression::parse`] reads that back as the same
/// expression if it is nested at most half as deep as is allowed: parentheses nest, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    pub(crate) root: Node,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`Invalid`](hither_core::ErrorKind::Invalid) with what was expected and a caret under the
    /// mistake.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match parse(text) {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(error.into_error(text)),
        }
    }

    /// The names of the branches in it, each once, in the order in which they appear.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        self.root.walk(&mut |node| {
            if let Node::Column { name, .. } = node
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        });
        names
    }

    /// The names of all functions that an expression can call.
    pub fn functions() -> impl Iterator<Item = &'static str> {
        names()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl FromStr for Expression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}
