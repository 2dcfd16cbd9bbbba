//! The `If` field of WebDAV (RFC 4918 section 10.4): conditions on the state of resources.
//!
//! The field has lists of conditions. A list holds if all of its conditions do, and the field holds
//! if one of its lists does. A condition names an entity tag or a state token, and may be negated.
//! A list applies to the resource of the request, or to one that a tag before it names.
//!
//! State tokens represent locks. There are no locks here, so no token ever matches; `DAV:no-lock`
//! never matches on any server (section 10.4.8). Entity tags are compared strongly, as `If-Match`
//! does.

use crate::conditions::strong;
use crate::text::{excerpt, trim};
use http::header::{HeaderMap, HeaderName};

/// `If` (RFC 4918).
pub const IF: HeaderName = HeaderName::from_static("if");
/// The maximum number of conditions.
const MAX_CONDITIONS: usize = 1000;
/// The maximum number of resources that tags name.
const MAX_RESOURCES: usize = 16;

/// A parsed `If` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfHeader {
    resources: Vec<String>,
    lists: Vec<StateList>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StateList {
    /// The index of the tagged resource; none for the resource of the request.
    resource: Option<usize>,
    conditions: Vec<StateCondition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StateCondition {
    is_negated: bool,
    /// None for a state token.
    entity_tag: Option<Vec<u8>>,
}

/// An `If` field that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IfHeaderError {
    /// The value does not follow RFC 4918.
    #[error("the field If does not follow RFC 4918 at \"{seen}\", expected {expected}")]
    Malformed {
        /// The value from the error on, shortened and escaped.
        seen: String,
        /// The element that was expected.
        expected: &'static str,
    },
    /// There are more conditions or tagged resources than this implementation evaluates.
    #[error("the field If has more than {MAX_CONDITIONS} conditions or {MAX_RESOURCES} resources")]
    TooLong,
}

impl IfHeader {
    /// Parses the field of a request; none if it has none.
    ///
    /// ```
    /// use hither_http::if_header::{IF, IfHeader};
    /// let headers = [(IF, r#"(["a"]) (Not <DAV:no-lock> ["b"])"#.parse()?)].into_iter().collect();
    /// let header = IfHeader::parse(&headers)?.unwrap();
    /// assert!(header.holds(|_| Some("\"b\"")) && !header.holds(|_| Some("\"c\"")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`IfHeaderError`].
    pub fn parse(headers: &HeaderMap) -> Result<Option<Self>, IfHeaderError> {
        let mut values = headers.get_all(IF).into_iter();
        let Some(value) = values.next() else { return Ok(None) };
        if let Some(second) = values.next() {
            return Err(malformed(second.as_bytes(), "one field"));
        }
        let mut parser = Parser { rest: trim(value.as_bytes()), conditions: 0 };
        let mut header = Self { resources: Vec::new(), lists: Vec::new() };
        let mut resource = None;
        while let Some(first) = parser.rest.first() {
            if *first == b'<' && (resource.is_some() || header.lists.is_empty()) {
                let tag = parser.enclosed(b'<', b'>')?;
                let tag = std::str::from_utf8(tag)
                    .map_err(|_| malformed(tag, "a URL or a path between \"<\" and \">\""))?;
                resource = Some(header.resource(tag)?);
                if parser.rest.first() != Some(&b'(') {
                    return Err(malformed(parser.rest, "a list in parentheses"));
                }
            }
            let conditions = parser.list()?;
            header.lists.push(StateList { resource, conditions });
        }
        if header.lists.is_empty() {
            return Err(malformed(value.as_bytes(), "a list in parentheses"));
        }
        Ok(Some(header))
    }

