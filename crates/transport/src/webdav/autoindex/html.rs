//! The links of an HTML page, in the forms that servers write them.

use std::ops::Range;

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The reference, with entities replaced.
    pub(super) reference: String,
    /// An entity of the reference is unknown here.
    pub(super) is_doubtful: bool,
    /// The text, without tags, in lower case.
    pub(super) text: String,
    /// The position after the tag.
    pub(super) end: usize,
    /// It leads to the next page of several.
    pub(super) is_next: bool,
}

/// The longest text of a link that is read, in characters.
const MAX_TEXT_CHARS: usize = 200;
/// The longest name of an entity, in bytes.
const MAX_ENTITY_BYTES: usize = 10;

/// The links of a page, outside of comments, scripts and styles.
pub(super) fn links(page: &str) -> Vec<Link> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(tag) = next_tag(page, &mut at) {
        let Some(text) = page.get(tag.clone()) else { break };
        let name = text.split(|c: char| c.is_ascii_whitespace() || c == '/').next();
        let name = name.unwrap_or_default();
        if name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style") {
            skip_to_end(page, name, &mut at);
        }
        let is_link = name.eq_ignore_ascii_case("a");
        if !is_link && !name.eq_ignore_ascii_case("link") {
            continue;
        }
        let attributes = text.get(name.len()..).unwrap_or_default();
        let is_next = attribute(attributes, "rel").is_some_and(|rel| {
            rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"))
        });
        let Some(reference) = attribute(attributes, "href").filter(|_| is_link || is_next) else {
            continue;
        };
        let (reference, is_doubtful) = unescaped(reference);
        let text = if is_link { text_after(page, at) } else { String::new() };
        found.push(Link { reference, is_doubtful, text, end: at, is_next });
    }
    found
}

/// The first of these elements that a page has, as its name.
pub(super) fn has_element(page: &str, names: &[&str]) -> bool {
    let mut at = 0;
    while let Some(tag) = next_tag(page, &mut at) {
        let text = page.get(tag).unwrap_or_default();
        let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)) {
            return true;
        }
    }
    false
}

/// The beginning of a text, at most `chars` characters.
pub(super) fn beginning(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or_default()
}

/// The next tag from `at` on, without its brackets; `at` is then after it. Comments are skipped.
fn next_tag(page: &str, at: &mut usize) -> Option<Range<usize>> {
    loop {
        let rest = page.get(*at..)?;
        let start = *at + rest.find('<')? + 1;
        let rest = page.get(start..)?;
        if rest.starts_with("!--") {
            *at = start + rest.find("-->")? + 3;
            continue;
        }
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
            *at = start;
            continue;
        }
        let end = start + tag_end(rest)?;
        *at = end + 1;
        return Some(start..end);
    }
}

/// The position of the bracket that closes a tag: not one in a quoted value.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '>' => return Some(at),
            None if (c == '"' || c == '\'') && before == '=' => quote = Some(c),
            None => {}
        }
        if !c.is_ascii_whitespace() {
            before = c;
        }
    }
    None
}

fn skip_to_end(page: &str, name: &str, at: &mut usize) {
    let rest = page.get(*at..).unwrap_or_default();
    let closes = |(tag, _): &(usize, &str)| {
        let closed = rest.get(tag + 2..tag + 2 + name.len());
        closed.is_some_and(|closed| closed.eq_ignore_ascii_case(name))
    };
    *at += rest.match_indices("</").find(closes).map_or(rest.len(), |(tag, _)| tag);
}

/// The value of an attribute: quoted either way, or not at all.
fn attribute<'a>(mut text: &'a str, wanted: &str) -> Option<&'a str> {
    loop {
        text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let end = text.find(|c: char| c.is_ascii_whitespace() || c == '=').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() && rest.is_empty() {
            return None;
        }
        let Some(value) = rest.trim_ascii_start().strip_prefix('=') else {
            text = rest;
            continue;
        };
        let value = value.trim_ascii_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value.get(1..)?.split_once(quote)?,
            _ => {
                value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()))
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        text = after;
    }
}

/// The text of a link from `at` to its end.
fn text_after(page: &str, at: usize) -> String {
    let rest = beginning(page.get(at..).unwrap_or_default(), MAX_TEXT_CHARS);
    let lower = rest.to_ascii_lowercase();
    let rest = rest.get(..lower.find("</a").unwrap_or(rest.len())).unwrap_or_default();
    let mut text = String::new();
    let mut is_tag = false;
    for c in rest.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            _ if !is_tag => text.push(c),
            _ => {}
        }
    }
    unescaped(&text).0.trim().to_lowercase()
}

/// Replaces entities: those of numbers, and the named ones that occur in links. True if another one
/// is left.
pub(super) fn unescaped(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let mut is_doubtful = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end = after.bytes().take(MAX_ENTITY_BYTES + 1).position(|byte| byte == b';');
        let entity = end.and_then(|end| after.split_at_checked(end)).filter(|(name, _)| {
            let is_word = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            !name.is_empty() && is_word(name.trim_start_matches('#'))
        });
        let Some((name, next)) = entity else {
            out.push('&');
            rest = after;
            continue;
        };
        match character(name) {
            Some(c) => out.push(c),
            None => {
                is_doubtful = true;
                out.push('&');
                out.push_str(name);
                out.push(';');
            }
        }
        rest = next.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    (out, is_doubtful)
}

fn character(name: &str) -> Option<char> {
    let code = match name.strip_prefix('#') {
        None => {
            return match name {
                "amp" => Some('&'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                "nbsp" => Some('\u{a0}'),
                "raquo" => Some('\u{bb}'),
                _ => None,
            };
        }
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        },
    };
    char::from_u32(code)
}
