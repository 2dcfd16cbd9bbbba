//! The parser: precedence climbing over the table of [`Binary::precedence`].
//!
//! The text may be untrusted. So its length and the depth of its tree are limited: the parser,
//! every traversal of the tree, and dropping it recurse once for each level.

use crate::function::{Aggregate, Function, names};
use crate::operator::{
    Associativity, Binary, CONDITIONAL_PRECEDENCE, NEGATED_PRECEDENCE, NOT_PRECEDENCE, Unary,
};
use crate::syntax::ast::{Index, Node, Special};
use crate::syntax::error::SyntaxError;
use crate::syntax::token::{SyntaxToken, TokenKind, tokens};
use hither_core::error::suggest::Suggestion;

/// Maximum length of an expression, in bytes. A list of a thousand runs,
/// `run==300001||run==300002||...`, takes about 13,000.
pub(crate) const MAX_LENGTH: usize = 64 * 1024;

/// Maximum depth of the tree, and of the nesting of the text, in levels. Typical expressions have
/// fewer than 20. A sum has at most as many terms as this. Chains of `||` and `&&` have no limit,
/// since they become shallow trees. One level of nesting takes 9 KB of stack in a debug build, and
/// threads have 2 MiB.
pub(crate) const MAX_DEPTH: usize = 128;

/// Maximum number of indices of one branch.
const MAX_INDICES: usize = 16;

