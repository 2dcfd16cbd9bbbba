//! The functions that an expression can call.
//!
//! There are two families, as in ROOT. `TFormula`'s own functions return a number for every
//! argument: `log` of zero or less is 0, `sqrt` uses the absolute value, `asin` beyond 1 is 0, and
//! `exp` limits its argument to 700. The functions of `TMath::` and the C library are called
//! unchanged and can return NaN or infinity.

use crate::operator::{signed, truth};
use std::f64::consts;

/// A function of numbers.
#[derive(Debug)]
pub(crate) struct Function {
    /// The name in an expression.
    pub(crate) name: &'static str,
    /// The computation.
    pub(crate) compute: Compute,
}

/// The computation of a function, by the number of its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compute {
    Constant(f64),
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    Three(fn(f64, f64, f64) -> f64),
}

impl Function {
    /// Number of arguments.
    pub(crate) fn arguments(&self) -> usize {
        match self.compute {
            Compute::Constant(_) => 0,
            Compute::One(_) => 1,
            Compute::Two(_) => 2,
            Compute::Three(_) => 3,
        }
    }

    /// The function called `name`.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }
}

/// Functions are equal if their names are: each name occurs once.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// An aggregate: a reduction of the elements of an entry to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    /// `Sum$(x)`
    Sum,
    /// `Min$(x)`: 0 without elements.
    Min,
    /// `Max$(x)`: 0 without elements.
    Max,
    /// `MinIf$(x, condition)`
    MinIf,
    /// `MaxIf$(x, condition)`
    MaxIf,
    /// `Length$(x)`
    Length,
}

impl Aggregate {
    /// All aggregates.
    pub(crate) const ALL: [Self; 6] =
        [Self::Sum, Self::Min, Self::Max, Self::MinIf, Self::MaxIf, Self::Length];

    /// The name in an expression.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sum => "Sum$",
            Self::Min => "Min$",
            Self::Max => "Max$",
            Self::MinIf => "MinIf$",
            Self::MaxIf => "MaxIf$",
            Self::Length => "Length$",
        }
    }

    /// Number of arguments.
    pub(crate) fn arguments(self) -> usize {
        match self {
            Self::Sum | Self::Min | Self::Max | Self::Length => 1,
            Self::MinIf | Self::MaxIf => 2,
        }
    }
}

/// The names of all functions and aggregates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .map(|function| function.name)
        .chain(Aggregate::ALL.into_iter().map(Aggregate::name))
        .chain(["Alt$"])
}

const fn constant(name: &'static str, value: f64) -> Function {
    Function { name, compute: Compute::Constant(value) }
}

const fn one(name: &'static str, compute: fn(f64) -> f64) -> Function {
    Function { name, compute: Compute::One(compute) }
}

const fn two(name: &'static str, compute: fn(f64, f64) -> f64) -> Function {
    Function { name, compute: Compute::Two(compute) }
}

