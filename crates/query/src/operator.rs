//! The operators, with the semantics of `TTreeFormula`.
//!
//! All arithmetic is in double precision, whatever the types of the branches: `7/2` is 3.5. These
//! differences from C were observed in ROOT 6.40:
//!
//! - division by zero gives 0;
//! - `%` truncates both operands to 64-bit integers first; the sign is that of the left one;
//! - `&`, `|`, `<<` and `>>` work on unsigned 64-bit integers, so `-1 | 0` is 2^64 - 1;
//! - each operator has its own precedence, see [`Binary::precedence`];
//! - `^` and `**` are powers.
//!
//! ROOT crashes on `x % 0`; here the result is 0, as for division.

/// An operator before its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    /// `-x`
    Negate,
    /// `!x`
    Not,
}

impl Unary {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Negate => "-",
            Self::Not => "!",
        }
    }

    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Self::Negate => -x,
            Self::Not => truth(x == 0.0),
        }
    }
}

/// An operator between its operands, lowest precedence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    BitOr,
    BitAnd,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Modulo,
    ShiftRight,
    ShiftLeft,
    Multiply,
    Divide,
    Power,
}

/// The grouping of equal operators, as in `a - b - c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Associativity {
    /// `(a - b) - c`
    Left,
    /// `a * (b * c)`
    Right,
}

/// The precedence of `? :`, lower than that of every operator.
pub(crate) const CONDITIONAL_PRECEDENCE: u8 = 1;

/// The precedence of the operand of a minus sign: `-a*b` is `-(a*b)`, `-a-b` is `(-a)-b`.
pub(crate) const NEGATED_PRECEDENCE: u8 = 14;

/// The precedence of the operand of `!`, higher than that of every operator.
pub(crate) const NOT_PRECEDENCE: u8 = 20;

impl Binary {
    /// Returns true if the result is a truth value.
    pub(crate) fn is_truth(self) -> bool {
        use Binary::{And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual, Or};
        matches!(self, Or | And | Less | Greater | LessOrEqual | GreaterOrEqual | Equal | NotEqual)
    }

    /// The operator with this symbol.
    pub(crate) fn from_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "||" => Self::Or,
            "&&" => Self::And,
            "|" => Self::BitOr,
            "&" => Self::BitAnd,
            "<" => Self::Less,
            ">" => Self::Greater,
            "<=" => Self::LessOrEqual,
            ">=" => Self::GreaterOrEqual,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "+" => Self::Add,
            "-" => Self::Subtract,
            "%" => Self::Modulo,
            ">>" => Self::ShiftRight,
            "<<" => Self::ShiftLeft,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "^" | "**" => Self::Power,
            _ => return None,
        })
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::BitOr => "|",
            Self::BitAnd => "&",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessOrEqual => "<=",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Modulo => "%",
            Self::ShiftRight => ">>",
            Self::ShiftLeft => "<<",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Power => "^",
        }
    }

    /// The precedence and associativity of the operator.
    ///
    /// ROOT (`TFormula::Analyze`) splits an expression at the operator of lowest precedence. It
    /// searches for one operator after the other, so each has its own precedence, and those that it
    /// searches from the left are right-associative: `1+2<<1` is 5, `3>2>1` is `3>(2>1)`, `10%4%3`
    /// is `10%(4%3)`, `a*b/c` is `a*(b/c)`, `a+b-c` is `a+(b-c)` (which rounds differently),
    /// `2^3^2` is 64. If both groupings give the same result, as for `||`, the parser may choose.
    pub(crate) fn precedence(self) -> (u8, Associativity) {
        let associativity = match self {
            Self::Or | Self::And | Self::Add | Self::Subtract | Self::Divide | Self::Power => {
                Associativity::Left
            }
            _ => Associativity::Right,
        };
        let precedence = match self {
            Self::Or => 2,
            Self::And => 3,
            Self::BitOr => 4,
            Self::BitAnd => 5,
            Self::Less => 6,
            Self::Greater => 7,
            Self::LessOrEqual => 8,
            Self::GreaterOrEqual => 9,
            Self::Equal => 10,
            Self::NotEqual => 11,
            Self::Add => 12,
            Self::Subtract => 13,
            Self::Modulo => 14,
            Self::ShiftRight => 15,
            Self::ShiftLeft => 16,
            Self::Multiply => 17,
            Self::Divide => 18,
            Self::Power => 19,
        };
        (precedence, associativity)
    }

    /// The result for one pair of numbers.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "results are in double precision, as in ROOT")]
    pub(crate) fn apply(self, x: f64, y: f64) -> f64 {
        match self {
            Self::Or => truth(x != 0.0 || y != 0.0),
            Self::And => truth(x != 0.0 && y != 0.0),
            Self::BitOr => (unsigned(x) | unsigned(y)) as f64,
            Self::BitAnd => (unsigned(x) & unsigned(y)) as f64,
            Self::Less => truth(x < y),
            Self::Greater => truth(x > y),
            Self::LessOrEqual => truth(x <= y),
            Self::GreaterOrEqual => truth(x >= y),
            Self::Equal => truth(x == y),
            Self::NotEqual => truth(x != y),
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Modulo => signed(x).checked_rem(signed(y)).unwrap_or(0) as f64,
            Self::ShiftRight => unsigned(x).wrapping_shr(shift(y)) as f64,
            Self::ShiftLeft => unsigned(x).wrapping_shl(shift(y)) as f64,
            Self::Multiply => x * y,
            Self::Divide => divide(x, y),
            Self::Power => power(x, y),
        }
    }
}

