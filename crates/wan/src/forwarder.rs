//! The forwarder: the process that carries packets between the two TUN devices of a link.
//!
//! It owns both devices, so that they vanish with it. One thread does everything: it reads packets
//! from the devices, offers them to the shaper of their direction, writes packets that are due, and
//! sleeps in `ppoll` until a packet arrives or the next one is due. It reads the clock for each
//! packet, because a batch may take longer than the tolerated error.
//!
//! Three measures make it exact to some tens of microseconds on a machine that it shares with the
//! programs whose packets it carries: timer slack of 1 ns instead of 50 µs; the lowest real-time
//! priority, so that it runs when its timer fires, without waiting for its fair share; and
//! compensation of its wake-up latency ([`crate::wakeup_latency`]). The devices' queues are long
//! enough that none of their packets is dropped before the shaper has seen it.
//!
//! With offload the devices pass runs of up to 64 KB uncut and without checksums, as between
//! virtual machines of one host. So an unlimited link reaches gigabits on a core. The results on a
//! link without a rate stay the same: a burst stays a burst, and windows count segments, cut or
//! not. A link with a rate or losses has to treat each segment by itself, so there the kernel cuts
//! them.

use crate::control::{ControlRequest, ForwarderControl, ask, serve};
use crate::error::local;
use crate::namespace::{self, Side, ip, within};
use crate::observer::{Direction, DropReason, Tag};
use crate::registry::{LinkRecord, folder, load};
use crate::shaper::{PacketOutcome, Shaper};
use crate::wakeup_latency::WakeupLatency;
use crate::{clock, packet};
use hither_core::Result;
use hither_core::sync::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{BufRead, Write};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Name of the TUN device in each namespace.
const DEVICE: &str = "wan0";

/// Number of packets that a device holds until the forwarder takes them.
const DEVICE_QUEUE: &str = "20000";

/// Maximum number of packets read or written before the other direction gets its turn.
const BATCH: usize = 32;

/// Maximum size of a frame: an uncut run of 64 KB with its header.
const MAX_FRAME: usize = 65_536 + packet::VNET_HEADER;

/// Minimum sleep in nanoseconds; shorter waits are spent polling.
const SHORTEST_SLEEP: u64 = 5_000;

/// The forwarder's message to the process that brings the link up, over its standard output.
pub(crate) const READY: &str = "ready";
/// The reply to [`READY`] on standard input: the link is wanted. Without it the forwarder removes
/// the link.
pub(crate) const KEEP: &str = "keep";

/// Sets up the recorded link `name` and carries its packets until it is stopped. Prints `ready` or
/// an error to standard output, then waits for `keep` on standard input.
///
/// # Errors
/// The link cannot be set up.
pub fn run(name: &str) -> Result<()> {
    let saved = load(name).ok_or_else(|| local(format!("no saved link {name}")))?;
    // Fails only if this process is already the leader of a session.
    let _ = rustix::process::setsid();
    let ready = prepare(&saved);
    let mut out = std::io::stdout();
    let (mut forwarder, shared) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let _ = writeln!(out, "{error}{}", causes(&error));
            crate::lifecycle::dismantle(&saved);
            return Err(error);
        }
    };
    let mut line = String::new();
    let wanted = writeln!(out, "{READY}").and_then(|()| out.flush()).is_ok()
        && std::io::stdin().lock().read_line(&mut line).is_ok()
        && line.trim() == KEEP;
    if wanted {
        // Real-time priority needs a privilege that containers may lack; without it the link works,
        // but less exactly.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let pid = std::process::id().to_string();
        let _ = Command::new("chrt").args(["-f", "-p", "1", &pid]).output();
        forwarder.carry(&shared)?;
    }
    if !wanted || forwarder.owner_ended {
        drop(forwarder);
        crate::lifecycle::dismantle(&saved);
    }
    Ok(())
}

