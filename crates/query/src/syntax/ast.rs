//! The syntax tree of an expression.

use crate::function::{Aggregate, Function};
use crate::operator::{Binary, Unary};
use crate::syntax::token::name_length;
use std::fmt;

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A finite number that is not negative.
    Number(f64),
    /// A branch and its indices.
    Column { name: String, indices: Vec<Index> },
    /// `-x`, `!x`.
    Unary(Unary, Box<Self>),
    /// `x + y`.
    Binary(Binary, Box<Self>, Box<Self>),
    /// `condition ? yes : no`.
    Conditional(Box<[Self; 3]>),
    /// `sqrt(x)`.
    Call(&'static Function, Vec<Self>),
    /// `Sum$(x)`: one number for each entry, from its own loop.
    Aggregate(Aggregate, Vec<Self>),
    /// `Alt$(x, y)`: `x` where it has an element, `y` elsewhere.
    Alternative(Box<[Self; 2]>),
    /// `Entry$`.
    Special(Special),
}

/// An index in brackets after the name of a branch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Index {
    /// `[]`: all elements.
    All,
    /// `[3]`.
    Constant(usize),
    /// `[n-1]`: one element, computed for each entry.
    Computed(Node),
}

/// A variable that is not a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// `Entry$`: the number of the entry.
    Entry,
    /// `Entries$`: the number of entries of the tree.
    Entries,
    /// `Iteration$`: the number of the instance within its entry.
    Iteration,
    /// `Length$`: the number of instances of the entry.
    Length,
}

impl Special {
    /// All special variables.
    pub(crate) const ALL: [Self; 4] = [Self::Entry, Self::Entries, Self::Iteration, Self::Length];

    /// The name in an expression.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Entry => "Entry$",
            Self::Entries => "Entries$",
            Self::Iteration => "Iteration$",
            Self::Length => "Length$",
        }
    }
}

impl Node {
    /// Calls `visit` on this node and all below it, in the order of the text.
    pub(crate) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::Number(_) | Self::Special(_) => {}
            Self::Column { indices, .. } => {
                for index in indices {
                    if let Index::Computed(node) = index {
                        node.walk(visit);
                    }
                }
            }
            Self::Unary(_, operand) => operand.walk(visit),
            Self::Binary(_, left, right) => {
                left.walk(visit);
                right.walk(visit);
            }
            Self::Conditional(parts) => parts.iter().for_each(|part| part.walk(visit)),
            Self::Alternative(parts) => parts.iter().for_each(|part| part.walk(visit)),
            Self::Call(_, arguments) | Self::Aggregate(_, arguments) => {
                arguments.iter().for_each(|argument| argument.walk(visit));
            }
        }
    }
}

/// Text with parentheses around every operation, which parses to the same tree.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Column { name, indices } => {
                if is_plain(name) {
                    f.write_str(name)?;
                } else {
                    write!(f, "`{name}`")?;
                }
                for index in indices {
                    match index {
                        Index::All => f.write_str("[]")?,
                        Index::Constant(value) => write!(f, "[{value}]")?,
                        Index::Computed(node) => write!(f, "[{node}]")?,
                    }
                }
                Ok(())
            }
            Self::Unary(operator, operand) => write!(f, "({}{operand})", operator.symbol()),
            Self::Binary(operator, left, right) => {
                write!(f, "({left}{}{right})", operator.symbol())
            }
            Self::Conditional(parts) => {
                let [condition, yes, no] = parts.as_ref();
                write!(f, "({condition}?{yes}:{no})")
            }
            Self::Call(function, arguments) => write_call(f, function.name, arguments),
            Self::Aggregate(aggregate, arguments) => write_call(f, aggregate.name(), arguments),
            Self::Alternative(parts) => write_call(f, "Alt$", parts.as_slice()),
            Self::Special(special) => f.write_str(special.name()),
        }
    }
}

/// Returns true if `name` without back-quotes parses as a branch of that name.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name_length(name) == name.len()
        && !name.ends_with('$')
        && !name.contains("::")
        && name != "pi"
}

fn write_call(f: &mut fmt::Formatter<'_>, name: &str, arguments: &[Node]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (i, argument) in arguments.iter().enumerate() {
        write!(f, "{}{argument}", if i == 0 { "" } else { "," })?;
    }
    f.write_str(")")
}
