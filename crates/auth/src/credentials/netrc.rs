//! `~/.netrc`: user names and passwords by host, in the format of ftp, curl and git.
//!
//! Entries are `machine NAME login NAME password WORD`; `account WORD` is skipped, `macdef` skips
//! to the next empty line. The entry `default` is not used, because a password is meant for one
//! host. Words in double quotes may contain blanks and `\"`.

use crate::credentials::basic::Basic;
use crate::secret::Secret;
use zeroize::Zeroizing;

/// Maximum size of the file.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// The entries of a file, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Netrc {
    entries: Vec<(String, Basic)>,
}

impl Netrc {
    /// Parses a file. Unknown words are skipped: other programs may use them.
    pub(crate) fn parse(text: &str) -> Self {
        let mut netrc = Self::default();
        let mut words = Words { rest: text };
        let mut machine: Option<String> = None;
        let mut login: Option<String> = None;
        let mut password: Option<Secret> = None;
        loop {
            let word = words.next();
            let ends =
                matches!(word.as_deref().map(String::as_str), None | Some("machine" | "default"));
            if ends {
                if let (Some(host), Some(user)) = (machine.take(), login.take()) {
                    let password = password.take().unwrap_or_else(|| Secret::new(""));
                    netrc
                        .entries
                        .extend(Basic::new(user, password).ok().map(|basic| (host, basic)));
                }
                (login, password) = (None, None);
            }
            match word.as_deref().map(String::as_str) {
                None => return netrc,
                Some("machine") => machine = words.next().map(|host| host.to_ascii_lowercase()),
                Some("login") => login = words.next().map(|user| user.to_string()),
                Some("password") => password = words.next().map(|word| Secret::new(word.as_str())),
                Some("account") => drop(words.next()),
                Some("macdef") => words.skip_macro(),
                Some(_) => {}
            }
        }
    }

    /// The first entry for `host`.
    pub(crate) fn entry(&self, host: &str) -> Option<&Basic> {
        self.entries.iter().find(|(name, _)| name == host).map(|(_, basic)| basic)
    }
}

struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    fn next(&mut self) -> Option<Zeroizing<String>> {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                break;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
        if self.rest.is_empty() {
            return None;
        }
        if let Some(quoted) = self.rest.strip_prefix('"') {
            return Some(self.quoted(quoted.len()));
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Zeroizing::new(word.to_owned()))
    }

    /// Reads a quoted word; `left` is the number of bytes after the opening quote.
    fn quoted(&mut self, left: usize) -> Zeroizing<String> {
        let mut word = Zeroizing::new(String::with_capacity(left));
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return word;
                }
                '\\' => word.extend(characters.next().map(|(_, escaped)| escaped)),
                other => word.push(other),
            }
        }
        self.rest = "";
        word
    }

    fn skip_macro(&mut self) {
        self.rest = self.rest.split_once("\n\n").map_or("", |(_, rest)| rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(text: &str, host: &str) -> Option<String> {
        Netrc::parse(text).entry(host).map(|basic| basic.header().expose().to_owned())
    }

    #[test]
    fn entries_are_found_by_host_alone() {
        let text = "# mine\nmachine A.org login me password hush account x\n\
                    machine b.org\n\tpassword \"a \\\"b\"\n\tlogin you\n\
                    macdef init\nmachine c.org login no password no\n\nmachine d.org login me\n\
                    default login anonymous password guess\n";
        let expected = |user: &str, password: &str| {
            Some(Basic::new(user, Secret::new(password)).unwrap().header().expose().to_owned())
        };
        assert_eq!(header(text, "a.org"), expected("me", "hush"));
        assert_eq!(header(text, "b.org"), expected("you", "a \"b"));
        assert_eq!(header(text, "c.org"), None);
        assert_eq!(header(text, "d.org"), expected("me", ""));
        assert_eq!(header(text, "e.org"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(machine|login|password|default|macdef|\"|\\\\|#|a|é| |\n){0,40}") {
            let _netrc = Netrc::parse(&text);
        }
    }
}
