//! Events of the kernel (perf_event_open(2)).
//!
//! An [`Event`] samples or counts; a [`Ring`] is the memory to which the kernel writes samples.
//! Both release their resources when dropped. Data are copied out of a ring before they are parsed,
//! so the parser works on memory that the kernel does not change.

use std::io::{Error, Result};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of samples for each CPU, a power of two. Together with the page of the header they use all
/// that `perf_event_mlock_kb` allows every user, and hold the largest samples of 9 s at 97 Hz.
const RING_PAGES: usize = 128;

/// `struct perf_event_attr` as of `PERF_ATTR_SIZE_VER5` (Linux 4.8), of
/// include/uapi/linux/perf_event.h.
#[repr(C)]
#[derive(Debug, Clone, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_user_registers: u64,
    sample_user_stack: u32,
    clock: i32,
    sample_interrupt_registers: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const HARDWARE_CACHE: u32 = 3;
const CPU_CLOCK: u64 = 0;
/// Misses of loads in the data TLB: cache 3, operation 0, result 1.
const DATA_TLB_LOAD_MISSES: u64 = 3 | (1 << 16);

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const BY_FREQUENCY: u64 = 1 << 10;

/// Address, process and thread, time, call chain, CPU: the fields that [`crate::sampler`] parses.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7;
const READ_TIME_ENABLED: u64 = 1;
const MAX_STACK: u16 = 64;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const ENABLE: libc::Ioctl = 0x2400 as libc::Ioctl;
const DISABLE: libc::Ioctl = 0x2401 as libc::Ioctl;
const SET_OUTPUT: libc::Ioctl = 0x2405 as libc::Ioctl;

/// The threads that an event observes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope {
    /// All threads and the kernel, on one CPU.
    Machine(u32),
    /// A thread, and threads that it starts later, on one CPU; without the kernel.
    Thread(u32, u32),
    /// The calling thread on any CPU, without the kernel.
    Caller,
}

/// A countable event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Countable {
    /// The tracepoint with this number.
    Tracepoint(u64),
    /// Misses of loads in the data TLB.
    DataTlbMisses,
}

/// An open event.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    /// Opens an event, disabled, that samples `hz` times a second of CPU time.
    pub(crate) fn sampling(scope: Scope, hz: u32) -> Result<Self> {
        let flags = match scope {
            Scope::Machine(_) => 0,
            Scope::Thread(..) => INHERIT | EXCLUDE_KERNEL,
            Scope::Caller => EXCLUDE_KERNEL,
        };
        let attributes = Attributes {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            frequency: u64::from(hz),
            sample_type: SAMPLE_TYPE,
            flags: DISABLED | BY_FREQUENCY | flags,
            sample_max_stack: MAX_STACK,
            ..Attributes::default()
        };
        Self::open(attributes, scope)
    }

    /// Opens a counter, disabled.
    pub(crate) fn counter(what: Countable, scope: Scope) -> Result<Self> {
        let (kind, config) = match what {
            Countable::Tracepoint(number) => (TRACEPOINT, number),
            Countable::DataTlbMisses => (HARDWARE_CACHE, DATA_TLB_LOAD_MISSES),
        };
        let read_format = READ_TIME_ENABLED;
        let attributes =
            Attributes { kind, config, read_format, flags: DISABLED, ..Attributes::default() };
        Self::open(attributes, scope)
    }

    fn open(mut attributes: Attributes, scope: Scope) -> Result<Self> {
        attributes.size = u32::try_from(size_of::<Attributes>()).map_err(Error::other)?;
        let id = |number: u32| libc::c_long::from(number.cast_signed());
        let (process, cpu) = match scope {
            Scope::Machine(cpu) => (-1, id(cpu)),
            Scope::Thread(thread, cpu) => (id(thread), id(cpu)),
            Scope::Caller => (0, -1),
        };
        // SAFETY: the kernel reads `size` bytes of `attributes`, which has this size and outlives
        // the call; all other arguments are numbers.
        #[expect(unsafe_code, reason = "libc has no function for this system call")]
        let result = unsafe {
            let attributes: *const Attributes = &raw const attributes;
            let no_group: libc::c_long = -1;
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes,
                process,
                cpu,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let descriptor = libc::c_int::try_from(result).map_err(Error::other)?;
        if descriptor < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel has just opened this descriptor for us, and no other code owns it.
        #[expect(unsafe_code, reason = "as above")]
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(crate) fn enable(&self) -> Result<()> {
        self.control(ENABLE, 0)
    }

    pub(crate) fn disable(&self) -> Result<()> {
        self.control(DISABLE, 0)
    }

    /// Writes the samples of this event to the ring of another event on the same CPU.
    pub(crate) fn redirect_to(&self, other: &Ring) -> Result<()> {
        self.control(SET_OUTPUT, other.event.0.as_raw_fd())
    }

    fn control(&self, request: libc::Ioctl, argument: libc::c_int) -> Result<()> {
        // SAFETY: these requests take a number and touch no memory of ours.
        #[expect(unsafe_code, reason = "rustix has no function for these requests")]
        let failed = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if failed == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }

    /// Returns the count, and the nanoseconds for which the counter was enabled.
    pub(crate) fn count(&self) -> Result<(u64, u64)> {
        let mut bytes = [0; 16];
        let length = rustix::io::read(&self.0, &mut bytes)?;
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8).filter(|_| at + 8 <= length)?;
            bytes.try_into().ok().map(u64::from_ne_bytes)
        };
        number(0).zip(number(8)).ok_or_else(|| Error::other("a counter has fewer than 16 bytes"))
    }
}

