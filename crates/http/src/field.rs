//! Syntax of header field values: lists, parameters, quoted strings (RFC 9110 section 5.6).

pub mod date;
pub mod pelican;
pub mod server_timing;

use crate::text::trim;

/// Splits a list at commas outside of quotes and `<…>`; drops empty items.
pub(crate) fn list_items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    let mut bracketed = false;
    let items = list.split(move |&byte| {
        if escaped {
            escaped = false;
            return false;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' if !bracketed => quoted = !quoted,
            b'<' if !quoted => bracketed = true,
            b'>' if !quoted => bracketed = false,
            _ => {}
        }
        byte == b',' && !quoted && !bracketed
    });
    items.map(trim).filter(|item| !item.is_empty())
}

/// Parses `;name=value;name="value"` as far as possible; a name alone has an empty value.
pub(crate) fn parameters(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
    std::iter::from_fn(move || {
        loop {
            let start = rest.iter().position(|byte| *byte == b';')? + 1;
            rest = rest.get(start..)?;
            let end = rest.iter().position(|byte| matches!(byte, b'=' | b';'));
            let (name, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
            let found = match after.strip_prefix(b"=") {
                Some(after) => value(trim(after))?,
                None => (Vec::new(), after),
            };
            rest = found.1;
            if !trim(name).is_empty() {
                return Some((trim(name), found.0));
            }
        }
    })
}

/// Splits a token or quoted string off the front; `None` for a string without end.
pub(crate) fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return Some((trim(value).to_vec(), rest));
    };
    let mut value = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((value, after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_parted_by_bare_commas() {
        let items: Vec<_> = list_items(b"a, <b,\"c>;x=\"d,\\\",e\" ,,f,").collect();
        assert_eq!(items, [&b"a"[..], b"<b,\"c>;x=\"d,\\\",e\"", b"f"]);
    }

    #[test]
    fn parameters_may_be_quoted_or_bare_or_alone() {
        let found: Vec<_> = parameters(b"x; a=1 ;B = \"2;\\\"3\";;c; d=").collect();
        let expected: Vec<(&[u8], Vec<u8>)> = vec![
            (b"a", b"1".to_vec()),
            (b"B", b"2;\"3".to_vec()),
            (b"c", Vec::new()),
            (b"d", Vec::new()),
        ];
        assert_eq!(found, expected);
        assert_eq!(parameters(b";a=\"unfinished").count(), 0);
    }
}
