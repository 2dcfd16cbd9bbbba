//! Links (WAN emulation), misbehaving peers, data generators; for tests only.
