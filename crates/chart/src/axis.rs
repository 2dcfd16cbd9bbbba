//! Ticks of an axis, and numbers as text.

/// Round numbers from `lo` to `hi`, at most `max` of them (if that is at least 2): multiples of 1,
/// 2 or 5 times a power of ten.
#[must_use]
pub fn ticks(lo: f64, hi: f64, max: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "there are a few ticks")]
    let smallest = (hi / max.max(1) as f64) - (lo / max.max(1) as f64);
    if !(smallest > 0.0 && smallest.is_finite()) {
        return Vec::new();
    }
    for step in round_steps(smallest * 0.999_999).take(6) {
        let first = (lo / step).ceil();
        let last = (hi / step).floor();
        #[expect(clippy::cast_precision_loss, reason = "there are a few ticks")]
        let fits = last - first < max as f64;
        if fits {
            let mut ticks = Vec::new();
            let mut at = first;
            while at <= last && ticks.len() < max.max(2) {
                ticks.push(if at == 0.0 { 0.0 } else { at * step });
                at += 1.0;
            }
            return ticks;
        }
    }
    Vec::new()
}

/// Multiples of powers of ten by 1, 2 and 5, ascending, from the first that is at least `least`.
pub fn round_steps(least: f64) -> impl Iterator<Item = f64> {
    let decade = 10_f64.powf(least.log10().floor());
    let decades = std::iter::successors(Some(decade), |it| Some(it * 10.0));
    let steps = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade));
    steps.skip_while(move |step| *step < least)
}

/// Labels of `ticks` with as many digits as are needed to make them distinct.
#[must_use]
pub fn labels(ticks: &[f64]) -> Vec<String> {
    let distinct = |texts: &[String]| texts.windows(2).all(|pair| pair[0] != pair[1]);
    let exact = |texts: &[String]| {
        let scale = ticks.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let mut pairs = texts.iter().zip(ticks);
        pairs.all(|(text, tick)| {
            text.replace(',', "")
                .parse::<f64>()
                .is_ok_and(|read| (read - tick).abs() < 1e-9 * scale)
        })
    };
    for digits in 1..=17 {
        let texts: Vec<String> = ticks.iter().map(|tick| number(*tick, digits)).collect();
        if distinct(&texts) && (digits == 17 || exact(&texts)) {
            return texts;
        }
    }
    ticks.iter().map(|tick| number(*tick, 17)).collect()
}

/// `x` with `digits` significant digits, without zeros at the end.
#[must_use]
pub fn number(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { "0".to_owned() } else { x.to_string() };
    }
    let scientific = format!("{x:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5..7).contains(&exponent) {
        let decimals = i32::try_from(digits).unwrap_or(17) - 1 - exponent;
        // Digits beyond the requested ones are zeros, so that 123456 to three digits is 123000.
        let value: f64 = scientific.parse().unwrap_or(x);
        return trimmed(&format!("{value:.*}", usize::try_from(decimals).unwrap_or(0)));
    }
    format!("{}e{exponent}", trimmed(mantissa))
}

fn trimmed(text: &str) -> String {
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text.to_owned()
}

/// A count with a separator between its thousands.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 400.0, 5), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(ticks(-3.5, 21.5, 6), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(
            labels(&ticks(0.1, 0.45, 9)),
            ["0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4", "0.45"]
        );
        assert!(ticks(1.0, 1.0, 5).is_empty() && ticks(f64::NAN, 1.0, 5).is_empty());
        for (lo, hi) in
            [(0.0, 1e-300), (-1e300, 1e300), (1e15, 1e15 + 1.0), (-0.3, 1e7), (3.0, 97.0)]
        {
            let ticks = ticks(lo, hi, 6);
            assert!((2..=6).contains(&ticks.len()), "{lo} {hi} {ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
        }
    }

    #[test]
    fn numbers_are_short() {
        for (x, digits, text) in [
            (0.0, 5, "0"),
            (1234.5678, 5, "1234.6"),
            (0.000_123_456, 3, "0.000123"),
            (1e-7, 5, "1e-7"),
            (2.5e9, 5, "2.5e9"),
            (123_456.0, 3, "123000"),
            (-17.0, 5, "-17"),
            (f64::NAN, 5, "NaN"),
        ] {
            assert_eq!(number(x, digits), text);
        }
        assert_eq!(grouped(4_811_000), "4,811,000");
        assert_eq!(grouped(12), "12");
    }
}
