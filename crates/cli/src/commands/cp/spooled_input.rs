//! The standard input as a file. An upload begins with the size of the file, and the size of a pipe
//! is unknown, so its bytes are spooled to a temporary file until it ends. That file has no name,
//! so it is never left behind.

use crate::output::standard_streams::standard_input;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// All bytes of the standard input.
#[derive(Debug)]
pub(super) struct SpooledInput(File);

impl SpooledInput {
    /// Reads the standard input to its end, unless it is a file itself.
    pub(super) fn take() -> io::Result<Self> {
        Self::of(standard_input()?.as_fd().try_clone_to_owned()?.into())
    }

    fn of(mut input: File) -> io::Result<Self> {
        // A file that was partly read is spooled, because only the rest of it is the input.
        if input.metadata()?.is_file() && input.stream_position()? == 0 {
            return Ok(Self(input));
        }
        let mut spooled = tempfile::tempfile()?;
        io::copy(&mut input, &mut spooled)?;
        Ok(Self(spooled))
    }

    /// A path to the bytes, valid while this value lives.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/fd/{}", self.0.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn files_are_themselves_and_of_others_all_bytes_are_kept() {
        let content: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        file.rewind().unwrap();
        let itself = SpooledInput::of(file.try_clone().unwrap()).unwrap();
        assert_eq!(std::fs::read(itself.path()).unwrap(), content);
        file.read_exact(&mut [0; 10]).unwrap();
        let rest = SpooledInput::of(file).unwrap();
        assert_eq!(std::fs::read(rest.path()).unwrap(), content[10..]);

        let (reader, mut writer) = io::pipe().unwrap();
        let sent = content.clone();
        let sending = std::thread::spawn(move || writer.write_all(&sent));
        let piped = SpooledInput::of(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
        sending.join().unwrap().unwrap();
        assert_eq!(std::fs::read(piped.path()).unwrap(), content);
    }
}
