//! Connections: how they are taken, what is spoken on them, and when they are left.

pub(crate) mod client_verifier;
pub(crate) mod clocked;
pub(crate) mod held;
pub(crate) mod listener;
pub(crate) mod network;
pub(crate) mod shortcut;
pub(crate) mod tcp_info;
pub(crate) mod tls;
