//! Lines of bounded length.

use std::io::{self, BufRead, Read};

/// Maximum length of a line, in bytes. A vector read of 1,024 ranges takes about 60 KiB.
const MAX_BYTES: u64 = 1 << 20;

/// Splits an input into lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    text: String,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), text: String::new() }
    }

    /// Reads the next line; `None` at the end, `Some(None)` for a line that is too long. Invalid
    /// UTF-8 is replaced.
    pub(super) fn next(&mut self) -> io::Result<Option<Option<&str>>> {
        self.line.clear();
        self.input.by_ref().take(MAX_BYTES).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if !self.line.ends_with(b"\n") && self.line.len() as u64 == MAX_BYTES {
            self.skip()?;
            return Ok(Some(None));
        }
        let line = self.line.trim_ascii_end();
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(line));
        Ok(Some(Some(&self.text)))
    }

    /// Skips the rest of a line.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.input.fill_buf()?;
            let (used, ended) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), bytes.is_empty()),
            };
            self.input.consume(used);
            if ended {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = "x".repeat(3 << 20);
        let text = format!("one\r\n{long}\n\nlast");
        let mut lines = Lines::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line.map(str::to_owned));
        }
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(all, [some("one"), None, some(""), some("last")]);
    }
}
