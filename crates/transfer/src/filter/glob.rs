//! Patterns of names, in rclone's syntax, as regular expressions.
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any characters but `/` |
//! | `**` | any characters |
//! | `?` | one character but `/` |
//! | `[a-z]`, `[^a-z]`, `[[:alpha:]]` | one character of a class |
//! | `{a,b}` | one of the alternatives |
//! | `{{...}}` | a regular expression |
//! | `\c` | the character `c`, or a class such as `\d` |
//!
//! A pattern that begins with `/` is matched from the root of the tree, any other one from the
//! beginning of some component; both up to the end of the path.

use hither_core::{Error, ErrorKind, Result};
use regex::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// The largest compiled pattern, in bytes: a pattern such as `{{.{99999}}}` must not take the
/// memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The regular expression of a pattern.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] for a pattern with brackets or braces that do not fit together.
pub(super) fn compile(pattern: &str) -> Result<Regex> {
    let invalid = |why: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, format!("filter pattern {pattern:?}: {why}"))
    };
    let translated = translate(pattern).map_err(|why| invalid(&why))?;
    let built = RegexBuilder::new(&translated).size_limit(MAX_COMPILED_BYTES).build();
    built.map_err(|error| invalid(&error))
}

/// The patterns of the directories, with a slash at the end, in which `pattern` may match files:
/// from the innermost to the root. A pattern that is too complex gives every directory.
pub(super) fn directories(pattern: &str) -> Vec<String> {
    if has_hard_alternatives(pattern) {
        return vec!["/**".to_owned()];
    }
    let mut rest = pattern.to_owned();
    while rest.contains("//") {
        rest = rest.replace("//", "/");
    }
    let mut found: Vec<String> = Vec::new();
    loop {
        // `**` matches slashes, so a directory may end within it.
        let slash = rest.rfind('/');
        let stars = rest.rfind("**").filter(|stars| slash.is_none_or(|slash| *stars > slash));
        let Some(cut) = stars.or(slash) else { break };
        let ending = if stars.is_some() { "**/" } else { "/" };
        rest.truncate(cut);
        let directory = format!("{rest}{ending}");
        if found.last() != Some(&directory) {
            found.push(directory);
        }
    }
    if found.is_empty() { vec!["/**".to_owned()] } else { found }
}

/// Returns true for alternatives that contain a slash or a star, and for regular expressions.
fn has_hard_alternatives(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some((_, after)) = rest.split_once('{') {
        if after.starts_with('{') {
            return true;
        }
        let within = after.split(['{', '}']).next().unwrap_or_default();
        if within.contains(['/', '*']) {
            return true;
        }
        rest = after;
    }
    false
}

