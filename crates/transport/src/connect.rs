//! connect.

pub(crate) mod dialer;
pub(crate) mod dns;
pub(crate) mod egress_filter;
pub(crate) mod happy_eyeballs;
pub(crate) mod maybe_tls_stream;
pub(crate) mod metered_stream;
pub(crate) mod proxy;
pub(crate) mod socket;
pub(crate) mod tls;
pub(crate) mod tls_upgrade;
pub(crate) mod tunnel;
