//! XML from a peer, token by token, within limits.
//!
//! Documents are parsed with quick-xml, which expands nothing by itself. Only XML's five named
//! entities and character numbers are resolved here; any other reference is an error, so that no
//! document type can make a small text large. Depth and length are checked before anything is
//! stored.
//!
//! A document that goes on after its root element is an error, whatever follows: a second
//! document, or the message of a server that failed while it wrote. The end of the root element is
//! returned only after the rest was checked, so a reader cannot forget that.

pub mod object_list;

use crate::text::excerpt;
use quick_xml::NsReader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use std::borrow::Cow;

/// Reason why a document cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The document is larger than its limit.
    #[error("the document has {bytes} bytes, expected at most {most}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The document is not in UTF-8, the only supported encoding.
    #[error("the document is not UTF-8 from byte {at} on")]
    Encoding {
        /// The first invalid byte.
        at: usize,
    },
    /// Elements are nested beyond the limit.
    #[error("elements are nested more than {most} deep")]
    TooDeep {
        /// The limit.
        most: usize,
    },
    /// A reference to an entity that XML itself does not define.
    #[error("the document refers to \"{name}\", expected only characters and XML's own entities")]
    Reference {
        /// The name, shortened and escaped.
        name: String,
    },
    /// The document is not well-formed.
    #[error("the document is not well-formed near byte {at}: {what}")]
    Syntax {
        /// The approximate position in bytes.
        at: u64,
        /// The defect.
        what: String,
    },
    /// The document has something outside of its root element.
    #[error("the document is not well-formed near byte {at}: it goes on outside its root element")]
    OutsideRoot {
        /// The approximate position in bytes.
        at: u64,
    },
    /// The document ends within an element.
    #[error("the document ends within {open} open elements")]
    Truncated {
        /// Number of open elements.
        open: usize,
    },
}

/// The characters between elements (XML, section 2.3).
pub(crate) const LAYOUT: [char; 4] = [' ', '\t', '\r', '\n'];

/// The next item of a document. An element without content is an `Open` and a `Close`.
#[derive(Debug)]
pub(crate) enum Token<'a> {
    Open(Element<'a>),
    /// A piece of text; several may follow each other.
    Text(Cow<'a, str>),
    Close,
    End,
}

/// The start of an element.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    /// Its namespace, if it is one of those that the reader distinguishes.
    pub(crate) namespace: Option<&'static str>,
    start: BytesStart<'a>,
}

impl Element<'_> {
    /// The name without its prefix.
    pub(crate) fn local(&self) -> &str {
        self.start.local_name().into_inner()
    }

    /// The attributes without prefix, except namespace declarations; invalid ones are skipped.
    pub(crate) fn plain_attributes(&self) -> Vec<(String, String)> {
        let attribute = |found: quick_xml::events::attributes::Attribute<'_>| {
            let name = found.key.into_inner();
            let value = found.normalized_value(quick_xml::XmlVersion::Implicit1_0).ok()?;
            let plain = !name.contains(':') && name != "xmlns";
            plain.then(|| (name.to_owned(), value.into_owned()))
        };
        self.start.attributes().flatten().filter_map(attribute).collect()
    }

    /// The value of an attribute without prefix; `None` if it is absent or invalid.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let attribute = self.start.try_get_attribute(name).ok()??;
        let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }
}

/// A reader of one document.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    reader: NsReader<&'a [u8]>,
    namespaces: &'static [&'static str],
    depth: usize,
    max_depth: usize,
}

