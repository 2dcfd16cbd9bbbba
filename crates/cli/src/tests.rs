//! Tests of the command as a whole.

mod reference;
