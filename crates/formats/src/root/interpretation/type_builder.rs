//! Builds [`StreamedType`]s from the types in a file: names of C++ types, and descriptions of
//! classes.

use crate::ElementType;
use crate::root::interpretation::cpp_type::{CppType, normal};
use crate::root::interpretation::number_encoding::NumberEncoding;
use crate::root::interpretation::streamed_type::{
    ClassLayout, ListKind, StreamedClass, StreamedMember, StreamedType,
};
use crate::root::object::streamer_info::{StreamerElement, StreamerInfo, StreamerInfos};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum depth of nested types.
const MAX_DEPTH: usize = 16;
/// Maximum number of classes that are resolved for one tree.
const MAX_CLASSES: usize = 20_000;

/// Classes with hand-written streamers in ROOT: their bytes differ from their description.
const BY_HAND: [&str; 15] = [
    "TRef",
    "TRefArray",
    "TClonesArray",
    "TObjArray",
    "TList",
    "THashList",
    "TSeqCollection",
    "TCollection",
    "TMap",
    "TOrdCollection",
    "TDatime",
    "TUUID",
    "TUrl",
    "TBtree",
    "TFolder",
];

/// Builds streamed types; caches those of classes.
pub(crate) struct TypeBuilder<'a> {
    streamers: &'a StreamerInfos<'a>,
    /// `None` for a class that is being resolved at the moment.
    classes: HashMap<String, Option<StreamedType>>,
}

impl<'a> TypeBuilder<'a> {
    pub(crate) fn new(streamers: &'a StreamerInfos<'a>) -> Self {
        Self { streamers, classes: HashMap::new() }
    }

    /// Builds the type of a branch that was made for a variable of type `name`.
    pub(crate) fn variable(&mut self, name: &str) -> StreamedType {
        let cpp = CppType::parse(name);
        match &cpp {
            CppType::List(..) | CppType::Map(..) | CppType::Bitset(_) => {
                StreamedType::Headed(Arc::new(self.content(&cpp, 0)))
            }
            _ => self.content(&cpp, 0),
        }
    }

    /// The form and type of a member of a `std::pair` or of a `std::string`, which files need not
    /// describe.
    pub(crate) fn undescribed(
        &mut self,
        class: &str,
        member: &str,
    ) -> Option<(StreamedType, CppType)> {
        let cpp = match (CppType::parse(class), member) {
            (CppType::Pair(_, types), "first") => types[0].clone(),
            (CppType::Pair(_, types), "second") => types[1].clone(),
            // A member of this type may state its own type instead of the class that it belongs to.
            (CppType::String, _) => CppType::String,
            _ => return None,
        };
        Some((self.as_member(&cpp, 0), cpp))
    }

    /// The form of a type, without the head that a member of that type has.
    fn content(&mut self, cpp: &CppType, depth: usize) -> StreamedType {
        if depth > MAX_DEPTH {
            return StreamedType::unknown("its type is nested too deeply");
        }
        match cpp {
            CppType::Number(element) => StreamedType::numbers(NumberEncoding::Plain(*element)),
            CppType::Double32 => StreamedType::numbers(NumberEncoding::truncated(true, "")),
            CppType::Float16 => StreamedType::numbers(NumberEncoding::truncated(false, "")),
            CppType::String | CppType::TString => StreamedType::Text { wide: false },
            CppType::CharStar => StreamedType::Text { wide: true },
            CppType::Bitset(_) => StreamedType::List(
                ListKind::Bitset,
                Arc::new(StreamedType::numbers(NumberEncoding::Plain(ElementType::Bool))),
            ),
            CppType::List(name, item) => {
                let kind = if *name == "std::set" { ListKind::Set } else { ListKind::Plain };
                StreamedType::List(kind, Arc::new(self.content(item, depth + 1)))
            }
            CppType::Map(_, types) => {
                let pair = self.pair(types, depth);
                StreamedType::List(ListKind::Plain, Arc::new(StreamedType::Pair(Arc::new(pair))))
            }
            CppType::Array(item, n) => repeated(self.content(item, depth + 1), &[*n]),
            CppType::Pointer(_) => StreamedType::unknown("pointers cannot be followed"),
            CppType::Pair(name, _) | CppType::Class(name) => self.class(name, depth + 1),
        }
    }

