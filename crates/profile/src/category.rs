//! Kinds of work by which the time of the CPUs is divided.
//!
//! They are the bars of the paper that profiled GridFTP and NeST with OProfile in 2004 (idle,
//! Ethernet driver, interrupt handling, libc, Globus, OProfile, IDE, file I/O, rest of kernel), and
//! the parts into which its "rest of kernel" is divided here: TCP, copies, TLS, checksums,
//! scheduling, memory and system calls. Each sample belongs to exactly one.

use serde::Serialize;

macro_rules! categories {
    ($($name:ident $key:literal $title:literal $bar_2004:literal)*) => {
        /// A kind of work.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Category {
            $(#[doc = $title] $name,)*
        }

        impl Category {
            /// All categories, in the order of a report.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in JSON.
            #[must_use]
            pub fn key(self) -> &'static str {
                match self { $(Self::$name => $key),* }
            }

            /// The name in reports.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// The bar of 2004 that included this category; empty if there was none.
            #[must_use]
            pub fn bar_2004(self) -> &'static str {
                match self { $(Self::$name => $bar_2004),* }
            }
        }
    };
}

categories! {
    Idle "idle" "Idle, or waiting for a disk" "Idle"
    NicDriver "nic_driver" "Network driver" "Ethernet driver"
    Interrupts "interrupts" "Interrupts and timers" "Interrupt handling"
    Network "network" "TCP/IP and softirqs" "Rest of kernel"
    Copies "copies" "Copies between kernel and programs" "Rest of kernel"
    Tls "tls" "TLS" ""
    Checksums "checksums" "Checksums" ""
    FileIo "file_io" "File systems and page cache" "File I/O"
    Block "block" "Block devices" "IDE"
    Scheduler "scheduler" "Scheduling and waiting" "Rest of kernel"
    Memory "memory" "Memory management" "Rest of kernel"
    SystemCalls "system_calls" "Entry and exit of system calls" "Rest of kernel"
    Libc "libc" "C library" "Libc"
    Application "application" "The programs themselves" "Globus, NeST"
    Profiler "profiler" "This profiler" "OProfile"
    Steal "steal" "Taken by the hypervisor" ""
    OtherProcesses "other_processes" "Other processes" ""
    RestOfKernel "rest_of_kernel" "Rest of the kernel" "Rest of kernel"
    Unknown "unknown" "Unknown" ""
}