    /// The resources that tags name, as URLs or paths, each once.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(String::as_str)
    }

    /// Returns true if one of the lists holds. `entity_tag` returns the tag of a resource, which is
    /// the one of the request (`None`) or one of [`IfHeader::resources`]; none if it does not
    /// exist.
    pub fn holds<'a>(&self, entity_tag: impl Fn(Option<&str>) -> Option<&'a str>) -> bool {
        self.lists.iter().any(|list| {
            let resource = list.resource.and_then(|place| self.resources.get(place));
            let current = entity_tag(resource.map(String::as_str));
            list.conditions.iter().all(|condition| {
                let expected = condition.entity_tag.as_deref();
                let is_same =
                    |current: &str| expected.is_some_and(|it| strong(it, current.as_bytes()));
                current.is_some_and(is_same) != condition.is_negated
            })
        })
    }

    fn resource(&mut self, tag: &str) -> Result<usize, IfHeaderError> {
        if let Some(known) = self.resources.iter().position(|known| known == tag) {
            return Ok(known);
        }
        if self.resources.len() >= MAX_RESOURCES {
            return Err(IfHeaderError::TooLong);
        }
        self.resources.push(tag.to_owned());
        Ok(self.resources.len() - 1)
    }
}

fn malformed(seen: &[u8], expected: &'static str) -> IfHeaderError {
    IfHeaderError::Malformed { seen: excerpt(seen), expected }
}

struct Parser<'a> {
    /// The rest of the value, without white space at its ends.
    rest: &'a [u8],
    /// The conditions so far.
    conditions: usize,
}

impl<'a> Parser<'a> {
    /// Takes `prefix` off the front, if it is there, in any case.
    fn take(&mut self, prefix: &[u8]) -> bool {
        match self.rest.split_at_checked(prefix.len()) {
            Some((front, rest)) if front.eq_ignore_ascii_case(prefix) => {
                self.rest = trim(rest);
                true
            }
            _ => false,
        }
    }