fn causes(error: &hither_core::Error) -> String {
    let mut text = String::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Creates namespaces, devices and the control socket.
fn prepare(saved: &LinkRecord) -> Result<(Forwarder, Arc<ForwarderControl>)> {
    let owner = saved.owner.map(open_owner).transpose()?;
    let client = open_side(saved, Side::Client)?;
    let server = open_side(saved, Side::Server)?;
    std::fs::write(folder(&saved.name).join("pid"), std::process::id().to_string())
        .map_err(|error| local("cannot note the forwarder's process").with_source(error))?;
    let shared = ForwarderControl::new()?;
    serve(&saved.name, &shared)?;
    ask(&saved.name, ControlRequest::Ping)?;
    let forwarder = Forwarder {
        ends: [client, server],
        shapers: [Shaper::new(&saved.link, 0), Shaper::new(&saved.link, 1)],
        offload: saved.offload,
        owner,
        owner_ended: false,
        buffer: vec![0; MAX_FRAME],
        waking: WakeupLatency::default(),
        dated_back: 0,
    };
    Ok((forwarder, shared))
}

fn open_owner(pid: i32) -> Result<OwnedFd> {
    Pid::from_raw(pid)
        .ok_or(Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(|error| local(format!("no process {pid} to own the link")).with_source(error))
}

/// Creates one end: namespace, kernel settings, device, address.
fn open_side(saved: &LinkRecord, side: Side) -> Result<SyncDevice> {
    let space = namespace::of(&saved.name, side);
    let address = match side {
        Side::Client => saved.client(),
        Side::Server => saved.server(),
    };
    namespace::add(&space)?;
    let device = within(&space, || {
        set("ipv4/tcp_congestion_control", &saved.congestion)?;
        set("ipv4/tcp_no_metrics_save", "1")?;
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            set("ipv6/conf/all/disable_ipv6", "1")?;
            set("ipv6/conf/default/disable_ipv6", "1")?;
        }
        let device = DeviceBuilder::new()
            .name(DEVICE)
            .offload(saved.offload)
            .build_sync()
            .and_then(|device| device.set_nonblocking(true).map(|()| device));
        device.map_err(|error| {
            local("cannot make a TUN device, is /dev/net/tun there?").with_source(error)
        })
    })?;
    ip(&["-n", &space, "link", "set", "lo", "up"])?;
    ip(&["-n", &space, "address", "add", &format!("{address}/24"), "dev", DEVICE])?;
    ip(&["-n", &space, "link", "set", DEVICE, "mtu", "1500", "txqueuelen", DEVICE_QUEUE, "up"])?;
    Ok(device)
}

/// Writes a kernel setting of the calling thread's namespace.
fn set(setting: &str, value: &str) -> Result<()> {
    std::fs::write(format!("/proc/sys/net/{setting}"), value)
        .map_err(|error| local(format!("cannot set net/{setting} to {value}")).with_source(error))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Some,
    None,
}

struct Forwarder {
    /// The devices of client and server.
    ends: [SyncDevice; 2],
    /// The direction to the server, then to the client.
    shapers: [Shaper<Tag>; 2],
    offload: bool,
    owner: Option<OwnedFd>,
    owner_ended: bool,
    buffer: Vec<u8>,
    waking: WakeupLatency,
    /// The typical time, in nanoseconds, that newly read packets have waited for the forwarder to
    /// wake.
    dated_back: u64,
}

impl Forwarder {
    /// Carries packets until it is stopped or the owner exits.
    fn carry(&mut self, shared: &ForwarderControl) -> Result<()> {
        while !shared.stop.load(Ordering::Acquire) && !self.owner_ended {
            let mut idle = true;
            for direction in [Direction::ToServer, Direction::ToClient] {
                idle &= self.take_in(direction, shared)? == Progress::None;
                idle &= self.hand_out(direction, shared)? == Progress::None;
            }
            self.dated_back = 0;
            if idle {
                self.wait(shared)?;
            }
        }
        Ok(())
    }

    fn parts(&mut self, direction: Direction) -> (&SyncDevice, &SyncDevice, &mut Shaper<Tag>) {
        let [client, server] = &self.ends;
        let [up, down] = &mut self.shapers;
        match direction {
            Direction::ToServer => (client, server, up),
            Direction::ToClient => (server, client, down),
        }
    }

    /// Reads packets from a device and offers them to the shaper.
    fn take_in(&mut self, direction: Direction, shared: &ForwarderControl) -> Result<Progress> {
        let offload = self.offload;
        let dated_back = self.dated_back;
        let mut buffer = std::mem::take(&mut self.buffer);
        let (from, _, shaper) = self.parts(direction);
        let mut progress = Progress::None;
        let mut outcome = Ok(());
        for _ in 0..BATCH {
            let length = match rustix::io::read(from, buffer.as_mut_slice()) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    outcome = Err(local("cannot read from the TUN device").with_source(error));
                    break;
                }
            };
            progress = Progress::Some;
            let frame = buffer.get(..length).unwrap_or_default();
            let now = clock::now();
            let packet = packet::read(frame, offload);
            let mut observer = lock(&shared.observer);
            let tag = observer.enter(now, direction, packet);
            let entered = now.saturating_sub(dated_back);
            match shaper.offer(entered, frame, packet.ip_bytes, packet.connection_id(), tag) {
                PacketOutcome::Accepted => {}
                PacketOutcome::QueueFull => observer.discard(&tag, DropReason::Queue),
                PacketOutcome::Lost => observer.discard(&tag, DropReason::Random),
            }
        }
        self.buffer = buffer;
        outcome.map(|()| progress)
    }

    /// Writes packets that are due to the other device.
    fn hand_out(&mut self, direction: Direction, shared: &ForwarderControl) -> Result<Progress> {
        let (_, to, shaper) = self.parts(direction);
        let mut progress = Progress::None;
        for _ in 0..BATCH {
            let now = clock::now();
            shaper.advance(now, |tag| {
                let mut observer = lock(&shared.observer);
                observer.discard(tag, DropReason::Queue);
            });
            let Some((due, frame, tag)) = shaper.take(now) else { break };
            progress = Progress::Some;
            let mut observer = lock(&shared.observer);
            observer.deliver(now, &tag);
            observer.late(now.saturating_sub(due));
            drop(observer);
            match rustix::io::write(to, &frame) {
                // A device rejects packets that its kernel finds malformed, and every packet while
                // it is down.
                Ok(_) | Err(Errno::INVAL | Errno::IO | Errno::AGAIN | Errno::NOBUFS) => {}
                Err(error) => {
                    return Err(local("cannot write to the TUN device").with_source(error));
                }
            }
        }
        Ok(progress)
    }

    /// Sleeps until an event or the next due packet. Returns immediately if that is too soon to
    /// sleep.
    fn wait(&mut self, shared: &ForwarderControl) -> Result<()> {
        let began = clock::now();
        let due = self.shapers.iter().filter_map(Shaper::next_due).min();
        let sleep = due.map(|due| {
            let left = due.saturating_sub(began);
            left.saturating_sub(self.waking.lateness(left))
        });
        if sleep.is_some_and(|sleep| sleep < SHORTEST_SLEEP) {
            return Ok(());
        }
        let timeout = sleep.map(|nanos| Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or_default(),
        });
        let [client, server] = &self.ends;
        let mut polled = vec![
            PollFd::new(client, PollFlags::IN),
            PollFd::new(server, PollFlags::IN),
            PollFd::new(&shared.wake, PollFlags::IN),
        ];
        polled.extend(self.owner.as_ref().map(|owner| PollFd::new(owner, PollFlags::IN)));
        let ready = match poll(&mut polled, timeout.as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(local("cannot wait for packets").with_source(error)),
        };
        let owner_ended = polled.get(3).is_some_and(|owner| !owner.revents().is_empty());
        drop(polled);
        self.owner_ended |= owner_ended;
        let slept = clock::now().saturating_sub(began);
        match sleep {
            Some(asked) if ready == 0 => self.waking.learn(asked, slept.saturating_sub(asked)),
            _ => self.dated_back = self.waking.lateness(slept),
        }
        Ok(())
    }
}
