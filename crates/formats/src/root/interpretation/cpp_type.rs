//! C++ type names as in files: `vector<vector<Float_t> >`, `map<string,double>`, `unsigned int`.
//!
//! This module only parses names, and prints them in uproot's notation. `TypeBuilder` determines
//! the serialized form of a type. Unknown names are classes.

use crate::ElementType;
use std::fmt;

/// Maximum depth of nested templates; deeper ones are classes by their name.
const MAX_DEPTH: usize = 12;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CppType {
    Number(ElementType),
    Double32,
    Float16,
    /// `std::string`.
    String,
    /// `TString`.
    TString,
    /// `char*`.
    CharStar,
    /// A collection of one type, by the qualified name of its template.
    List(&'static str, Box<Self>),
    /// `map` and related templates.
    Map(&'static str, Box<[Self; 2]>),
    /// `std::pair`, by its name and its types.
    Pair(String, Box<[Self; 2]>),
    /// `std::array`.
    Array(Box<Self>, usize),
    /// `std::bitset`.
    Bitset(usize),
    Pointer(Box<Self>),
    Class(String),
}

impl CppType {
    /// Parses `name`.
    pub(crate) fn parse(name: &str) -> Self {
        parse(&normal(name), 0)
    }
}

/// Normalizes `name`: removes the spaces and namespaces that writers of files use differently.
pub(crate) fn normal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut gap = false;
    for letter in name.chars() {
        if letter.is_whitespace() {
            gap = true;
            continue;
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        if gap && word(letter) && out.chars().next_back().is_some_and(word) {
            out.push(' ');
        }
        gap = false;
        out.push(letter);
    }
    out.replace("std::", "")
}

fn parse(name: &str, depth: usize) -> CppType {
    let name = name.strip_prefix("const ").unwrap_or(name);
    if name == "char*" || name == "Char_t*" {
        return CppType::CharStar;
    }
    if let Some(pointee) = name.strip_suffix('*') {
        if depth >= MAX_DEPTH {
            return CppType::Class(name.to_owned());
        }
        return CppType::Pointer(Box::new(parse(pointee, depth + 1)));
    }
    if let Some(plain) = plain(name) {
        return plain;
    }
    let class = || CppType::Class(name.to_owned());
    let Some((template, arguments)) = name.strip_suffix('>').and_then(|name| name.split_once('<'))
    else {
        return class();
    };
    if depth >= MAX_DEPTH {
        return class();
    }
    let arguments = split(arguments);
    let inner =
        |index: usize| arguments.get(index).map(|argument| Box::new(parse(argument, depth + 1)));
    let both = || match (inner(0), inner(1)) {
        (Some(first), Some(second)) => Some(Box::new([*first, *second])),
        _ => None,
    };
    let number = |index: usize| arguments.get(index).and_then(|n| n.parse::<usize>().ok());
    let found = match (list_name(template), map_name(template), template) {
        (Some(list), ..) => inner(0).map(|item| CppType::List(list, item)),
        (_, Some(map), _) => both().map(|types| CppType::Map(map, types)),
        (.., "pair") => both().map(|types| CppType::Pair(name.to_owned(), types)),
        (.., "array") => inner(0).zip(number(1)).map(|(item, n)| CppType::Array(item, n)),
        (.., "bitset") => number(0).map(CppType::Bitset),
        _ => None,
    };
    found.unwrap_or_else(class)
}

fn plain(name: &str) -> Option<CppType> {
    Some(CppType::Number(match name {
        "bool" | "Bool_t" => ElementType::Bool,
        "char" | "Char_t" | "signed char" | "int8_t" | "Int8_t" => ElementType::I8,
        "unsigned char" | "UChar_t" | "uint8_t" | "Byte_t" => ElementType::U8,
        "short" | "Short_t" | "int16_t" | "short int" => ElementType::I16,
        "unsigned short" | "UShort_t" | "uint16_t" => ElementType::U16,
        "int" | "Int_t" | "int32_t" | "signed int" => ElementType::I32,
        "unsigned int" | "UInt_t" | "uint32_t" | "unsigned" => ElementType::U32,
        "long" | "long long" | "Long_t" | "Long64_t" | "int64_t" | "signed long" => {
            ElementType::I64
        }
        "unsigned long" | "unsigned long long" | "ULong_t" | "ULong64_t" | "uint64_t"
        | "size_t" => ElementType::U64,
        "float" | "Float_t" => ElementType::F32,
        "double" | "Double_t" => ElementType::F64,
        "Double32_t" => return Some(CppType::Double32),
        "Float16_t" => return Some(CppType::Float16),
        "string" => return Some(CppType::String),
        "TString" => return Some(CppType::TString),
        _ => return None,
    }))
}

fn list_name(template: &str) -> Option<&'static str> {
    Some(match template {
        "vector" => "std::vector",
        "list" => "std::list",
        "deque" => "std::deque",
        "forward_list" => "std::forward_list",
        "set" => "std::set",
        "multiset" => "std::multiset",
        "unordered_set" => "std::unordered_set",
        "unordered_multiset" => "std::unordered_multiset",
        "RVec" | "VecOps::RVec" | "ROOT::VecOps::RVec" | "ROOT::RVec" => "RVec",
        _ => return None,
    })
}

fn map_name(template: &str) -> Option<&'static str> {
    Some(match template {
        "map" => "std::map",
        "multimap" => "std::multimap",
        "unordered_map" => "std::unordered_map",
        "unordered_multimap" => "std::unordered_multimap",
        _ => return None,
    })
}

