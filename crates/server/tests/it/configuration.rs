//! The configuration file: the example that packages install, and the reference of all keys.

mod example;
