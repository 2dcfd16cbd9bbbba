//! Names of kernel functions, from `/proc/kallsyms`.
//!
//! The file has one line per symbol: address, type, name, and the module in brackets. Without the
//! right to see addresses (`kptr_restrict`) all of them are zero, and no names are found.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

/// Maximum bytes read, more than the file of any kernel.
const MAX_BYTES: u64 = 256 << 20;
const MAX_SYMBOLS: usize = 4_000_000;

/// The position of a function's name in the text of all names, and of its module within the name.
#[derive(Debug)]
struct Symbol {
    address: u64,
    name: Range<u32>,
}

/// The functions of the kernel, in ascending order of addresses.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    symbols: Vec<Symbol>,
    /// Concatenated names; for a function of a module, `name [module]`.
    names: String,
}

impl KernelSymbols {
    /// Reads `/proc/kallsyms`; empty if it cannot be read or shows no addresses.
    pub(crate) fn load() -> Self {
        std::fs::File::open("/proc/kallsyms").map(Self::parse).unwrap_or_default()
    }

    fn parse(text: impl Read) -> Self {
        let mut found = Self::default();
        for line in BufReader::new(text.take(MAX_BYTES)).split(b'\n').map_while(Result::ok) {
            if found.symbols.len() < MAX_SYMBOLS {
                let symbol = std::str::from_utf8(&line).ok().and_then(|line| found.add(line));
                found.symbols.extend(symbol);
            }
        }
        found.symbols.sort_by_key(|symbol| symbol.address);
        found
    }

    fn add(&mut self, line: &str) -> Option<Symbol> {
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|it| *it != 0)?;
        let kind = fields.next()?;
        let name = fields.next()?;
        // Entries for data and for padding before functions are skipped.
        if !matches!(kind, "t" | "T" | "w" | "W") || name.starts_with("__pfx_") {
            return None;
        }
        let start = u32::try_from(self.names.len()).ok()?;
        self.names.push_str(name);
        if let Some(module) = fields.next() {
            self.names.push(' ');
            self.names.push_str(module);
        }
        Some(Symbol { address, name: start..u32::try_from(self.names.len()).ok()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The number of the function at an address, for [`name`](Self::name).
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        u32::try_from(behind.checked_sub(1)?).ok()
    }

    /// The name of a function, followed by ` [module]` if it belongs to a module.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        let name = &self.symbols.get(usize::try_from(number).ok()?)?.name;
        self.names.get(usize::try_from(name.start).ok()?..usize::try_from(name.end).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(symbols: &KernelSymbols, address: u64) -> Option<&str> {
        symbols.name(symbols.find(address)?)
    }

    #[test]
    fn an_address_has_the_name_of_the_function_before_it() {
        let text = "ffffffff81000200 T tcp_sendmsg\nffffffff81000100 t ip_rcv\n\
                    ffffffff810001f0 t __pfx_tcp_sendmsg\nffffffff81000150 d data\n\
                    ffffffffa0000000 t start_xmit\t[virtio_net]\n";
        let symbols = KernelSymbols::parse(text.as_bytes());
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0000), None);
        assert_eq!(name(&symbols, 0xffff_ffff_8100_01f8), Some("ip_rcv"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0200), Some("tcp_sendmsg"));
        assert_eq!(name(&symbols, u64::MAX), Some("start_xmit [virtio_net]"));
    }

    #[test]
    fn hidden_addresses_are_no_names() {
        let text = "0000000000000000 T tcp_sendmsg\n0000000000000000 t ip_rcv\n";
        assert!(KernelSymbols::parse(text.as_bytes()).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(
            text in "([0-9a-g]{0,17} [tTdz ]{0,2} ?[a-zé_.\\[\\]\u{0}]{0,9}\n?){0,20}",
            address: u64,
        ) {
            let symbols = KernelSymbols::parse(text.as_bytes());
            if let Some(number) = symbols.find(address) {
                prop_assert!(symbols.name(number).is_some());
            }
        }
    }
}