    fn pair(&mut self, types: &[CppType; 2], depth: usize) -> [StreamedMember; 2] {
        let mut member = |name: &str, cpp| {
            let shape = self.as_member(cpp, depth + 1);
            StreamedMember { name: name.into(), base: false, shape }
        };
        [member("first", &types[0]), member("second", &types[1])]
    }

    /// The form of a type as a member of a class.
    fn as_member(&mut self, cpp: &CppType, depth: usize) -> StreamedType {
        let content = self.content(cpp, depth);
        match cpp {
            CppType::List(..) | CppType::Map(..) | CppType::Bitset(_) | CppType::String => {
                StreamedType::Headed(Arc::new(content))
            }
            _ => content,
        }
    }

    /// The form of an object of the class `name`.
    fn class(&mut self, name: &str, depth: usize) -> StreamedType {
        let name = normal(name);
        if let Some(special) = special(&name) {
            return special;
        }
        match self.classes.get(&name) {
            Some(Some(shape)) => return shape.clone(),
            Some(None) => return StreamedType::unknown(format!("`{name}` contains itself")),
            None => {}
        }
        if depth > MAX_DEPTH || self.classes.len() > MAX_CLASSES {
            return StreamedType::unknown("its type is nested too deeply");
        }
        self.classes.insert(name.clone(), None);
        let streamers = self.streamers;
        let mut layouts: Vec<ClassLayout> =
            streamers.versions(&name).into_iter().map(|info| self.layout(info, depth)).collect();
        layouts.sort_by_key(|layout| std::cmp::Reverse(layout.version));
        if let (true, CppType::Pair(_, types)) = (layouts.is_empty(), CppType::parse(&name)) {
            let members = self.pair(&types, depth).to_vec();
            layouts.push(ClassLayout { version: 0, checksum: 0, members });
        }
        let shape = if layouts.is_empty() {
            StreamedType::unknown(format!("the file does not describe its class `{name}`"))
        } else {
            StreamedType::Object(Arc::new(StreamedClass { name: name.clone(), layouts }))
        };
        self.classes.insert(name, Some(shape.clone()));
        shape
    }

    fn layout(&mut self, info: &StreamerInfo, depth: usize) -> ClassLayout {
        let elements = info.elements.iter();
        let members = elements
            .map(|element| StreamedMember {
                name: element.name.as_str().into(),
                base: element.code == 0 || (element.code == 66 && element.name == "TObject"),
                shape: match element.code {
                    41..=59 => counted(info, element),
                    _ => self.member_at(element, depth),
                },
            })
            .collect();
        ClassLayout { version: info.version, checksum: info.checksum, members }
    }

    /// The form of a member of a class.
    pub(crate) fn member(&mut self, element: &StreamerElement) -> StreamedType {
        self.member_at(element, 0)
    }

