//! Packet-level WAN.

pub mod packet;
pub mod report;
pub mod shaper;
pub mod witness;
