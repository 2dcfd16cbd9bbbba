//! Types of columns.

use crate::ElementType;
use crate::root::interpretation::type_builder::number;

/// The type of a column, per entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnType {
    /// The type of each value.
    pub element: ElementType,
    /// Fixed dimensions of one item, outermost first; empty for scalars.
    pub item_shape: Vec<usize>,
    /// True if an entry holds any number of items; otherwise it holds one.
    pub jagged: bool,
    /// For jagged columns: the path of the column with the number of items, if there is one.
    pub counter: Option<String>,
    /// For nested lists, from the outermost to the innermost: the fixed dimensions of one item of
    /// each. The values of the column are then [`crate::Values::Lists`], nested as deeply as this
    /// vector is long.
    pub inner: Vec<Vec<usize>>,
}

impl ColumnType {
    /// Values in one item.
    #[must_use]
    pub fn item_len(&self) -> usize {
        self.item_shape.iter().product()
    }

    /// The type in the notation of C++ and uproot: `float[17]`, `int32_t`, `float[]`,
    /// `double[][3]`; `float[][]` for nested lists.
    #[must_use]
    pub fn name(&self) -> String {
        let jagged = if self.jagged { "[]" } else { "" };
        let sizes = |shape: &[usize]| shape.iter().map(|n| format!("[{n}]")).collect::<String>();
        let shape = sizes(&self.item_shape);
        let inner =
            self.inner.iter().map(|shape| format!("[]{}", sizes(shape))).collect::<String>();
        format!("{}{jagged}{shape}{inner}", self.element.name())
    }
}

/// The kind of a leaf's values, from its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafKind {
    /// Plain numbers.
    Number(ElementType),
    /// Numbers after a marker byte per entry: a class member of the form `float* x; //[n]`.
    MarkedNumber(ElementType),
    /// `Double32_t` or `Float16_t`.
    Truncated { double: bool, marked: bool },
    /// The bits of a `TObject`, followed by two more bytes if the object is referenced.
    Bits,
    /// A string.
    Text,
    /// Another type, with its C++ name if known.
    Other(Option<&'static str>),
}

/// The kind of a leaf from its class, such as `TLeafF`.
pub(crate) fn from_class(class: &[u8], unsigned: bool) -> LeafKind {
    let pick = |signed, other| LeafKind::Number(if unsigned { other } else { signed });
    match class {
        b"TLeafO" => LeafKind::Number(ElementType::Bool),
        b"TLeafB" => pick(ElementType::I8, ElementType::U8),
        b"TLeafS" => pick(ElementType::I16, ElementType::U16),
        b"TLeafI" => pick(ElementType::I32, ElementType::U32),
        b"TLeafL" | b"TLeafG" => pick(ElementType::I64, ElementType::U64),
        b"TLeafF" => LeafKind::Number(ElementType::F32),
        b"TLeafD" => LeafKind::Number(ElementType::F64),
        b"TLeafF16" => LeafKind::Truncated { double: false, marked: false },
        b"TLeafD32" => LeafKind::Truncated { double: true, marked: false },
        b"TLeafC" => LeafKind::Text,
        _ => LeafKind::Other(None),
    }
}

/// The kind of a `TLeafElement` from the type code of its streamer.
pub(crate) fn from_code(code: i32) -> LeafKind {
    match code {
        15 => LeafKind::Bits,
        1..=19 => plain(code, false),
        21..=39 => plain(code - 20, false),
        41..=59 => plain(code - 40, true),
        _ => LeafKind::Other(None),
    }
}

fn plain(code: i32, marked: bool) -> LeafKind {
    match (code, number(code)) {
        (9, _) => LeafKind::Truncated { double: true, marked },
        (19, _) => LeafKind::Truncated { double: false, marked },
        (7, _) => LeafKind::Other(Some("char*")),
        (_, Some(element)) if marked => LeafKind::MarkedNumber(element),
        (_, Some(element)) => LeafKind::Number(element),
        (_, None) => LeafKind::Other(None),
    }
}

/// The numeric dimensions in a leaf's title: `x[n][3][4]` has 3 and 4.
pub(crate) fn dimensions(title: &str) -> Vec<usize> {
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
    fn type_names_are_those_of_uproot() {
        let mut column = ColumnType {
            element: ElementType::F32,
            item_shape: vec![3],
            jagged: true,
            counter: Some("n".into()),
            inner: vec![],
        };
        assert_eq!(column.name(), "float[][3]");
        column.jagged = false;
        column.item_shape.clear();
        assert_eq!(column.name(), "float");
        column.inner = vec![vec![], vec![4]];
        assert_eq!(column.name(), "float[][][4]");
    }
}