static FUNCTIONS: [Function; 84] = [
    // TFormula's own
    one("cos", f64::cos),
    one("sin", f64::sin),
    one("tan", |x| if x.cos() == 0.0 { 0.0 } else { x.tan() }),
    one("acos", |x| if x.abs() > 1.0 { 0.0 } else { x.acos() }),
    one("asin", |x| if x.abs() > 1.0 { 0.0 } else { x.asin() }),
    one("atan", f64::atan),
    two("atan2", f64::atan2),
    two("fmod", |x, y| x % y),
    one("cosh", f64::cosh),
    one("sinh", f64::sinh),
    one("tanh", f64::tanh),
    one("acosh", |x| if x < 1.0 { 0.0 } else { x.acosh() }),
    one("asinh", f64::asinh),
    one("atanh", |x| if x.abs() > 1.0 { 0.0 } else { x.atanh() }),
    two("pow", f64::powf),
    one("sq", |x| x * x),
    one("sqrt", |x| x.abs().sqrt()),
    two("min", |x, y| if y < x { y } else { x }),
    two("max", |x, y| if x < y { y } else { x }),
    one("log", |x| if x > 0.0 { x.ln() } else { 0.0 }),
    one("log10", |x| if x > 0.0 { x.log10() } else { 0.0 }),
    one("exp", |x| if x < -700.0 { 0.0 } else { x.min(700.0).exp() }),
    one("abs", f64::abs),
    one("sign", |x| if x < 0.0 { -1.0 } else { 1.0 }),
    one("int", integer),
    // the C library
    one("fabs", f64::abs),
    one("floor", f64::floor),
    one("ceil", f64::ceil),
    one("round", f64::round),
    one("trunc", f64::trunc),
    one("rint", f64::round_ties_even),
    one("cbrt", f64::cbrt),
    one("exp2", f64::exp2),
    one("expm1", f64::exp_m1),
    one("log1p", f64::ln_1p),
    one("log2", f64::log2),
    two("hypot", f64::hypot),
    two("fmin", f64::min),
    two("fmax", f64::max),
    one("isnan", |x| truth(x.is_nan())),
    one("isinf", |x| truth(x.is_infinite())),
    one("std::abs", f64::abs),
    // TMath
    constant("TMath::Pi", consts::PI),
    constant("TMath::TwoPi", consts::TAU),
    constant("TMath::PiOver2", consts::FRAC_PI_2),
    constant("TMath::PiOver4", consts::FRAC_PI_4),
    constant("TMath::InvPi", consts::FRAC_1_PI),
    constant("TMath::E", consts::E),
    constant("TMath::Ln10", consts::LN_10),
    constant("TMath::LogE", consts::LOG10_E),
    constant("TMath::Sqrt2", consts::SQRT_2),
    constant("TMath::DegToRad", consts::PI / 180.0),
    constant("TMath::RadToDeg", 180.0 / consts::PI),
    one("TMath::Abs", f64::abs),
    one("TMath::Sqrt", f64::sqrt),
    one("TMath::Sq", |x| x * x),
    one("TMath::Exp", f64::exp),
    one("TMath::Log", f64::ln),
    one("TMath::Log2", f64::log2),
    one("TMath::Log10", f64::log10),
    one("TMath::Sin", f64::sin),
    one("TMath::Cos", f64::cos),
    one("TMath::Tan", f64::tan),
    one("TMath::ASin", f64::asin),
    one("TMath::ACos", f64::acos),
    one("TMath::ATan", f64::atan),
    two("TMath::ATan2", f64::atan2),
    one("TMath::SinH", f64::sinh),
    one("TMath::CosH", f64::cosh),
    one("TMath::TanH", f64::tanh),
    one("TMath::ASinH", f64::asinh),
    one("TMath::ACosH", f64::acosh),
    one("TMath::ATanH", f64::atanh),
    one("TMath::Floor", f64::floor),
    one("TMath::Ceil", f64::ceil),
    one("TMath::Nint", f64::round_ties_even),
    one("TMath::IsNaN", |x| truth(x.is_nan())),
    one("TMath::Finite", |x| truth(x.is_finite())),
    two("TMath::Power", f64::powf),
    two("TMath::Hypot", f64::hypot),
    two("TMath::Min", |x, y| if x <= y { x } else { y }),
    two("TMath::Max", |x, y| if x >= y { x } else { y }),
    two("TMath::Sign", f64::copysign),
    Function {
        name: "TMath::Range",
        compute: Compute::Three(|low, high, x| {
            if x < low {
                low
            } else if x > high {
                high
            } else {
                x
            }
        }),
    },
];

/// Truncation to a 64-bit integer.
#[expect(clippy::cast_precision_loss, reason = "results are in double precision, as in ROOT")]
fn integer(x: f64) -> f64 {
    signed(x) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_argument(name: &str, x: f64) -> f64 {
        match Function::find(name).unwrap().compute {
            Compute::One(compute) => compute(x),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn own_functions_return_a_number_for_every_argument() {
        assert_eq!(one_argument("log", -1.0), 0.0);
        assert_eq!(one_argument("sqrt", -4.0), 2.0);
        assert_eq!(one_argument("asin", 2.0), 0.0);
        assert_eq!(one_argument("exp", 1000.0), 700_f64.exp());
        assert_eq!(one_argument("int", -2.8), -2.0);
    }

    #[test]
    fn library_functions_can_return_nan_and_infinity() {
        assert!(one_argument("TMath::Log", -1.0).is_nan());
        assert!(one_argument("TMath::Sqrt", -4.0).is_nan());
        assert_eq!(one_argument("TMath::Exp", 1000.0), f64::INFINITY);
        assert_eq!(one_argument("TMath::Nint", 2.5), 2.0);
        assert_eq!(one_argument("round", 2.5), 3.0);
    }

    #[test]
    fn each_name_occurs_once() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