impl<'a> Tokens<'a> {
    /// Reads `document`; `namespaces` are those that the reader distinguishes.
    pub(crate) fn new(
        document: &'a [u8],
        namespaces: &'static [&'static str],
        max_bytes: usize,
        max_depth: usize,
    ) -> Result<Self, XmlError> {
        if document.len() > max_bytes {
            return Err(XmlError::TooLarge { bytes: document.len(), most: max_bytes });
        }
        let text = std::str::from_utf8(document)
            .map_err(|error| XmlError::Encoding { at: error.valid_up_to() })?;
        let mut reader = NsReader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        Ok(Self { reader, namespaces, depth: 0, max_depth })
    }

    pub(crate) fn next(&mut self) -> Result<Token<'a>, XmlError> {
        loop {
            let (namespace, event) = match self.reader.read_resolved_event() {
                Ok(resolved) => resolved,
                Err(error) => return Err(syntax(&self.reader, &error)),
            };
            match event {
                Event::Start(start) | Event::Empty(start) => {
                    let namespace = known(self.namespaces, &namespace);
                    if self.depth >= self.max_depth {
                        return Err(XmlError::TooDeep { most: self.max_depth });
                    }
                    self.depth += 1;
                    return Ok(Token::Open(Element { namespace, start }));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.check_rest()?;
                    }
                    return Ok(Token::Close);
                }
                Event::Text(text) => return Ok(Token::Text(text.into_inner())),
                Event::CData(text) => return Ok(Token::Text(text.into_inner())),
                Event::GeneralRef(reference) => {
                    let unknown =
                        || XmlError::Reference { name: excerpt(reference.as_ref().as_bytes()) };
                    if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
                        return Ok(Token::Text(character.to_string().into()));
                    }
                    let text = resolve_predefined_entity(&reference).ok_or_else(unknown)?;
                    return Ok(Token::Text(text.into()));
                }
                Event::Eof if self.depth > 0 => {
                    return Err(XmlError::Truncated { open: self.depth });
                }
                Event::Eof => return Ok(Token::End),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }

    /// Fails unless only blanks, comments and processing instructions follow (XML, section 2.1).
    fn check_rest(&mut self) -> Result<(), XmlError> {
        loop {
            match self.reader.read_event().map_err(|error| syntax(&self.reader, &error))? {
                Event::Eof => return Ok(()),
                Event::Comment(_) | Event::PI(_) => {}
                Event::Text(text) if is_blank(&text) => {}
                _ => return Err(self.outside_root()),
            }
        }
    }

    fn outside_root(&self) -> XmlError {
        XmlError::OutsideRoot { at: self.reader.buffer_position() }
    }

    /// The outermost element; `None` if there is none.
    pub(crate) fn outermost(&mut self) -> Result<Option<Element<'a>>, XmlError> {
        loop {
            match self.next()? {
                Token::Open(element) => return Ok(Some(element)),
                Token::End => return Ok(None),
                Token::Text(text) if !is_blank(&text) => return Err(self.outside_root()),
                Token::Text(_) | Token::Close => {}
            }
        }
    }

    /// The next element within the open one; `None` when that has ended.
    pub(crate) fn child(&mut self) -> Result<Option<Element<'a>>, XmlError> {
        loop {
            match self.next()? {
                Token::Open(element) => return Ok(Some(element)),
                Token::Text(_) => {}
                Token::Close | Token::End => return Ok(None),
            }
        }
    }

    /// The text of the element that has just been opened, to its end, trimmed. Text beyond `most`
    /// bytes is dropped; text of elements within it does not count.
    pub(crate) fn text_of_element(&mut self, most: usize) -> Result<String, XmlError> {
        Ok(self.whole_text_of_element(most)?.trim().to_owned())
    }

    /// The same, including the blanks at both ends.
    pub(crate) fn whole_text_of_element(&mut self, most: usize) -> Result<String, XmlError> {
        let depth = self.depth;
        let mut value = String::new();
        while self.depth >= depth {
            match self.next()? {
                Token::Text(text) if self.depth == depth && value.len() + text.len() <= most => {
                    value.push_str(&text);
                }
                Token::End => break,
                Token::Text(_) | Token::Open(_) | Token::Close => {}
            }
        }
        Ok(value)
    }

    /// The namespace of the element that has just been opened; empty for none.
    pub(crate) fn namespace_of(&self, element: &Element<'_>) -> Result<String, XmlError> {
        let wrong = |what: &str| XmlError::Syntax {
            at: self.reader.buffer_position(),
            what: what.to_owned(),
        };
        let (found, _) = self.reader.resolver().resolve_element(element.start.name());
        match found {
            ResolveResult::Bound(Namespace(name)) => quick_xml::escape::unescape(name)
                .map(Cow::into_owned)
                .map_err(|_| wrong("an invalid namespace")),
            ResolveResult::Unbound if element.start.name().prefix().is_none() => Ok(String::new()),
            ResolveResult::Unbound | ResolveResult::Unknown(_) => {
                Err(wrong("a prefix without a namespace"))
            }
        }
    }

    /// Skips to the end of the element that has just been opened.
    pub(crate) fn skip_element(&mut self) -> Result<(), XmlError> {
        let depth = self.depth;
        while self.depth >= depth && !matches!(self.next()?, Token::End) {}
        Ok(())
    }
}

/// Returns true for a text between elements.
fn is_blank(text: &str) -> bool {
    text.trim_matches(LAYOUT).is_empty()
}

fn syntax(reader: &NsReader<&[u8]>, error: &quick_xml::Error) -> XmlError {
    let what = excerpt(error.to_string().as_bytes());
    XmlError::Syntax { at: reader.error_position(), what }
}

/// The name of an unexpected element, for a message.
pub(crate) fn seen(element: Option<&Element<'_>>) -> String {
    element.map(|element| excerpt(element.local().as_bytes())).unwrap_or_default()
}

/// The one of `namespaces` that a name was found to be in.
fn known(namespaces: &'static [&'static str], found: &ResolveResult<'_>) -> Option<&'static str> {
    let ResolveResult::Bound(Namespace(name)) = found else { return None };
    namespaces.iter().copied().find(|known| known == name)
}