fn translate(pattern: &str) -> Result<String, &'static str> {
    let (start, pattern) = match pattern.strip_prefix('/') {
        Some(rest) => ("^", rest),
        None => ("(?:^|/)", pattern),
    };
    let mut translated = String::from(start);
    let mut rest = pattern.chars().peekable();
    let mut in_braces = false;
    while let Some(c) = rest.next() {
        match c {
            '*' => translated.push_str(stars(&mut rest)?),
            '?' => translated.push_str("[^/]"),
            '\\' => {
                let escaped = rest.next().ok_or("a backslash ends it: write two")?;
                translated.extend(['\\', escaped]);
            }
            '[' => class(&mut rest, &mut translated)?,
            ']' => return Err("a ] without its ["),
            '{' if !in_braces && rest.next_if_eq(&'{').is_some() => {
                expression(&mut rest, &mut translated)?;
            }
            '{' if in_braces => return Err("braces within braces"),
            '{' => {
                in_braces = true;
                translated.push_str("(?:");
            }
            '}' if in_braces => {
                in_braces = false;
                translated.push(')');
            }
            '}' => return Err("a } without its {"),
            ',' if in_braces => translated.push('|'),
            c => translated.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    if in_braces {
        return Err("a { without its }");
    }
    translated.push('$');
    Ok(translated)
}

/// The expression for a star, or a row of them. The first is taken already.
fn stars(rest: &mut Peekable<Chars<'_>>) -> Result<&'static str, &'static str> {
    if rest.next_if_eq(&'*').is_none() {
        return Ok("[^/]*");
    }
    match rest.peek() {
        Some('*') => Err("three stars: write one or two"),
        _ => Ok(".*"),
    }
}

/// A class of characters, whose opening bracket was read already. Classes nest only as `[:alpha:]`.
fn class(rest: &mut Peekable<Chars<'_>>, translated: &mut String) -> Result<(), &'static str> {
    const UNENDED: &str = "a [ without its ]";
    translated.push('[');
    let mut depth = 1;
    while depth > 0 {
        let c = rest.next().ok_or(UNENDED)?;
        translated.push(c);
        match c {
            '\\' => translated.push(rest.next().ok_or(UNENDED)?),
            '[' => depth += 1,
            ']' => depth -= 1,
            // In a class these are set operations to the engine, and ordinary characters in a glob.
            '&' | '~' | '-' if rest.peek() == Some(&c) => return Err("an invalid range in [ ]"),
            _ => {}
        }
    }
    Ok(())
}

/// A regular expression up to `}}`, or to the last one of more braces.
fn expression(rest: &mut Peekable<Chars<'_>>, translated: &mut String) -> Result<(), &'static str> {
    let mut text = String::new();
    loop {
        let c = rest.next().ok_or("a {{ without its }}")?;
        if c == '}' && rest.next_if_eq(&'}').is_some() {
            while rest.next_if_eq(&'}').is_some() {
                text.push('}');
            }
            break;
        }
        text.push(c);
    }
    translated.extend(["(?:", &text, ")"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, paths that match, and paths that do not: the tables of rclone's page on filtering.
    const TABLE: [(&str, &[&str], &[&str]); 20] = [
        ("*.jpg", &["file.jpg", "dir/file.jpg"], &["file.png", "dir/file.png"]),
        ("/*.jpg", &["file.jpg", "file2.jpg"], &["file.png", "dir/file.jpg"]),
        ("*.{jpg,png}", &["file.jpg", "dir/file.png"], &["file.gif", "dir/file.gif"]),
        ("dir/**", &["dir/anyfile", "subdir/dir/subsubdir/anyfile"], &["file.png", "subdir/x"]),
        ("*.t?t", &["file.txt", "dir/file.tzt"], &["file.qxt", "dir/file.png"]),
        ("*.[a-z]", &["file.a", "dir/file.b"], &["file.0", "dir/file.1"]),
        (r"*.\?\?\?", &["file.???", "dir/file.???"], &["file.abc", "dir/file.def"]),
        (r"*.\d\d\d", &["file.012", "dir/file.345"], &["file.abc", "dir/file.def"]),
        ("*.{{jpe?g}}", &["file.jpeg", "dir/file.jpg"], &["file.png", "dir/file.jpeeg"]),
        (r"/{{.*\.jpe?g}}", &["file.jpeg", "file.jpg"], &["file.png"]),
        ("file.jpg", &["file.jpg", "directory/file.jpg"], &["afile.jpg", "directory/afile.jpg"]),
        ("/file.jpg", &["file.jpg"], &["afile.jpg", "directory/file.jpg"]),
        ("potato", &["potato"], &["POTATO"]),
        ("/excl/**", &["excl/123.jpg", "excl/a/b"], &["incl/document.pdf", "a/excl/b"]),
        (r"*\[{JP,KR}\]*", &["a[JP]b", "d/[KR]"], &["a[US]", "JP"]),
        ("??[^[:punct:]]*", &["abc", "x/ab1d"], &["ab.c", "ab"]),
        ("*.{{(?i)jpg}}", &["file.JPG", "file.jpg"], &["file.png"]),
        ("secret*.jpg", &["secret17.jpg", "a/secret.jpg"], &["asecret.jpg", "secret/a.jpg"]),
        ("{a**,b}/x", &["a/x", "aa/b/x", "b/x"], &["c/x"]),
        ("'.' '+' '(' ')' '|' '^' '$'", &["'.' '+' '(' ')' '|' '^' '$'"], &["'a'"]),
    ];

    #[test]
    fn patterns_match_as_in_rclones_documentation() {
        for (pattern, matches, others) in TABLE {
            let compiled = compile(pattern).unwrap();
            for path in matches {
                assert!(compiled.is_match(path), "{pattern} should match {path}");
            }
            for path in others {
                assert!(!compiled.is_match(path), "{pattern} should not match {path}");
            }
        }
    }

    #[test]
    fn malformed_patterns_are_errors_that_quote_them() {
        for pattern in [
            "***",
            "a***b",
            "ab]c",
            "ab[c",
            "ab{{cd",
            "ab{}}cd",
            "ab}c",
            "ab{c",
            "[a--b]",
            "a\\",
            "{a{b}c}",
            "{{(}}",
            "{{.{1000}{1000}}}",
        ] {
            let error = compile(pattern).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{pattern}");
            assert!(error.to_string().contains(&format!("{pattern:?}")), "{error}");
        }
    }

    #[test]
    fn the_directories_of_a_pattern_are_those_in_which_it_may_match() {
        for (pattern, expected) in [
            ("*.jpg", vec!["/**"]),
            ("/*.jpg", vec!["/"]),
            ("///*.jpg", vec!["/"]),
            ("/a//*.jpg", vec!["/a/", "/"]),
            ("a/b/*.jpg", vec!["a/b/", "a/"]),
            ("*/*/*.jpg", vec!["*/*/", "*/"]),
            ("/a/{jpg,png}/*.{jpg,png}", vec!["/a/{jpg,png}/", "/a/", "/"]),
            ("a/{a,a*b,a**c}/d/", vec!["/**"]),
            ("/a/{a,a/c}/d", vec!["/**"]),
            ("/a/{{x}}/b", vec!["/**"]),
            ("**", vec!["**/"]),
            ("a**b/c**d", vec!["a**b/c**/", "a**b/", "a**/"]),
            ("/var/spool/**/x", vec!["/var/spool/**/", "/var/spool/", "/var/", "/"]),
        ] {
            assert_eq!(directories(pattern), expected, "{pattern}");
        }
    }
}
