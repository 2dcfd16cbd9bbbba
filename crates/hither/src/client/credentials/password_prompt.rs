//! The password prompt on a terminal.
//!
//! The terminal does not show the keys, and delivers each as it is pressed, Ctrl-C included: if a
//! signal ended the command during the prompt, the user's shell would show no keys any more.

use hither_auth::Secret;
use hither_core::error::{Error, ErrorKind, Result};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{Read, Write};

/// The longest password, in bytes.
const MAX_BYTES: usize = 1024;

/// A terminal that shows no keys, until it is dropped.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> std::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _gone = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
        let _gone = self.terminal.write_all(b"\n");
    }
}

/// Prints `question` on the terminal of the process, and reads the password from there.
///
/// # Errors
///
/// [`ErrorKind::Invalid`] if there is no terminal or no password, [`ErrorKind::Local`] if the
/// terminal fails.
pub fn ask_password(question: &str) -> Result<Secret> {
    let missing = |what| Error::new(ErrorKind::Invalid, what);
    let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        missing("no terminal to ask for the password: set HITHER_PASSWORD, or `password` in Python")
    })?;
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Local, "cannot ask for the password").with_source(error)
    };
    (&terminal).write_all(question.as_bytes()).map_err(failed)?;
    let silent = Silent::new(&terminal).map_err(failed)?;
    let typed = typed(&mut &terminal).map_err(failed)?;
    drop(silent);
    typed.map(Secret::new).ok_or_else(|| missing("no password was given"))
}

/// The line that was typed; none if the user cancelled.
fn typed(keys: &mut impl Read) -> std::io::Result<Option<String>> {
    let mut typed: Vec<u8> = Vec::with_capacity(MAX_BYTES);
    let mut key = [0];
    while keys.read(&mut key)? > 0 && typed.len() < MAX_BYTES {
        match key[0] {
            b'\r' | b'\n' => return Ok(String::from_utf8(typed).ok()),
            // Ctrl-C, Ctrl-D.
            3 | 4 => return Ok(None),
            // Ctrl-U.
            0x15 => typed.clear(),
            // Backspace: a character may have several bytes.
            8 | 0x7f => while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => typed.push(byte),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_make_a_password() {
        for (keys, password) in [
            (&b"hush\n"[..], Some("hush")),
            (b"hush\rmore", Some("hush")),
            (b"hux\x7fsh\n", Some("hush")),
            (b"hu\xc3\xa9\x08sh\n", Some("hush")),
            (b"\x7f\x7fhush\n", Some("hush")),
            (b"wrong\x15hush\n", Some("hush")),
            (b"hu\x03sh\n", None),
            (b"hush", None),
            (b"\n", Some("")),
        ] {
            assert_eq!(typed(&mut &keys[..]).unwrap().as_deref(), password, "{keys:?}");
        }
    }
}
