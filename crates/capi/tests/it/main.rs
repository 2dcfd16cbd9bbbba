//! The library from outside: programs in C, C++ and Python.

mod header;
mod installed;
mod programs;