    /// Takes the text between two bytes off the front; it is not empty. Quoted strings may hold
    /// `close`.
    fn enclosed(&mut self, open: u8, close: u8) -> Result<&'a [u8], IfHeaderError> {
        let expected = "text between \"<\" and \">\", or an entity tag between \"[\" and \"]\"";
        let wrong = || malformed(self.rest, expected);
        let inner = self.rest.strip_prefix(&[open]).ok_or_else(wrong)?;
        let mut is_quoted = false;
        let end = inner.iter().position(|byte| {
            is_quoted ^= open == b'[' && *byte == b'"';
            *byte == close && !is_quoted
        });
        let (text, rest) = end.and_then(|end| inner.split_at_checked(end)).ok_or_else(wrong)?;
        if text.is_empty() || open == b'<' && text.iter().any(u8::is_ascii_whitespace) {
            return Err(wrong());
        }
        self.rest = trim(rest.get(1..).unwrap_or_default());
        Ok(text)
    }

    fn list(&mut self) -> Result<Vec<StateCondition>, IfHeaderError> {
        if !self.take(b"(") {
            return Err(malformed(self.rest, "a list in parentheses"));
        }
        let mut conditions = Vec::new();
        loop {
            self.conditions += 1;
            if self.conditions > MAX_CONDITIONS {
                return Err(IfHeaderError::TooLong);
            }
            let is_negated = self.take(b"not");
            let entity_tag = if self.rest.first() == Some(&b'[') {
                let tag = trim(self.enclosed(b'[', b']')?);
                let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
                let inner = opaque.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\""));
                if inner.is_none_or(|inner| inner.contains(&b'"')) {
                    return Err(malformed(tag, "an entity tag"));
                }
                Some(tag.to_vec())
            } else {
                self.enclosed(b'<', b'>')?;
                None
            };
            conditions.push(StateCondition { is_negated, entity_tag });
            if self.take(b")") {
                return Ok(conditions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn parse(value: &[u8]) -> Result<IfHeader, IfHeaderError> {
        let headers = HeaderMap::from_iter([(IF, HeaderValue::from_bytes(value).unwrap())]);
        IfHeader::parse(&headers).map(Option::unwrap)
    }

    /// Evaluates a field for resources with the tag `"a"`, of which `/none` does not exist.
    fn holds(value: &str) -> bool {
        let tag = |resource: Option<&str>| (resource != Some("/none")).then_some("\"a\"");
        parse(value.as_bytes()).unwrap_or_else(|error| panic!("{value}: {error}")).holds(tag)
    }

    #[test]
    fn one_list_has_to_hold_with_all_of_its_conditions() {
        for (value, expected) in [
            ("([\"a\"])", true),
            ("([\"b\"])", false),
            ("([\"b\"]) ([\"a\"])", true),
            ("([\"b\"])([\"c\"])", false),
            ("([\"a\"] [\"b\"])", false),
            ("([\"a\"] Not [\"b\"])", true),
            ("( NOT [\"a\"] )", false),
            ("([W/\"a\"])", false),
            ("(<urn:uuid:1>)", false),
            ("(Not <urn:uuid:1>)", true),
            ("(<urn:uuid:1> [\"a\"])", false),
            ("(<DAV:no-lock>)", false),
            ("(<urn:uuid:1>) (Not <DAV:no-lock>)", true),
            ("(not<urn:uuid:1>[\"a\"])", true),
        ] {
            assert_eq!(holds(value), expected, "{value}");
        }
    }

    #[test]
    fn a_tag_names_the_resource_of_the_lists_after_it() {
        for (value, expected) in [
            ("</other> ([\"a\"])", true),
            ("</none> ([\"a\"])", false),
            ("</none> (Not [\"a\"])", true),
            ("</none> ([\"a\"]) </other> ([\"a\"])", true),
            ("</other> ([\"b\"]) ([\"a\"])", true),
            ("</none> ([\"a\"]) ([\"b\"])", false),
        ] {
            assert_eq!(holds(value), expected, "{value}");
        }
        let header = parse(b"</a> ([\"1\"]) <http://h/b> ([\"1\"]) </a> (<u:v>)").unwrap();
        assert_eq!(header.resources().collect::<Vec<_>>(), ["/a", "http://h/b"]);
    }

    #[test]
    fn other_text_is_refused() {
        for value in [
            "",
            "x",
            "()",
            "(",
            "([\"a\"]",
            "([a])",
            "([\"a])",
            "([])",
            "(\"a\")",
            "(<>)",
            "(<a)",
            "(<a b>)",
            "</a>",
            "</a> x",
            "</a> </b> ([\"a\"])",
            "([\"a\"]) </a> ([\"a\"])",
            "([\"a\"]), ([\"b\"])",
            "(Not)",
            "(Not Not [\"a\"])",
            "([\"a\"b\"])",
            "([W/a])",
        ] {
            let error = parse(value.as_bytes()).unwrap_err();
            assert!(matches!(error, IfHeaderError::Malformed { .. }), "{value}: {error}");
        }
        let mut two = HeaderMap::new();
        for _ in 0..2 {
            two.append(IF, HeaderValue::from_static("([\"a\"])"));
        }
        assert!(IfHeader::parse(&two).is_err());
        assert_eq!(IfHeader::parse(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn long_fields_are_refused() {
        let many = "([\"a\"])".repeat(MAX_CONDITIONS);
        assert!(parse(many.as_bytes()).is_ok());
        assert_eq!(parse((many + "([\"a\"])").as_bytes()), Err(IfHeaderError::TooLong));
        let many: String = (0..=MAX_RESOURCES).map(|n| format!("</{n}> (<u:v>)")).collect();
        assert_eq!(parse(many.as_bytes()), Err(IfHeaderError::TooLong));
    }

    proptest! {
        #[test]
        fn never_panics(value in "([(<\\[]|Not|\"a\"|[\\])> /]){0,40}") {
            if let Ok(header) = parse(value.as_bytes()) {
                let _held = header.holds(|_| Some("\"a\""));
            }
        }
    }
}
