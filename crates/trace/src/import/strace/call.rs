//! One line of `strace`, and the call in it.

use std::time::Duration;

/// The parts of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) thread: u32,
    /// Since 1970 or since midnight; 0 if the line has no time.
    pub(super) at: Duration,
    pub(super) text: Text<'a>,
}

/// The part of a call in a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// The whole call.
    Whole(&'a str),
    /// The first part.
    Begun(&'a str),
    /// The second part.
    Resumed(&'a str),
    /// A signal or an exit.
    Nothing,
}

impl<'a> Row<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line.trim_start();
        let mut thread = 0;
        if let Some(tagged) = rest.strip_prefix("[pid") {
            let (number, after) = tagged.split_once(']')?;
            thread = number.trim().parse().ok()?;
            rest = after.trim_start();
        } else if let Some((word, after)) = rest.split_once(' ')
            && let Ok(number) = word.parse()
        {
            // The word is not a time, which has a point or colons.
            thread = number;
            rest = after.trim_start();
        }
        let mut at = Duration::ZERO;
        if let Some((word, after)) = rest.split_once(' ')
            && let Some(time) = time(word)
        {
            at = time;
            rest = after.trim_start();
        }
        let text = if rest.is_empty() || rest.starts_with("---") || rest.starts_with("+++") {
            Text::Nothing
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            Text::Resumed(resumed.split_once(" resumed>")?.1)
        } else if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            Text::Begun(begun.trim_end())
        } else {
            Text::Whole(rest)
        };
        Some(Self { thread, at, text })
    }
}

/// Seconds with a fraction, or `hours:minutes:seconds`.
fn time(word: &str) -> Option<Duration> {
    if !word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b':') {
        return None;
    }
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let Some((hours, rest)) = word.split_once(':') else {
        return word.contains('.').then(|| seconds(word)).flatten();
    };
    let (minutes, rest) = rest.split_once(':')?;
    let hours: u32 = hours.parse().ok()?;
    let minutes: u32 = minutes.parse().ok()?;
    let whole = hours.checked_mul(60)?.checked_add(minutes)?;
    seconds(rest)?.checked_add(Duration::from_secs(60).checked_mul(whole)?)
}

/// `name(arguments) = result <took>`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    /// `None` for a call that failed or did not return.
    pub(super) result: Option<u64>,
    pub(super) took: Option<Duration>,
}

impl<'a> Call<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(word) {
            return None;
        }
        // The data of a read may contain the text of the end of a call, so the last one counts.
        let (arguments, outcome) = rest.rmatch_indices(" = ").find_map(|(at, sign)| {
            let arguments = rest.get(..at)?.trim_end().strip_suffix(')')?;
            let outcome = rest.get(at + sign.len()..)?;
            outcome
                .starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '?')
                .then_some((arguments, outcome))
        })?;
        let number = outcome.split([' ', '<']).next()?;
        let result = match number.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        };
        let took = outcome.strip_suffix('>').and_then(|text| text.rsplit_once('<'));
        let took = took.and_then(|(_, seconds)| time(seconds));
        Some(Self { name, arguments, result, took })
    }

    /// The first argument as a number.
    pub(super) fn descriptor(&self) -> Option<u64> {
        self.arguments.split([',', '<']).next()?.trim().parse().ok()
    }

    /// The name of the first argument, with `-y`: `3</data/a>`.
    pub(super) fn descriptor_name(&self) -> Option<&'a str> {
        let (number, rest) = self.arguments.split_once('<')?;
        number.parse::<u64>().ok()?;
        let end = rest.find(">,").or_else(|| rest.strip_suffix('>').map(str::len))?;
        rest.get(..end).filter(|name| name.starts_with('/'))
    }

    /// The first quoted argument, unquoted.
    pub(super) fn path(&self) -> Option<String> {
        let (_, rest) = self.arguments.split_once('"')?;
        unquoted(rest)
    }

    /// The offset of the read: the last argument, or the one before it if there are flags.
    pub(super) fn offset(&self) -> Option<u64> {
        let mut last = self.arguments.rsplit(", ");
        if self.name == "preadv2" {
            last.next();
        }
        last.next()?.trim().parse().ok()
    }

    /// The new position of `_llseek`: `_llseek(3, 0, [4096], SEEK_SET)`.
    pub(super) fn new_position(&self) -> Option<u64> {
        let (_, rest) = self.arguments.rsplit_once('[')?;
        rest.split_once(']')?.0.parse().ok()
    }
}

/// The unquoted text before the closing quote.
fn unquoted(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return Some(String::from_utf8_lossy(&out).into_owned()),
            b'\\' => {
                let (radix, most, first) = match bytes.next()? {
                    b'x' => (16, 2, 0),
                    digit @ b'0'..=b'7' => (8, 2, u32::from(digit - b'0')),
                    other => {
                        let named =
                            [(b'n', b'\n'), (b't', b'\t'), (b'r', b'\r'), (b'v', 11), (b'f', 12)];
                        let named = named.iter().find(|(name, _)| *name == other);
                        out.push(named.map_or(other, |(_, byte)| *byte));
                        continue;
                    }
                };
                let mut value = first;
                for _ in 0..most {
                    let digit = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix));
                    let Some(digit) = digit else { break };
                    value = value * radix + digit;
                    bytes.next();
                }
                out.push(u8::try_from(value).ok()?);
            }
            byte => out.push(byte),
        }
    }
    None
}
