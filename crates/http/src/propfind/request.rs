//! PROPFIND and PROPPATCH request bodies, parsed by a server (RFC 4918 sections 9.1 and 9.2).

use super::{DAV, MAX_DEPTH, PropfindError, is};
use crate::xml::{Element, Token, Tokens, seen};

/// Maximum number of properties in a PROPPATCH.
const MAX_UPDATES: usize = 1000;
/// Maximum number of properties that a PROPFIND names. The response repeats them for each entry, so
/// they multiply the work: clients request some twenty.
const MAX_NAMES: usize = 100;
/// Maximum number of bytes in those names and their namespaces.
const MAX_NAME_BYTES: usize = 8 << 10;

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PropertyName {
    /// The namespace; empty for none.
    pub namespace: String,
    /// The local name.
    pub local: String,
}

impl PropertyName {
    /// A name of the namespace `DAV:`.
    #[must_use]
    pub fn dav(local: &str) -> Self {
        Self { namespace: DAV.to_owned(), local: local.to_owned() }
    }
}

/// The properties that a PROPFIND requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropfindRequest {
    /// All properties that are returned by default, and these.
    All {
        /// The properties named by `include`.
        include: Vec<PropertyName>,
    },
    /// The names of all properties, without values.
    Names,
    /// These properties.
    These(Vec<PropertyName>),
}

/// One change of a PROPPATCH, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyUpdate {
    /// Set a property.
    Set {
        /// Its name.
        name: PropertyName,
        /// The content of its element: XML that declares its own namespaces.
        value: String,
    },
    /// Remove a property.
    Remove(PropertyName),
}

impl PropfindRequest {
    /// Parses the body of a PROPFIND of at most `max_bytes` bytes; an empty body requests all
    /// properties.
    ///
    /// # Errors
    /// The body is not XML, or XML of another kind.
    pub fn parse(body: &[u8], max_bytes: usize) -> Result<Self, PropfindError> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::All { include: Vec::new() });
        }
        let mut reader = Reader::new(body, max_bytes)?;
        reader.enter("propfind")?;
        let mut question = None;
        let mut include = Vec::new();
        while let Some(element) = reader.tokens.child()? {
            if is(&element, "prop") {
                question.get_or_insert(Self::These(reader.names()?));
            } else if is(&element, "propname") {
                question.get_or_insert(Self::Names);
                reader.tokens.skip_element()?;
            } else if is(&element, "include") {
                include = reader.names()?;
            } else {
                if is(&element, "allprop") {
                    question.get_or_insert(Self::All { include: Vec::new() });
                }
                reader.tokens.skip_element()?;
            }
        }
        match question {
            Some(Self::All { .. }) => Ok(Self::All { include }),
            Some(question) => Ok(question),
            None => Err(PropfindError::NotPropfind { seen: "propfind".to_owned() }),
        }
    }
}

impl PropertyUpdate {
    /// Parses the body of a PROPPATCH of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// The body is not XML, or XML of another kind.
    pub fn parse(body: &[u8], max_bytes: usize) -> Result<Vec<Self>, PropfindError> {
        let mut reader = Reader::new(body, max_bytes)?;
        reader.enter("propertyupdate")?;
        let mut changes = Vec::new();
        while let Some(element) = reader.tokens.child()? {
            let set = is(&element, "set");
            let remove = is(&element, "remove");
            if !set && !remove {
                reader.tokens.skip_element()?;
                continue;
            }
            while let Some(element) = reader.tokens.child()? {
                if !is(&element, "prop") {
                    reader.tokens.skip_element()?;
                } else if set {
                    reader.values(&mut changes)?;
                } else {
                    changes.extend(reader.names()?.into_iter().map(Self::Remove));
                }
            }
        }
        Ok(changes)
    }
}

struct Reader<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8], max_bytes: usize) -> Result<Self, PropfindError> {
        Ok(Self { tokens: Tokens::new(body, &[DAV], max_bytes, MAX_DEPTH)? })
    }

    /// The outermost element, which must have this name.
    fn enter(&mut self, name: &str) -> Result<(), PropfindError> {
        match self.tokens.outermost()? {
            Some(element) if is(&element, name) => Ok(()),
            other => Err(PropfindError::NotPropfind { seen: seen(other.as_ref()) }),
        }
    }

    /// The names of the elements within the open one.
    fn names(&mut self) -> Result<Vec<PropertyName>, PropfindError> {
        let mut names = Vec::new();
        let mut bytes = 0;
        while let Some(element) = self.tokens.child()? {
            let name = self.name(&element)?;
            bytes += name.namespace.len() + name.local.len();
            if names.len() == MAX_NAMES || bytes > MAX_NAME_BYTES {
                return Err(PropfindError::TooManyProperties {
                    max: MAX_NAMES,
                    max_bytes: MAX_NAME_BYTES,
                });
            }
            names.push(name);
            self.tokens.skip_element()?;
        }
        Ok(names)
    }

    fn name(&self, element: &Element<'_>) -> Result<PropertyName, PropfindError> {
        let namespace = self.tokens.namespace_of(element)?;
        Ok(PropertyName { namespace, local: element.local().to_owned() })
    }

    /// The elements within the open one, with their content.
    fn values(&mut self, changes: &mut Vec<PropertyUpdate>) -> Result<(), PropfindError> {
        while let Some(element) = self.tokens.child()? {
            if changes.len() == MAX_UPDATES {
                return Err(PropfindError::TooMany { most: MAX_UPDATES });
            }
            let name = self.name(&element)?;
            let value = self.inside()?;
            changes.push(PropertyUpdate::Set { name, value });
        }
        Ok(())
    }

    /// The content of the open element, written so that it means the same in any context.
    fn inside(&mut self) -> Result<String, PropfindError> {
        let mut out = String::new();
        let mut open: Vec<String> = Vec::new();
        loop {
            match self.tokens.next()? {
                Token::Open(element) => {
                    let name = self.name(&element)?;
                    let tag = tag(&name);
                    out.push('<');
                    out.push_str(&opening(&name));
                    for (name, value) in element.plain_attributes() {
                        out.push_str(&format!(" {name}=\"{}\"", escape(&value)));
                    }
                    out.push('>');
                    open.push(tag);
                }
                Token::Text(text) => out.push_str(&escape(&text)),
                Token::Close => match open.pop() {
                    Some(tag) => out.push_str(&format!("</{tag}>")),
                    None => return Ok(out),
                },
                Token::End => return Ok(out),
            }
        }
    }
}