    fn member_at(&mut self, element: &StreamerElement, depth: usize) -> StreamedType {
        let StreamerElement { code, type_name, title, dims, .. } = element;
        match code {
            1..=19 => scalar(*code, title),
            21..=39 => repeated(scalar(code - 20, title), dims),
            0 => self.class(&element.name, depth + 1),
            61..=63 | 67 | 68 => self.object(type_name, depth),
            81..=83 | 87 | 88 => repeated(self.object(type_name, depth), dims),
            65 => StreamedType::Text { wide: false },
            85 => repeated(StreamedType::Text { wide: false }, dims),
            66 => StreamedType::TObject,
            71 | 91 | 300 | 320 | 365 | 385 | 500 | 520 => {
                let cpp = CppType::parse(type_name.trim_end_matches('*'));
                let collection = matches!(
                    cpp,
                    CppType::List(..) | CppType::Map(..) | CppType::Bitset(_) | CppType::String
                );
                if !collection {
                    return StreamedType::unknown("it is written by hand");
                }
                let content = self.content(&cpp, depth + 1);
                StreamedType::Headed(Arc::new(if dims.is_empty() {
                    content
                } else {
                    repeated(content, dims)
                }))
            }
            64 | 69 | 84 | 89 => StreamedType::unknown("pointers cannot be followed"),
            41..=59 => StreamedType::unknown("its length is in another branch"),
            _ => StreamedType::unknown(format!("members of kind {code} cannot be decoded")),
        }
    }

    /// The form of an object in place, whose type is usually a class.
    fn object(&mut self, type_name: &str, depth: usize) -> StreamedType {
        match CppType::parse(type_name.trim_end_matches('*')) {
            CppType::Class(name) | CppType::Pair(name, _) => self.class(&name, depth + 1),
            cpp => self.as_member(&cpp, depth + 1),
        }
    }
}

/// Classes whose form is known without a description.
fn special(name: &str) -> Option<StreamedType> {
    let list = |element| {
        let numbers = StreamedType::numbers(NumberEncoding::Plain(element));
        StreamedType::List(ListKind::Plain, Arc::new(numbers))
    };
    Some(match name {
        "TObject" => StreamedType::TObject,
        "TString" => StreamedType::Text { wide: false },
        "TArrayC" => list(ElementType::I8),
        "TArrayS" => list(ElementType::I16),
        "TArrayI" => list(ElementType::I32),
        "TArrayL" | "TArrayL64" => list(ElementType::I64),
        "TArrayF" => list(ElementType::F32),
        "TArrayD" => list(ElementType::F64),
        _ if BY_HAND.contains(&name) || name.starts_with("TMatrixTSym<") => {
            StreamedType::unknown(format!("`{name}` is written by hand"))
        }
        _ => return None,
    })
}

/// A number by the type code of `TStreamerInfo`.
fn scalar(code: i32, title: &str) -> StreamedType {
    match code {
        7 => StreamedType::Text { wide: true },
        9 => StreamedType::numbers(NumberEncoding::truncated(true, title)),
        19 => StreamedType::numbers(NumberEncoding::truncated(false, title)),
        _ => match number(code) {
            Some(element) => StreamedType::numbers(NumberEncoding::Plain(element)),
            None => StreamedType::unknown(format!("members of kind {code} cannot be decoded")),
        },
    }
}

/// The type of a number by the type code of `TStreamerInfo`.
pub(crate) fn number(code: i32) -> Option<ElementType> {
    Some(match code {
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
        _ => return None,
    })
}

fn counted(info: &StreamerInfo, element: &StreamerElement) -> StreamedType {
    let counter = info.elements.iter().position(|other| other.name == element.count_name);
    let packed = match element.code - 40 {
        9 => Some(NumberEncoding::truncated(true, &element.title)),
        19 => Some(NumberEncoding::truncated(false, &element.title)),
        code => number(code).map(NumberEncoding::Plain),
    };
    match (counter, packed) {
        (Some(counter), Some(packed)) if element.dims.is_empty() => {
            StreamedType::Counted { packed, counter }
        }
        _ => StreamedType::unknown("its length is in another class"),
    }
}

/// A fixed array of a form.
fn repeated(shape: StreamedType, dims: &[usize]) -> StreamedType {
    match shape {
        StreamedType::Numbers { packed, dims: inner } => {
            StreamedType::Numbers { packed, dims: [dims, &inner].concat() }
        }
        StreamedType::Unknown(why) => StreamedType::Unknown(why),
        item => StreamedType::Fixed { dims: dims.to_vec(), item: Arc::new(item) },
    }
}
