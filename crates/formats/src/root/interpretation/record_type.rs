//! Records: the columns that form the entries of a branch.

use crate::root::interpretation::streamed_type::{ListKind, StreamedMember, StreamedType};

/// The type of an entry whose values are in one or several columns, with the field names of uproot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordType {
    /// A column, by its path in the tree.
    Column(String),
    /// Values by name, and the name of their class if it has one.
    Record {
        /// The name of the class.
        class: Option<String>,
        /// The names and types, in the order of the file.
        fields: Vec<(String, Self)>,
    },
    /// Any number of values.
    List(ListKind, Box<Self>),
    /// A fixed number of values.
    Fixed(usize, Box<Self>),
    /// Any number of keys, ascending, each with a value.
    Map(Box<[Self; 2]>),
}

impl RecordType {
    /// The paths of its columns.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Column(path) => vec![path],
            Self::Record { fields, .. } => {
                fields.iter().flat_map(|(_, field)| field.columns()).collect()
            }
            Self::List(_, item) | Self::Fixed(_, item) => item.columns(),
            Self::Map(types) => types.iter().flat_map(Self::columns).collect(),
        }
    }

    /// The record of a streamed type whose columns begin with `path`; `None` for a type without
    /// columns.
    pub(crate) fn of_shape(shape: &StreamedType, path: &str) -> Option<Self> {
        Some(match shape {
            StreamedType::TObject => return None,
            StreamedType::Numbers { .. }
            | StreamedType::Text { .. }
            | StreamedType::LeafText
            | StreamedType::Counted { .. }
            | StreamedType::Bits
            | StreamedType::Unknown(_) => Self::Column(path.to_owned()),
            StreamedType::Fixed { dims, item } => {
                let item = Self::of_shape(item, path)?;
                let fixed = |item: Self, &n: &usize| item.within(|item| Self::Fixed(n, item));
                dims.iter().rev().fold(item, fixed)
            }
            StreamedType::Headed(item) => Self::of_shape(item, path)?,
            StreamedType::List(kind, item) if *kind != ListKind::Plain => {
                Self::List(*kind, Box::new(Self::of_shape(item, path)?))
            }
            StreamedType::List(_, item) | StreamedType::Rest(item) => match item.as_ref() {
                StreamedType::Pair(members) => {
                    let [key, value] = members.as_ref();
                    let part = |member: &StreamedMember| {
                        Self::of_shape(&member.shape, &format!("{path}.{}", member.name))
                    };
                    Self::Map(Box::new([part(key)?, part(value)?]))
                }
                item => {
                    Self::of_shape(item, path)?.within(|item| Self::List(ListKind::Plain, item))
                }
            },
            StreamedType::Pair(members) => Self::of_members(None, members.as_ref(), path),
            StreamedType::Object(class) => {
                let members = class.layouts.first().map_or(&[][..], |it| it.members.as_slice());
                Self::of_members(Some(class.name.clone()), members, path)
            }
        })
    }

    /// Wraps the type for several values; a column contains its own dimensions.
    fn within(self, several: impl FnOnce(Box<Self>) -> Self) -> Self {
        match self {
            Self::Column(_) => self,
            item => several(Box::new(item)),
        }
    }

    fn of_members(class: Option<String>, members: &[StreamedMember], path: &str) -> Self {
        let mut fields: Vec<(String, Self)> = Vec::new();
        for StreamedMember { name, base, shape } in members {
            let own = if *base { path.to_owned() } else { format!("{path}.{name}") };
            let more = match Self::of_shape(shape, &own) {
                Some(Self::Record { fields, .. }) if *base => fields,
                Some(field) if !base => vec![(name.to_string(), field)],
                _ => Vec::new(),
            };
            for (name, field) in more {
                // A member hides the one of the same name in a base class, and takes its position.
                match fields.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, hidden)) => *hidden = field,
                    None => fields.push((name, field)),
                }
            }
        }
        Self::Record { class, fields }
    }
}

/// The record of the columns of one branch; `columns` are suffixes and paths.
pub(crate) fn of_columns(columns: Vec<(String, String)>) -> RecordType {
    let fields = columns.into_iter().map(|(name, path)| (name, RecordType::Column(path)));
    RecordType::Record { class: None, fields: fields.collect() }
}
