//! Types of columns.

use crate::ElementType;

/// What a column holds, per entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnType {
    /// Type of each value.
    pub element: ElementType,
    /// Fixed dimensions of one item, outermost first; empty for scalars.
    pub item_shape: Vec<usize>,
    /// Whether an entry holds any number of items, or exactly one.
    pub jagged: bool,
    /// For jagged columns: path of the column that counts the items.
    pub counter: Option<String>,
}

impl ColumnType {
    /// Values in one item.
    #[must_use]
    pub fn item_len(&self) -> usize {
        self.item_shape.iter().product()
    }

    /// As C++ and uproot write it: `float[17]`, `int32_t`, `float[]`, `double[][3]`.
    #[must_use]
    pub fn name(&self) -> String {
        let jagged = if self.jagged { "[]" } else { "" };
        let shape = self.item_shape.iter().map(|n| format!("[{n}]")).collect::<String>();
        format!("{}{jagged}{shape}", self.element.name())
    }
}

/// What the class of a leaf says about its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafKind {
    /// Numbers, each stored as such.
    Number(ElementType),
    /// Numbers behind a marker byte per entry: a class member of the form `float* x; //[n]`.
    MarkedNumber(ElementType),
    /// Something else, by its C++ name where that is known.
    Other(Option<&'static str>),
}

/// The kind of a leaf from its class, such as `TLeafF`.
pub(super) fn from_class(class: &[u8], unsigned: bool) -> LeafKind {
    let pick = |signed, other| LeafKind::Number(if unsigned { other } else { signed });
    match class {
        b"TLeafO" => LeafKind::Number(ElementType::Bool),
        b"TLeafB" => pick(ElementType::I8, ElementType::U8),
        b"TLeafS" => pick(ElementType::I16, ElementType::U16),
        b"TLeafI" => pick(ElementType::I32, ElementType::U32),
        b"TLeafL" | b"TLeafG" => pick(ElementType::I64, ElementType::U64),
        b"TLeafF" => LeafKind::Number(ElementType::F32),
        b"TLeafD" => LeafKind::Number(ElementType::F64),
        b"TLeafF16" => LeafKind::Other(Some("Float16_t")),
        b"TLeafD32" => LeafKind::Other(Some("Double32_t")),
        b"TLeafC" => LeafKind::Other(Some("char*")),
        _ => LeafKind::Other(None),
    }
}

/// The kind of a `TLeafElement` from the type code of its streamer.
pub(super) fn from_code(code: i32) -> LeafKind {
    match code {
        1..=19 => plain(code),
        21..=39 => plain(code - 20),
        41..=59 => match plain(code - 40) {
            LeafKind::Number(element) => LeafKind::MarkedNumber(element),
            other => other,
        },
        _ => LeafKind::Other(None),
    }
}

fn plain(code: i32) -> LeafKind {
    LeafKind::Number(match code {
        1 => ElementType::I8,
        2 => ElementType::I16,
        3 | 6 => ElementType::I32,
        4 | 16 => ElementType::I64,
        5 => ElementType::F32,
        8 => ElementType::F64,
        11 => ElementType::U8,
        12 => ElementType::U16,
        13 | 15 => ElementType::U32,
        14 | 17 => ElementType::U64,
        18 => ElementType::Bool,
        7 => return LeafKind::Other(Some("char*")),
        9 => return LeafKind::Other(Some("Double32_t")),
        19 => return LeafKind::Other(Some("Float16_t")),
        _ => return LeafKind::Other(None),
    })
}

/// The numeric dimensions in a leaf's title: `x[n][3][4]` has 3 and 4.
pub(super) fn dimensions(title: &str) -> Vec<usize> {
    let mut rest = title.find('[').and_then(|at| title.get(at..)).unwrap_or_default();
    let mut found = Vec::new();
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        found.extend(inside.trim().parse::<usize>());
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_come_from_the_title_without_the_counter() {
        assert_eq!(dimensions("x[3][4]/F"), [3, 4]);
        assert_eq!(dimensions("x[n][2]"), [2]);
        assert!(dimensions("x").is_empty());
        assert!(dimensions("x[").is_empty());
        assert_eq!(dimensions("x[2] comment [3]"), [2]);
    }

    #[test]
    fn names_are_those_of_uproot() {
        let mut column = ColumnType {
            element: ElementType::F32,
            item_shape: vec![3],
            jagged: true,
            counter: Some("n".into()),
        };
        assert_eq!(column.name(), "float[][3]");
        column.jagged = false;
        column.item_shape.clear();
        assert_eq!(column.name(), "float");
    }
}