/// 1 for true, 0 for false.
#[inline]
pub(crate) fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

#[inline]
fn divide(x: f64, y: f64) -> f64 {
    if y == 0.0 { 0.0 } else { x / y }
}

/// The power `x^y`; ROOT multiplies instead of calling `pow` for `x^2`.
#[inline]
fn power(x: f64, y: f64) -> f64 {
    if y == 2.0 { x * x } else { x.powf(y) }
}

/// Truncation to a signed integer with the rules of x86: the smallest integer if the value is out
/// of range.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(crate) fn signed(x: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&x) { x as i64 } else { i64::MIN }
}

/// Truncation to an unsigned integer; negative numbers wrap.
#[inline]
#[expect(clippy::cast_sign_loss, reason = "wrapping is intended")]
fn unsigned(x: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if x < LIMIT { signed(x) as u64 } else { signed(x - LIMIT) as u64 ^ (1 << 63) }
}

/// The number of bits to shift by. Only its lowest six bits count, as on x86.
#[inline]
fn shift(y: f64) -> u32 {
    (unsigned(y) & 63) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_convert_to_integers_as_in_root() {
        assert_eq!(Binary::Modulo.apply(-7.9, 3.2), -1.0);
        assert_eq!(Binary::Modulo.apply(7.0, 0.5), 0.0);
        assert_eq!(Binary::Modulo.apply(-9.3e18, -1.0), 0.0);
        assert_eq!(Binary::BitOr.apply(-5.0, 3.0), 18_446_744_073_709_551_615.0);
        assert_eq!(Binary::BitAnd.apply(-5.0, 3.0), 3.0);
        assert_eq!(Binary::ShiftRight.apply(21.0, 1.0), 10.0);
        assert_eq!(unsigned(1.8e19), 18_000_000_000_000_000_000);
    }

    #[test]
    fn division_by_zero_gives_zero() {
        assert_eq!(Binary::Divide.apply(7.0, 0.0), 0.0);
        assert_eq!(Binary::Divide.apply(7.0, 2.0), 3.5);
    }

    #[test]
    fn every_symbol_parses_to_its_operator() {
        for symbol in ["||", "&&", "|", "&", "<", ">", "<=", ">=", "==", "!=", "+", "-", "%"] {
            assert_eq!(Binary::from_symbol(symbol).unwrap().symbol(), symbol);
        }
        assert_eq!(Binary::from_symbol("**"), Some(Binary::Power));
    }
}