/// Parses the complete `text`.
pub(crate) fn parse(text: &str) -> Result<Node, SyntaxError> {
    if text.len() > MAX_LENGTH {
        return Err(SyntaxError {
            span: MAX_LENGTH..MAX_LENGTH,
            message: format!(
                "the expression has {} bytes, the limit is {MAX_LENGTH}; split the query",
                text.len()
            ),
        });
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, next: 0, nesting: 0 };
    let (node, _) = parser.expression(0)?;
    match parser.peek() {
        TokenKind::End => Ok(node),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    /// Invariant: the last one is [`TokenKind::End`].
    tokens: Vec<SyntaxToken>,
    /// Index of the next token.
    next: usize,
    nesting: usize,
}

/// A node and the depth of its tree.
type NodeDepth = (Node, usize);

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.next).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len().saturating_sub(1));
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Symbol(s) if *s == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str, purpose: &str) -> Result<(), SyntaxError> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{symbol}` {purpose}")))
    }

    fn error(&self, token: usize, message: impl Into<String>) -> SyntaxError {
        let span = self.tokens.get(token).map_or(0..0, |token| token.span.clone());
        SyntaxError { span, message: message.into() }
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        let found = match self.peek() {
            TokenKind::End => "the expression ends here".to_owned(),
            TokenKind::Symbol(symbol) => format!("unexpected `{symbol}`"),
            TokenKind::Number(_) => "unexpected number".to_owned(),
            TokenKind::Name(name) | TokenKind::Quoted(name) => format!("unexpected name `{name}`"),
        };
        self.error(self.next, format!("{found}, expected {expected}"))
    }

    /// The depth of a node whose deepest operand has `depth`.
    fn depth_above(&self, depth: usize) -> Result<usize, SyntaxError> {
        if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(self.too_deep()) }
    }

    fn too_deep(&self) -> SyntaxError {
        self.error(
            self.next,
            format!("the expression is nested more than {MAX_DEPTH} deep; split the query"),
        )
    }

    /// Parses an expression up to an operator of lower precedence than `min_precedence`.
    fn expression(&mut self, min_precedence: u8) -> Result<NodeDepth, SyntaxError> {
        if self.nesting == MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let mut left = self.operand(min_precedence)?;
        while let TokenKind::Symbol(symbol) = *self.peek() {
            if symbol == "?" && min_precedence <= CONDITIONAL_PRECEDENCE {
                self.advance();
                let yes = self.expression(CONDITIONAL_PRECEDENCE)?;
                self.expect(":", "and the value if the condition is zero")?;
                let no = self.expression(CONDITIONAL_PRECEDENCE)?;
                let depth = self.depth_above(left.1.max(yes.1).max(no.1))?;
                left = (Node::Conditional(Box::new([left.0, yes.0, no.0])), depth);
                continue;
            }
            let Some(operator) = Binary::from_symbol(symbol) else { break };
            let (precedence, associativity) = operator.precedence();
            if precedence < min_precedence {
                break;
            }
            let next_precedence = precedence + u8::from(associativity == Associativity::Left);
            let mut operands = vec![left];
            while self.eat(symbol) {
                operands.push(self.expression(next_precedence)?);
                if !matches!(operator, Binary::Or | Binary::And) {
                    break;
                }
            }
            left = self.balanced(operator, operands)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// Joins `operands` with `operator` to a tree of minimum depth.
    fn balanced(
        &self,
        operator: Binary,
        mut operands: Vec<NodeDepth>,
    ) -> Result<NodeDepth, SyntaxError> {
        while operands.len() > 1 {
            let mut joined = Vec::with_capacity(operands.len() / 2 + 1);
            let mut rest = operands.into_iter();
            while let Some(left) = rest.next() {
                joined.push(match rest.next() {
                    Some(right) => {
                        let depth = self.depth_above(left.1.max(right.1))?;
                        (Node::Binary(operator, Box::new(left.0), Box::new(right.0)), depth)
                    }
                    None => left,
                });
            }
            operands = joined;
        }
        operands.pop().ok_or_else(|| self.unexpected("an operand"))
    }

    fn operand(&mut self, min_precedence: u8) -> Result<NodeDepth, SyntaxError> {
        let start = self.next;
        match self.peek().clone() {
            TokenKind::Number(value) => {
                self.advance();
                Ok((Node::Number(value), 1))
            }
            TokenKind::Name(name) => {
                self.advance();
                self.named(name, start)
            }
            TokenKind::Quoted(name) => {
                self.advance();
                self.column(name)
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.expression(0)?;
                self.expect(")", "to close the parenthesis")?;
                Ok(inner)
            }
            TokenKind::Symbol("+") => {
                self.advance();
                self.expression(NEGATED_PRECEDENCE.max(min_precedence))
            }
            TokenKind::Symbol("-") => {
                self.advance();
                let (operand, depth) = self.expression(NEGATED_PRECEDENCE.max(min_precedence))?;
                Ok((Node::Unary(Unary::Negate, Box::new(operand)), self.depth_above(depth)?))
            }
            TokenKind::Symbol("!") => {
                self.advance();
                let (operand, depth) = self.expression(NOT_PRECEDENCE)?;
                Ok((Node::Unary(Unary::Not, Box::new(operand)), self.depth_above(depth)?))
            }
            _ => Err(self.unexpected("a number, a branch, a function or `(`")),
        }
    }

    /// Parses the rest of an operand that starts with a name, which is token `start`: a call, a
    /// special variable, a constant, or a branch.
    fn named(&mut self, name: String, start: usize) -> Result<NodeDepth, SyntaxError> {
        let called = matches!(self.peek(), TokenKind::Symbol("("));
        if !called {
            if name == "pi" {
                return Ok((Node::Number(std::f64::consts::PI), 1));
            }
            if let Some(special) = Special::ALL.into_iter().find(|s| s.name() == name) {
                return Ok((Node::Special(special), 1));
            }
            if Function::find(&name).is_some_and(|f| name.contains("::") && f.arguments() == 0) {
                return Err(self.error(start, format!("`{name}` is a function, write `{name}()`")));
            }
            if name.ends_with('$') {
                let known = names().chain(Special::ALL.into_iter().map(Special::name));
                let suggestion =
                    Suggestion::similar(&name, known.filter(|known| known.ends_with('$')));
                return Err(self.error(start, format!("no variable `{name}`{suggestion}")));
            }
            if name.contains("::") {
                return Err(self.error(
                    start,
                    format!(
                        "`{name}` is not a function call; write a branch of this name in back-quotes"
                    ),
                ));
            }
            return self.column(name);
        }
        self.advance();
        let arguments = self.arguments()?;
        self.call(&name, start, arguments)
    }

    /// Parses the arguments of a call and the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<NodeDepth>, SyntaxError> {
        let mut arguments = Vec::new();
        if self.eat(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression(0)?);
            if !self.eat(",") {
                self.expect(")", "or `,` after an argument")?;
                return Ok(arguments);
            }
        }
    }

    fn call(
        &self,
        name: &str,
        start: usize,
        arguments: Vec<NodeDepth>,
    ) -> Result<NodeDepth, SyntaxError> {
        let given = arguments.len();
        let check_count = |expected: usize| {
            if given == expected {
                return Ok(());
            }
            let plural = if expected == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {expected} argument{plural}, {given} given");
            Err(self.error(start, message))
        };
        let depth =
            self.depth_above(arguments.iter().map(|(_, depth)| *depth).max().unwrap_or(0))?;
        let arguments: Vec<Node> = arguments.into_iter().map(|(node, _)| node).collect();
        if let Some(aggregate) = Aggregate::ALL.into_iter().find(|a| a.name() == name) {
            check_count(aggregate.arguments())?;
            return Ok((Node::Aggregate(aggregate, arguments), depth));
        }
        if name == "Alt$" {
            check_count(2)?;
            let parts: Box<[Node; 2]> = arguments
                .into_boxed_slice()
                .try_into()
                .map_err(|_| self.error(start, "`Alt$` takes 2 arguments"))?;
            return Ok((Node::Alternative(parts), depth));
        }
        let Some(function) = Function::find(name) else {
            let suggestion = Suggestion::similar(name, names());
            return Err(self.error(start, format!("no function `{name}`{suggestion}")));
        };
        check_count(function.arguments())?;
        Ok((Node::Call(function, arguments), depth))
    }

    /// Parses the indices after the name of a branch.
    fn column(&mut self, name: String) -> Result<NodeDepth, SyntaxError> {
        let mut indices = Vec::new();
        let mut depth = 1;
        while matches!(self.peek(), TokenKind::Symbol("[")) {
            if indices.len() == MAX_INDICES {
                return Err(self.unexpected(&format!("at most {MAX_INDICES} indices")));
            }
            self.advance();
            if self.eat("]") {
                indices.push(Index::All);
                continue;
            }
            let start = self.next;
            let (node, index_depth) = self.expression(0)?;
            self.expect("]", "to close the index")?;
            depth = depth.max(self.depth_above(index_depth)?);
            indices.push(match node {
                Node::Number(value) => Index::Constant(constant_index(value).ok_or_else(|| {
                    self.error(start, format!("index {value} is too large for any array"))
                })?),
                Node::Unary(Unary::Negate, inner) if matches!(*inner, Node::Number(_)) => {
                    return Err(self.error(start, "an index cannot be negative"));
                }
                node => Index::Computed(node),
            });
        }
        Ok((Node::Column { name, indices }, depth))
    }
}

/// A constant index; fractions are truncated, as in ROOT.
fn constant_index(value: f64) -> Option<usize> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    (value < f64::from(u32::MAX)).then_some(value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}")).to_string()
    }

    fn message(text: &str) -> String {
        parse(text).unwrap_err().message
    }

    #[test]
    fn operators_bind_as_in_root() {
        for (text, tree) in [
            ("1+2<<1", "(1.0+(2.0<<1.0))"),
            ("1|2==2", "(1.0|(2.0==2.0))"),
            ("2^3**2", "((2.0^3.0)^2.0)"),
            ("-2^2", "(-(2.0^2.0))"),
            ("2^-1*3", "((2.0^(-1.0))*3.0)"),
            ("3*-2%4", "((3.0*(-2.0))%4.0)"),
            ("3>2>1", "(3.0>(2.0>1.0))"),
            ("1==2<3", "((1.0==2.0)<3.0)"),
            ("7%4%3", "(7.0%(4.0%3.0))"),
            ("a*b*c", "(a*(b*c))"),
            ("a/b*c", "((a/b)*c)"),
            ("a*b/c", "(a*(b/c))"),
            ("5-3+2-1", "((5.0-3.0)+(2.0-1.0))"),
            ("!a^2==b", "(((!a)^2.0)==b)"),
            ("a?b:c?d:e", "(a?b:(c?d:e))"),
            ("a||b&&c|d&e<f", "(a||(b&&(c|(d&(e<f)))))"),
            ("i--1", "(i-(-1.0))"),
            ("-a-b", "((-a)-b)"),
        ] {
            assert_eq!(canonical(text), tree, "{text}");
        }
    }

    #[test]
    fn indices_belong_to_the_branch_before_them() {
        assert_eq!(canonical("x[1.7][][n-1]"), "x[1][][(n-1.0)]");
        assert_eq!(canonical("`odd name`[2]+`plain`"), "(`odd name`[2]+plain)");
        assert_eq!(canonical("`pi`*pi"), format!("(`pi`*{:?})", std::f64::consts::PI));
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, part) in [
            ("", "the expression ends here, expected a number"),
            ("x+", "the expression ends here"),
            ("(x", "expected `)` to close the parenthesis"),
            ("x y", "unexpected name `y`, expected an operator"),
            ("x[1", "expected `]`"),
            ("x[-1]", "cannot be negative"),
            ("sqr(x)", "no function `sqr`; did you mean `sq`, `sqrt` or `TMath::Sqrt`?"),
            ("TMath::abs(x)", "did you mean `TMath::Abs`?"),
            ("max(1,2,3)", "takes 2 arguments, 3 given"),
            ("TMath::Pi*2", "write `TMath::Pi()`"),
            ("Entry_$", "no variable `Entry_$`; did you mean `Entry$` or `Entries$`?"),
            ("a?b", "expected `:`"),
            ("Alt$(x)", "takes 2 arguments, 1 given"),
        ] {
            let message = message(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn depth_is_limited_for_every_kind_of_nesting() {
        for text in [
            format!("{}x{}", "(".repeat(60_000 / 2), ")".repeat(60_000 / 2)),
            "-".repeat(60_000) + "x",
            "!".repeat(60_000) + "x",
            "a*".repeat(30_000) + "a",
            "a+".repeat(30_000) + "a",
            "a?b:".repeat(15_000) + "c",
            "x[".repeat(30_000),
            "abs(".repeat(15_000),
        ] {
            assert!(message(&text).contains("nested more than"), "{}", &text[..20]);
        }
        assert!(parse(&("a==1||".repeat(10_000) + "a==2")).is_ok());
    }

    #[test]
    fn an_expression_that_is_too_long_is_an_error() {
        assert!(message(&" ".repeat(MAX_LENGTH + 1)).contains("the limit is"));
    }
}