pub(crate) fn page_size() -> Result<usize> {
    // SAFETY: the call takes and returns numbers.
    #[expect(unsafe_code, reason = "not in the features of rustix that are in use")]
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).map_err(Error::other)
}

/// An event with the memory to which the kernel writes its samples.
#[derive(Debug)]
pub(crate) struct Ring {
    event: Event,
    /// Invariant: `length` bytes are mapped here until this value is dropped.
    base: NonNull<u8>,
    length: usize,
    page: usize,
}

impl Ring {
    /// Maps the memory of an event and takes ownership of the event.
    pub(crate) fn map(event: Event) -> Result<Self> {
        let page = page_size()?;
        let length = page * (RING_PAGES + 1);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing of ours.
        #[expect(unsafe_code, reason = "memory that the kernel writes to")]
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let descriptor = event.0.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| Error::other("mapped at address 0"))?;
        Ok(Self { event, base, length, page })
    }

    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// A position in the header, `struct perf_event_mmap_page`: data_head, or data_tail after it.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the header is the first page of the mapping, which lives as long as `self`;
        // both fields are aligned, and the kernel and we access them atomically.
        #[expect(unsafe_code, reason = "memory shared with the kernel")]
        unsafe {
            AtomicU64::from_ptr(self.base.add(offset).as_ptr().cast())
        }
    }

    /// Moves the records that the kernel has written since the last call to the end of `records`.
    pub(crate) fn take(&mut self, records: &mut Vec<u8>) {
        const HEAD: usize = 1024;
        const TAIL: usize = 1032;
        let size = self.length - self.page;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        // The kernel never accumulates more than the size of the ring; a larger number would be a
        // bug of the kernel.
        let written = usize::try_from(head.wrapping_sub(tail)).unwrap_or(size).min(size);
        let start = usize::try_from(tail % size as u64).unwrap_or(0);
        let first = written.min(size - start);
        for (from, length) in [(start, first), (0, written - first)] {
            // SAFETY: `from + length` is at most `size`, so this range is in the mapping, after the
            // header. The kernel does not write between tail and head until the tail moves.
            #[expect(unsafe_code, reason = "memory shared with the kernel")]
            let part = unsafe {
                let start = self.base.add(self.page + from);
                std::slice::from_raw_parts(start.as_ptr(), length)
            };
            records.extend_from_slice(part);
        }
        self.position(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `map`, and no reference to it remains. A failure leaves it
        // mapped, which is harmless.
        #[expect(unsafe_code, reason = "memory shared with the kernel")]
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.length);
        }
    }
}
