//! Properties of every expression.

use hither_formats::{Column, Values};
use hither_query::{Chunk, Expression, Histogram, HistogramBuilder, Selection};
use proptest::prelude::*;

/// Text that resembles an expression.
fn scrambled() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "x", "j", "1", "2.5", "(", ")", "[", "]", "+", "-", "*", "/", "%", "^", "**", "<",
            "<<", "&&", "||", "!", "?", ":", ",", "`", " ", "e", ".", "0x", "Sum$", "Alt$(",
            "Length$", "sin(", "TMath::", "é", "\u{0}",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A valid expression over the scalar `n`, the arrays `x[3]` and `w[3]`, and the jagged `j` and
/// `k`.
fn valid() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "n",
            "x",
            "w",
            "j",
            "k",
            "x[1]",
            "j[1]",
            "x[n]",
            "Entry$",
            "Iteration$",
            "Length$",
            "pi",
            "`n`",
        ])
        .prop_map(str::to_owned),
        (0..100_u32).prop_map(|number| format!("{}", f64::from(number) / 8.0)),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operators = vec![
            "+", "-", "*", "/", "%", "^", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|",
            "<<", ">>",
        ];
        let functions =
            vec!["sin", "abs", "sqrt", "int", "TMath::Abs", "Sum$", "Max$", "Length$", "-", "!"];
        prop_oneof![
            (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(a, operator, b)| format!("{a} {operator} {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})*({b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (prop::sample::select(functions), inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            inner.prop_map(|a| format!("Alt$({a}, n)")),
        ]
    })
}

/// Entries of `n`, `x[3]`, `w[3]` and the jagged `j` and `k`.
type Entry = (i32, [f32; 3], [f64; 3], Vec<i16>, Vec<f32>);

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let single = || (-40_i16..40).prop_map(|v| f32::from(v) / 8.0);
    let entry = (
        -2..4_i32,
        prop::array::uniform3(single()),
        prop::array::uniform3((-40_i16..40).prop_map(|v| f64::from(v) / 8.0)),
        prop::collection::vec(-3..6_i16, 0..4),
        prop::collection::vec(single(), 0..4),
    );
    prop::collection::vec(entry, 1..12)
}

fn jagged(lengths: impl Iterator<Item = usize>, values: Values) -> Column {
    let mut offsets = vec![0_i64];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(length).unwrap());
    }
    Column { entries: offsets.len() - 1, offsets: Some(offsets), item_shape: vec![], values }
}

fn columns(entries: &[Entry]) -> [(&'static str, Column); 5] {
    let fixed = |shape: Vec<usize>, values| Column {
        entries: entries.len(),
        offsets: None,
        item_shape: shape,
        values,
    };
    [
        ("n", fixed(vec![], Values::I32(entries.iter().map(|e| e.0).collect()))),
        ("x", fixed(vec![3], Values::F32(entries.iter().flat_map(|e| e.1).collect()))),
        ("w", fixed(vec![3], Values::F64(entries.iter().flat_map(|e| e.2).collect()))),
        (
            "j",
            jagged(
                entries.iter().map(|e| e.3.len()),
                Values::I16(entries.iter().flat_map(|e| e.3.clone()).collect()),
            ),
        ),
        (
            "k",
            jagged(
                entries.iter().map(|e| e.4.len()),
                Values::F32(entries.iter().flat_map(|e| e.4.clone()).collect()),
            ),
        ),
    ]
}

/// The histogram of `entries`, evaluated in chunks of `step` entries; `None` if the expression
/// cannot be evaluated.
fn draw(selection: &Selection, entries: &[Entry], step: usize) -> Option<Histogram> {
    let mut builder = HistogramBuilder::new(30, Some((-10.0, 20.0))).unwrap();
    for (i, piece) in entries.chunks(step).enumerate() {
        let columns = columns(piece);
        let chunk = Chunk::new((i * step) as u64, piece.len()).of_tree(entries.len() as u64);
        let chunk = columns.iter().fold(chunk, |chunk, (name, column)| chunk.with(name, column));
        builder.fill(&selection.evaluate(&chunk).ok()?);
    }
    Some(builder.finish())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_parser_never_panics(text in prop_oneof![scrambled(), any::<String>()]) {
        if let Ok(expression) = Expression::parse(&text) {
            prop_assert_eq!(Expression::parse(&expression.to_string()).unwrap(), expression);
        }
    }

    #[test]
    fn a_displayed_expression_parses_to_the_same_one(text in valid()) {
        let expression = Expression::parse(&text).unwrap();
        prop_assert_eq!(Expression::parse(&expression.to_string()).unwrap(), expression);
    }

    #[test]
    fn the_histogram_does_not_depend_on_the_size_of_chunks(
        value in valid(),
        cut in prop::option::of(valid()),
        entries in entries(),
        step in 1_usize..6,
    ) {
        let selection = Selection::parse(&value, cut.as_deref()).unwrap();
        let whole = draw(&selection, &entries, entries.len());
        let pieces = draw(&selection, &entries, step);
        // compared as text, in which NaN equals NaN
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }
}
