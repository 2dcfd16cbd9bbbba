//! Lists of checksums in the format of `md5sum` and `sha256sum`: one line per file, with the
//! checksum in hexadecimal digits, two spaces and the name. If the name contains a line break or a
//! backslash, the line begins with a backslash, and these characters are written as `\n`, `\r` and
//! `\\`. Tabs are written as they are. So are other control characters by these programs, but not
//! here, where a terminal may show them: they are written as in JSON, in a line that these programs
//! report as wrong. Three other forms are also read: a star instead of the second space,
//! `MD5 (NAME) = CHECKSUM`, and `md5:CHECKSUM  NAME`.

use hither::{Algorithm, Checksum};
use hither_core::text::escape_lines;

/// A checksum and the name of its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedChecksum {
    pub(super) name: String,
    pub(super) expected: Checksum,
}

/// The checksums of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChecksumList {
    pub(super) checksums: Vec<ListedChecksum>,
    /// The number of lines without a valid checksum.
    pub(super) unread: usize,
}

/// The line of a file. A crc32c is named, because its digits could be those of an adler32.
pub(super) fn line(value: &Checksum, name: &str) -> String {
    let escaped = escaped(name);
    let mark = if escaped == name { "" } else { "\\" };
    let value =
        if value.algorithm() == Algorithm::Crc32c { value.to_string() } else { value.hex() };
    format!("{mark}{value}  {escaped}\n")
}

/// A name with its special characters escaped, in one line.
pub(super) fn escaped(name: &str) -> String {
    escape_lines(&name.replace('\\', r"\\").replace('\n', r"\n")).into_owned()
}

/// The checksums in `text`. Without an algorithm, the number of digits selects it; eight digits are
/// adler32.
pub(super) fn parse(text: &str, algorithm: Option<Algorithm>) -> ChecksumList {
    let mut checksums = Vec::new();
    let mut unread = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match entry(line, algorithm) {
            Some(listed) => checksums.push(listed),
            None => unread += 1,
        }
    }
    ChecksumList { checksums, unread }
}

fn entry(line: &str, algorithm: Option<Algorithm>) -> Option<ListedChecksum> {
    let is_escaped = line.starts_with('\\');
    let line = line.strip_prefix('\\').unwrap_or(line);
    let (expected, name) = tagged(line).or_else(|| untagged(line, algorithm))?;
    let name = if is_escaped { unescaped(name)? } else { name.to_owned() };
    Some(ListedChecksum { name, expected })
}

/// Parses `MD5 (NAME) = CHECKSUM`.
fn tagged(line: &str) -> Option<(Checksum, &str)> {
    let (algorithm, rest) = line.split_once(" (")?;
    let (name, digits) = rest.rsplit_once(") = ")?;
    let algorithm: Algorithm = algorithm.parse().ok()?;
    Some((Checksum::from_hex(algorithm, digits.trim_end()).ok()?, name))
}

/// Parses `CHECKSUM  NAME`.
fn untagged(line: &str, algorithm: Option<Algorithm>) -> Option<(Checksum, &str)> {
    let (value, rest) = line.split_once(' ')?;
    let name = rest.strip_prefix([' ', '*']).filter(|name| !name.is_empty())?;
    if value.contains(':') {
        return Some((value.parse().ok()?, name));
    }
    let by_width = || {
        let known = [Algorithm::Adler32, Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512];
        known.into_iter().find(|known| 2 * known.width() == value.len())
    };
    Some((Checksum::from_hex(algorithm.or_else(by_width)?, value).ok()?, name))
}

fn unescaped(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        plain.push(match c {
            '\\' => match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let (digits, after) = rest.as_str().split_at_checked(4)?;
                    rest = after.chars();
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                }
                '\\' => '\\',
                _ => return None,
            },
            c => c,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_checksum::Hasher;

    fn md5() -> Checksum {
        Hasher::of(Algorithm::Md5, b"x")
    }

    #[test]
    fn lists_have_the_forms_of_md5sum() {
        let hex = md5().hex();
        let upper = hex.to_uppercase();
        for (line, name) in [
            (format!("{hex}  a b"), "a b"),
            (format!("{upper} *a"), "a"),
            (format!("{hex}   a"), " a"),
            (format!("\\{hex}  a\\nb\\\\c"), "a\nb\\c"),
            (format!("MD5 (a) (b) = {hex}"), "a) (b"),
            (format!("md5:{hex}  a"), "a"),
        ] {
            let list = parse(&format!("\n{line}\r\n"), None);
            let listed = ListedChecksum { name: name.to_owned(), expected: md5() };
            assert_eq!(list, ChecksumList { checksums: vec![listed], unread: 0 }, "{line}");
        }
    }

    #[test]
    fn only_what_md5sum_escapes_is_escaped_in_a_line_that_it_reads() {
        let hex = md5().hex();
        for (name, expected) in [
            ("a\tb", format!("{hex}  a\tb\n")),
            ("a\t\nb", format!("\\{hex}  a\t\\nb\n")),
            ("\\\r", format!("\\{hex}  \\\\\\r\n")),
            ("\u{1b}", format!("\\{hex}  \\u001b\n")),
        ] {
            assert_eq!(line(&md5(), name), expected);
        }
    }

    #[test]
    fn what_is_no_checksum_is_counted() {
        let hex = md5().hex();
        let text = format!("# comment\n{hex}\n{hex} a\n{hex}  \n12345  a\n\\{hex}  a\\b\nx:1  a\n");
        assert_eq!(parse(&text, None), ChecksumList { checksums: Vec::new(), unread: 7 });
        assert_eq!(parse("0a0b0c0d  a", Some(Algorithm::Crc32c)).checksums.len(), 1);
    }

    #[test]
    fn checksums_of_every_algorithm_come_back() {
        for algorithm in Algorithm::ALL {
            let expected = Hasher::of(algorithm, b"x");
            let list = parse(&line(&expected, "a"), None);
            assert_eq!(list.checksums, [ListedChecksum { name: "a".to_owned(), expected }]);
        }
    }

    #[test]
    fn names_of_any_kind_come_back() {
        for name in ["a", "a b", "a\nb", "\\", "a\r", "\t\u{1b}[m\u{9b}", " (x) = y"] {
            let list = parse(&line(&md5(), name), None);
            assert_eq!(list.checksums.first().map(|it| &*it.name), Some(name), "{name:?}");
        }
    }
}