/// Splits the arguments of a template.
fn split(arguments: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, letter) in arguments.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.extend(arguments.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(arguments.get(start..));
    found
}

impl fmt::Display for CppType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(element) => f.write_str(element.name()),
            Self::Double32 => f.write_str("Double32_t"),
            Self::Float16 => f.write_str("Float16_t"),
            Self::String => f.write_str("std::string"),
            Self::TString => f.write_str("TString"),
            Self::CharStar => f.write_str("char*"),
            Self::List(name, item) => write!(f, "{name}<{item}>"),
            Self::Map(name, types) => write!(f, "{name}<{}, {}>", types[0], types[1]),
            Self::Array(item, n) => write!(f, "std::array<{item}, {n}>"),
            Self::Bitset(n) => write!(f, "std::bitset<{n}>"),
            Self::Pointer(pointee) => write!(f, "{pointee}*"),
            Self::Pair(name, _) | Self::Class(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_are_parsed_and_written_as_in_uproot() {
        for (name, written) in [
            ("vector<float>", "std::vector<float>"),
            ("vector<vector<Double_t> >", "std::vector<std::vector<double>>"),
            ("map<string,vector<unsigned int> >", "std::map<std::string, std::vector<uint32_t>>"),
            ("std::set<std::string, std::less<std::string> >", "std::set<std::string>"),
            ("ROOT::VecOps::RVec<int>", "RVec<int32_t>"),
            ("bitset< 16 >", "std::bitset<16>"),
            ("array<float,3>", "std::array<float, 3>"),
            ("const unsigned  long", "uint64_t"),
            ("ElementLink<DataVector<xAOD::Jet_v1> >", "ElementLink<DataVector<xAOD::Jet_v1>>"),
            ("pair<int, TVector3 >", "pair<int,TVector3>"),
            ("TH1D*", "TH1D*"),
            ("vector<", "vector<"),
            ("", ""),
        ] {
            assert_eq!(CppType::parse(name).to_string(), written, "{name}");
        }
    }

    #[test]
    fn deeply_nested_types_become_a_class() {
        let deep = format!("{}int{}", "vector<".repeat(5000), ">".repeat(5000));
        assert!(CppType::parse(&deep).to_string().starts_with("std::vector<std::vector<"));
    }
}