/// A tag for an element of any namespace: `D:` for `DAV:`, else a prefix of its own.
fn tag(name: &PropertyName) -> String {
    match name.namespace.as_str() {
        "" => name.local.clone(),
        DAV => format!("D:{}", name.local),
        _ => format!("x:{}", name.local),
    }
}

/// The inside of an opening tag, which declares its prefix.
fn opening(name: &PropertyName) -> String {
    let namespace = escape(&name.namespace);
    match name.namespace.as_str() {
        "" => format!("{} xmlns=\"\"", name.local),
        DAV => format!("{} xmlns:D=\"DAV:\"", tag(name)),
        _ => format!("{} xmlns:x=\"{namespace}\"", tag(name)),
    }
}

/// An element that means the same in any context, around XML that does.
///
/// ```
/// use hither_http::propfind::{PropertyName, element};
/// let name = PropertyName { namespace: "urn:a".to_owned(), local: "b".to_owned() };
/// assert_eq!(element(&name, "1"), "<x:b xmlns:x=\"urn:a\">1</x:b>");
/// assert_eq!(element(&PropertyName::dav("getetag"), ""), "<D:getetag xmlns:D=\"DAV:\"/>");
/// ```
#[must_use]
pub fn element(name: &PropertyName, inside: &str) -> String {
    if inside.is_empty() {
        format!("<{}/>", opening(name))
    } else {
        format!("<{}>{inside}</{}>", opening(name), tag(name))
    }
}

/// Escapes text for element content and attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(namespace: &str, local: &str) -> PropertyName {
        PropertyName { namespace: namespace.to_owned(), local: local.to_owned() }
    }

    #[test]
    fn questions_name_properties_of_any_name_space() {
        let body = br#"<?xml version="1.0"?><propfind xmlns="DAV:" xmlns:a="urn:a"><prop>
            <getetag/><a:one/><two xmlns=""/></prop></propfind>"#;
        let these = vec![PropertyName::dav("getetag"), name("urn:a", "one"), name("", "two")];
        assert_eq!(PropfindRequest::parse(body, 1000), Ok(PropfindRequest::These(these)));
        let all = Ok(PropfindRequest::All { include: Vec::new() });
        assert_eq!(PropfindRequest::parse(b" \n", 1000), all);
        assert_eq!(
            PropfindRequest::parse(b"<D:propfind xmlns:D='DAV:'><D:allprop/></D:propfind>", 100),
            all
        );
        let names = b"<D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>";
        assert_eq!(PropfindRequest::parse(names, 100), Ok(PropfindRequest::Names));
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for body in [
            &b"<propfind xmlns='DAV:'>"[..],
            b"<propfind/>",
            b"<other xmlns='DAV:'/>",
            b"<propfind xmlns='DAV:'/>",
            b"<propfind xmlns='DAV:'><allprop/></propfind>text",
            b"<propfind xmlns='DAV:'><prop><b:c/></prop></propfind>",
            b"<propfind xmlns='DAV:'><prop><b:c xmlns:b=''/></prop></propfind>",
            b"no XML",
        ] {
            assert!(PropfindRequest::parse(body, 1000).is_err(), "{}", body.escape_ascii());
        }
        assert!(
            PropfindRequest::parse(b"<D:propfind xmlns:D='DAV:'><D:allprop/></D:propfind>", 10)
                .is_err()
        );
    }

    #[test]
    fn changes_come_in_their_order_with_values_that_stand_alone() {
        let body = br#"<D:propertyupdate xmlns:D="DAV:" xmlns:a="urn:a"><D:set><D:prop>
            <a:one>x &lt; <a:in l="1">y</a:in><b xmlns="urn:b"/></a:one></D:prop></D:set>
            <D:remove><D:prop><a:two/></D:prop></D:remove></D:propertyupdate>"#;
        let value = "x &lt; <x:in xmlns:x=\"urn:a\" l=\"1\">y</x:in><x:b xmlns:x=\"urn:b\"></x:b>";
        assert_eq!(
            PropertyUpdate::parse(body, 1000).unwrap(),
            [
                PropertyUpdate::Set { name: name("urn:a", "one"), value: value.to_owned() },
                PropertyUpdate::Remove(name("urn:a", "two")),
            ]
        );
    }
}
