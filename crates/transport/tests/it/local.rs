//! Local files and directories.

mod source;
mod storage;
