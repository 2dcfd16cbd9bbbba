//! An expression over branches, as text and as a syntax tree.

use crate::function::names;
use crate::syntax::ast::Node;
use crate::syntax::parser::parse;
use hither_core::Error;
use std::fmt;
use std::str::FromStr;

/// A formula over the branches of a tree.
///
/// `Display` prints it with all parentheses. [`Expression::parse`] parses that text to the same
/// expression if its depth is at most half of the limit, since parentheses count, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    pub(crate) root: Node,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`Invalid`](hither_core::ErrorKind::Invalid) with the expected token and a caret under the
    /// mistake.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match parse(text) {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(error.into_error(text)),
        }
    }

    /// Parses user input: the name of a branch if `is_branch` returns true for it, otherwise an
    /// expression. A name is taken literally, whatever characters it has: `jets/jets.pt`, `track.`,
    /// `a:b`.
    ///
    /// # Errors
    /// The errors of `is_branch`, and those of [`Expression::parse`].
    pub fn resolve<E: Into<Error>>(
        text: &str,
        is_branch: impl FnOnce(&str) -> Result<bool, E>,
    ) -> Result<Self, Error> {
        if is_branch(text).map_err(Into::into)? {
            let name = text.to_owned();
            return Ok(Self { root: Node::Column { name, indices: Vec::new() } });
        }
        Self::parse(text)
    }

    /// The name of the branch, if the expression is a branch without indices.
    #[must_use]
    pub fn as_branch(&self) -> Option<&str> {
        match &self.root {
            Node::Column { name, indices } if indices.is_empty() => Some(name),
            _ => None,
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
