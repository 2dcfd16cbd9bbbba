//! Parsing of packets for the observer, from the bytes of a TUN device.
//!
//! A device with offload puts a `virtio_net_hdr` of ten bytes before each packet, and the packet
//! may be a run of TCP segments that the kernel has not cut yet. Runs are counted as if they had
//! been cut: each segment has its own headers on the wire. IPv6 is off in the namespaces, so only
//! IPv4 is parsed; other packets are forwarded and counted, but belong to no connection.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Default length of `virtio_net_hdr` (virtio 1.2, 5.1.6) in the TUN driver.
pub const VNET_HEADER: usize = 10;

/// The size of a packet on the wire and, for TCP, its connection and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Number of packets on the wire that this frame stands for.
    pub segments: u32,
    /// IP bytes on the wire, including the headers of all segments.
    pub ip_bytes: u32,
    /// The TCP header, if it is TCP.
    pub tcp: Option<Tcp>,
}

impl Packet {
    /// A key that distinguishes its connection from others open at the same time, in one direction.
    #[must_use]
    pub fn connection_id(&self) -> Option<u32> {
        let ports =
            |tcp: Tcp| (u32::from(tcp.source.port()) << 16) | u32::from(tcp.destination.port());
        self.tcp.map(ports)
    }
}

/// The fields of a TCP header that the observer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// Sender.
    pub source: SocketAddrV4,
    /// Receiver.
    pub destination: SocketAddrV4,
    /// Sequence number of the first payload byte (of the SYN, if there is one).
    pub sequence: u32,
    /// Number of payload bytes.
    pub payload: u32,
    /// It opens a connection: SYN without ACK.
    pub opens: bool,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Parses a packet from a TUN device, with a `virtio_net_hdr` in front if `offload`.
#[must_use]
pub fn read(frame: &[u8], offload: bool) -> Packet {
    let (segment_payload, bytes) = if offload {
        let size = frame.get(4..6).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes);
        (u32::from(size), frame.get(VNET_HEADER..).unwrap_or_default())
    } else {
        (0, frame)
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let whole = Packet { segments: 1, ip_bytes: length, tcp: None };
    let Some((tcp, headers)) = read_tcp(bytes) else {
        return whole;
    };
    let segments =
        if segment_payload == 0 { 1 } else { tcp.payload.div_ceil(segment_payload).max(1) };
    Packet { segments, ip_bytes: tcp.payload + headers * segments, tcp: Some(tcp) }
}

/// The TCP header of an IPv4 packet, and the length of both headers.
fn read_tcp(bytes: &[u8]) -> Option<(Tcp, u32)> {
    let first = *bytes.first()?;
    let fragment = be16(bytes, 6)? & 0x1fff;
    if first >> 4 != 4 || *bytes.get(9)? != 6 || fragment != 0 {
        return None;
    }
    let ip_header = usize::from(first & 0xf) * 4;
    let total = usize::from(be16(bytes, 2)?);
    let segment = bytes.get(ip_header..total.max(ip_header).min(bytes.len()))?;
    let tcp_header = usize::from(*segment.get(12)? >> 4) * 4;
    let flags = *segment.get(13)?;
    let payload = u32::try_from(segment.len().checked_sub(tcp_header)?).ok()?;
    let tcp = Tcp {
        source: SocketAddrV4::new(Ipv4Addr::from(be32(bytes, 12)?), be16(segment, 0)?),
        destination: SocketAddrV4::new(Ipv4Addr::from(be32(bytes, 16)?), be16(segment, 2)?),
        sequence: be32(segment, 4)?,
        payload,
        opens: flags & 0x12 == 0x02,
    };
    Some((tcp, u32::try_from(ip_header + tcp_header).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(payload: usize, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend(u16::try_from(40 + payload).unwrap().to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(5000_u16.to_be_bytes());
        bytes.extend(80_u16.to_be_bytes());
        bytes.extend(7_u32.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes.resize(40 + payload, 1);
        bytes
    }

    #[test]
    fn plain_segment_is_read() {
        let packet = read(&frame(100, 0x18), false);
        assert_eq!((packet.segments, packet.ip_bytes), (1, 140));
        let tcp = packet.tcp.unwrap();
        assert_eq!(tcp.source, "10.0.0.1:5000".parse().unwrap());
        assert_eq!(tcp.destination, "10.0.0.2:80".parse().unwrap());
        assert_eq!((tcp.sequence, tcp.payload, tcp.opens), (7, 100, false));
        assert!(read(&frame(0, 0x02), false).tcp.unwrap().opens);
        assert!(!read(&frame(0, 0x12), false).tcp.unwrap().opens);
    }

    #[test]
    fn uncut_run_counts_as_its_segments() {
        let mut bytes = vec![0; VNET_HEADER];
        bytes[4..6].copy_from_slice(&1448_u16.to_le_bytes());
        bytes.extend(frame(3000, 0x10));
        let packet = read(&bytes, true);
        assert_eq!((packet.segments, packet.ip_bytes), (3, 3000 + 3 * 40));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), offload: bool) {
            let _ = read(&bytes, offload);
        }

        #[test]
        fn no_prefix_panics(cut in 0_usize..140) {
            let _ = read(&frame(100, 0x18)[..cut], false);
        }
    }
}
