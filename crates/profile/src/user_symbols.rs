//! Programs, libraries and functions at addresses of processes.
//!
//! During the profile, `/proc/PID/maps` gives the module of an address and the offset in its file.
//! The file is opened immediately, so that it can be read later even if the process or the name is
//! gone. Names are looked up at the end of the profile, only for the sampled offsets: in the symbol
//! tables of the module, or of its separate debug file, which is found by the build-id.
//!
//! This data comes from processes of other users: a file is used only if it is the regular file
//! with the device and inode of the mapping, and the number of bytes read from it is bounded.

use object::read::elf::ElfFile;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, ReadRef, SymbolKind};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MAX_MAPS_BYTES: u64 = 8 << 20;
const MAX_MODULES: usize = 1024;
const MAX_PROCESSES: usize = 4096;
/// Maximum size of a file that is opened, and maximum bytes that are read from it.
const MAX_ELF_BYTES: u64 = 1 << 30;
const MAX_READ_BYTES: u64 = 512 << 20;

/// A position in the file of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub(crate) module: u32,
    pub(crate) offset: u64,
}

/// A program or library that processes had mapped.
#[derive(Debug)]
pub(crate) struct Module {
    /// The last part of its path, or `[vdso]`, `[anonymous]`.
    pub(crate) name: String,
    file: Option<File>,
    identity: (String, u64),
}

/// An executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    device: String,
    inode: u64,
    path: String,
}

/// The mappings of a process, in ascending order of addresses, with their modules.
#[derive(Debug, Default)]
struct AddressSpace {
    mappings: Vec<(Mapping, u32)>,
    /// The round in which the mappings were read.
    read_in: u64,
}

/// The address spaces of all sampled processes, and their modules.
#[derive(Debug, Default)]
pub(crate) struct UserSymbols {
    spaces: HashMap<u32, AddressSpace>,
    pub(crate) modules: Vec<Module>,
    round: u64,
}

impl UserSymbols {
    /// Begins a round of samples: mappings that lack an address are read at most once per round.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Finds the module of an address in a running process.
    pub(crate) fn locate(&mut self, process: u32, address: u64) -> Option<Location> {
        if let Some(found) = self.spaces.get(&process).and_then(|space| space.find(address)) {
            return Some(found);
        }
        let is_fresh = |space: &AddressSpace| space.read_in == self.round;
        if self.spaces.get(&process).is_some_and(is_fresh)
            || (self.spaces.len() >= MAX_PROCESSES && !self.spaces.contains_key(&process))
        {
            return None;
        }
        let space = self.read(process);
        let found = space.find(address);
        // An exiting process has no mappings any more.
        if !space.mappings.is_empty() || !self.spaces.contains_key(&process) {
            self.spaces.insert(process, space);
        }
        found
    }

    fn read(&mut self, process: u32) -> AddressSpace {
        let mut text = Vec::new();
        let file = File::open(format!("/proc/{process}/maps"));
        // A process may end while its mappings are read; the part that was read is used.
        let _ = file.and_then(|file| file.take(MAX_MAPS_BYTES).read_to_end(&mut text));
        let mappings = mappings(&String::from_utf8_lossy(&text))
            .into_iter()
            .filter_map(|mapping| self.module(process, &mapping).map(|module| (mapping, module)))
            .collect();
        AddressSpace { mappings, read_in: self.round }
    }

    /// The number of the module of a mapping.
    fn module(&mut self, process: u32, mapping: &Mapping) -> Option<u32> {
        let identity = match mapping.inode {
            0 => (mapping.path.clone(), 0),
            inode => (mapping.device.clone(), inode),
        };
        let known = self.modules.iter().position(|module| module.identity == identity);
        if let Some(number) = known {
            return u32::try_from(number).ok();
        }
        if self.modules.len() >= MAX_MODULES {
            return None;
        }
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path);
        let name = match path.rsplit('/').next().unwrap_or_default() {
            "" => "[anonymous]",
            name => name,
        };
        let name = name.chars().filter(|it| !it.is_control() && *it != ';').collect();
        let file = open(process, mapping);
        self.modules.push(Module { name, file, identity });
        u32::try_from(self.modules.len() - 1).ok()
    }
}

impl AddressSpace {
    fn find(&self, address: u64) -> Option<Location> {
        let behind = self.mappings.partition_point(|(mapping, _)| mapping.start <= address);
        let (mapping, module) = self.mappings.get(behind.checked_sub(1)?)?;
        let offset = address.checked_sub(mapping.start)?;
        (address < mapping.end)
            .then(|| Location { module: *module, offset: mapping.offset.saturating_add(offset) })
    }
}

/// The executable mappings in the text of `/proc/PID/maps`; malformed lines are skipped.
fn mappings(text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = text.lines().filter_map(mapping).collect();
    found.sort_by_key(|mapping| mapping.start);
    found
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let access = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let device = fields.next()?.to_owned();
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_start().to_owned();
    access.contains('x').then_some(Mapping { start, end, offset, device, inode, path })
}

/// Opens the file of a mapping, if it is a regular file and unchanged.
fn open(process: u32, mapping: &Mapping) -> Option<File> {
    let Mapping { start, end, path, inode, .. } = mapping;
    if !path.starts_with('/') {
        return None;
    }
    // The first path also leads to deleted files, but needs root.
    let names = [
        format!("/proc/{process}/map_files/{start:x}-{end:x}"),
        format!("/proc/{process}/root{path}"),
    ];
    // `NONBLOCK`, so that a FIFO of this name does not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    names.iter().find_map(|name| {
        let file = File::from(rustix::fs::open(name, flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        (metadata.is_file() && metadata.ino() == *inode && metadata.len() <= MAX_ELF_BYTES)
            .then_some(file)
    })
}

/// Names from the symbol tables of a module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ModuleSymbols {
    /// The build-id in hexadecimal digits.
    pub(crate) build_id: Option<String>,
    /// The functions at the requested offsets; names of Rust are demangled.
    pub(crate) names: HashMap<u64, String>,
}

impl Module {
    /// Looks up the functions at these offsets in the file.
    pub(crate) fn symbols(&mut self, offsets: &BTreeSet<u64>) -> ModuleSymbols {
        let Some(file) = self.file.take() else { return ModuleSymbols::default() };
        let Some((segments, mut found)) = symbols(file, offsets, None) else {
            return ModuleSymbols::default();
        };
        if found.names.len() < offsets.len()
            && let Some(debug) = found.build_id.as_deref().and_then(debug_file)
            && let Ok(file) = File::open(debug)
            && let Some((_, more)) = symbols(file, offsets, Some(&segments))
        {
            found.names.extend(more.names);
        }
        found
    }
}

/// The separate debug file for a build-id, at the path that distributions use.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    Some(Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug")))
}

/// A part of a module's file and its address in the program.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    length: u64,
    address: u64,
}

/// The functions at `offsets` of the module's file, and its segments. `file` is that file itself,
/// or a debug file: its own offsets differ, so it needs the `segments` of the module.
fn symbols(
    file: impl Read + Seek,
    offsets: &BTreeSet<u64>,
    segments: Option<&[Segment]>,
) -> Option<(Vec<Segment>, ModuleSymbols)> {
    let cache = ReadCache::new(Bounded { file, left: MAX_READ_BYTES });
    match object::File::parse(&cache).ok()? {
        object::File::Elf64(elf) => Some(symbols_of(&elf, offsets, segments)),
        object::File::Elf32(elf) => Some(symbols_of(&elf, offsets, segments)),
        _ => None,
    }
}

fn symbols_of<'data, Elf, R>(
    elf: &ElfFile<'data, Elf, R>,
    offsets: &BTreeSet<u64>,
    segments: Option<&[Segment]>,
) -> (Vec<Segment>, ModuleSymbols)
where
    Elf: object::read::elf::FileHeader,
    R: ReadRef<'data>,
{
    let build_id = elf.build_id().ok().flatten();
    let build_id = build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    let segments = segments.map_or_else(|| segments_of(elf), <[_]>::to_vec);
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    for segment in &segments {
        let end = segment.offset.saturating_add(segment.length);
        for offset in offsets.range(segment.offset..end) {
            wanted.insert(segment.address.wrapping_add(offset - segment.offset), *offset);
        }
    }
    let addresses: BTreeSet<u64> = wanted.keys().copied().collect();
    let mut names: HashMap<u64, (u64, String)> = HashMap::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
            continue;
        }
        let end = symbol.address().saturating_add(symbol.size());
        for address in addresses.range(symbol.address()..end) {
            let Some(offset) = wanted.get(address) else { continue };
            // Of nested symbols, the smallest one.
            if names.get(offset).is_none_or(|(size, _)| symbol.size() < *size)
                && let Ok(name) = symbol.name()
            {
                names.insert(*offset, (symbol.size(), demangled(name)));
            }
        }
    }
    let names = names.into_iter().map(|(at, (_, it))| (at, it)).collect();
    (segments, ModuleSymbols { build_id, names })
}

fn segments_of<'data, Elf, R>(elf: &ElfFile<'data, Elf, R>) -> Vec<Segment>
where
    Elf: object::read::elf::FileHeader,
    R: ReadRef<'data>,
{
    let segment = |it: object::read::elf::ElfSegment<'data, '_, Elf, R>| {
        let (offset, length) = it.file_range();
        Segment { offset, length, address: it.address() }
    };
    elf.segments().map(segment).collect()
}

/// A name without its hash; names of C and C++ stay unchanged.
fn demangled(name: &str) -> String {
    const MAX_LETTERS: usize = 200;
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let plain = |it: &char| !it.is_control() && *it != ';';
    name.chars().filter(plain).take(MAX_LETTERS).collect()
}

/// A file with a maximum number of bytes to read, so that overlapping tables cannot fill the
/// memory.
#[derive(Debug)]
struct Bounded<F> {
    file: F,
    left: u64,
}

impl<F: Read> Read for Bounded<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.read(buffer)?;
        let read = u64::try_from(length).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(read).ok_or(std::io::ErrorKind::FileTooLarge)?;
        Ok(length)
    }
}

impl<F: Seek> Seek for Bounded<F> {
    fn seek(&mut self, position: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    #[test]
    fn executable_mappings_are_parsed() {
        let text = "7f00-8000 r-xp 00002000 fe:00 247278                     /usr/lib/my lib.so\n\
                    1000-2000 rw-p 00000000 00:00 0 \n\
                    3000-4000 --xp 00000000 00:00 0                  [vdso]\nnonsense\n1-2\n";
        let found = mappings(text);
        let paths: Vec<_> = found.iter().map(|it| (it.path.as_str(), it.inode)).collect();
        assert_eq!(paths, [("[vdso]", 0), ("/usr/lib/my lib.so", 247_278)]);
        let space = AddressSpace { mappings: found.into_iter().zip(0..).collect(), read_in: 0 };
        assert_eq!(space.find(0x7f10), Some(Location { module: 1, offset: 0x2010 }));
        assert_eq!(space.find(0x4000), None);
        assert_eq!(space.find(0), None);
    }

    #[test]
    fn a_function_of_this_program_is_found_by_its_address() {
        let function: fn(&str) -> String = demangled;
        let mut symbols = UserSymbols::default();
        symbols.begin_round();
        let location = symbols.locate(std::process::id(), function as usize as u64).unwrap();
        let module = &mut symbols.modules[location.module as usize];
        assert!(module.name.starts_with("hither_profile"), "{}", module.name);
        let found = module.symbols(&BTreeSet::from([location.offset]));
        assert!(found.names[&location.offset].ends_with("user_symbols::demangled"), "{found:?}");
        assert_eq!(symbols.locate(u32::MAX, 0x1000), None);
    }

    /// Debug files keep the addresses of segments, not their offsets.
    #[test]
    fn functions_of_a_debug_file_are_found_by_the_segments_of_the_module() {
        let path = std::env::current_exe().unwrap();
        let only = tempfile::NamedTempFile::new().unwrap();
        let made = std::process::Command::new("objcopy")
            .args(["--only-keep-debug".as_ref(), path.as_os_str(), only.path().as_os_str()])
            .status();
        if !made.is_ok_and(|it| it.success()) {
            eprintln!("skipped: needs objcopy");
            return;
        }
        let function: fn(&str) -> String = demangled;
        let mut located = UserSymbols::default();
        located.begin_round();
        let location = located.locate(std::process::id(), function as usize as u64).unwrap();
        let offsets = BTreeSet::from([location.offset]);
        let (segments, _) = symbols(File::open(path).unwrap(), &offsets, None).unwrap();
        let (_, found) = symbols(only.reopen().unwrap(), &offsets, Some(&segments)).unwrap();
        assert!(found.names[&location.offset].ends_with("user_symbols::demangled"), "{found:?}");
    }

    #[test]
    fn rust_names_are_demangled() {
        let name = demangled("_ZN13hither_server6server5serve17h0123456789abcdefE");
        assert_eq!(name, "hither_server::server::serve");
        assert_eq!(demangled("ngx_http_handler"), "ngx_http_handler");
    }

    proptest! {
        #[test]
        fn any_maps_are_parsed(text in "([0-9a-f]{0,17}-?[0-9a-f]{0,17} [rxp-]{0,4} [0-9a-f]{0,4} [0-9:]{0,5} [0-9]{0,4} .?\n){0,9}") {
            let mappings = mappings(&text);
            let space = AddressSpace { mappings: mappings.into_iter().zip(0..).collect(), read_in: 0 };
            let _ = space.find(0);
            let _ = space.find(u64::MAX);
        }

        /// Parses a program with changed bytes in its headers and in its last tables.
        #[test]
        fn damaged_elf_files_are_no_harm(
            changes in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..40),
            length in 0_usize..8192,
            is_whole: bool,
        ) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            let tables = bytes.len().saturating_sub(4096);
            for (at, value) in changes {
                let at = if is_whole { tables + at } else { 16 + at % 1000 };
                bytes[at] = value;
            }
            if !is_whole && length % 2 == 0 {
                bytes.truncate(length);
            }
            let offsets = BTreeSet::from([0, 4096, 40_000, 1 << 20, u64::MAX]);
            let _ = symbols(Cursor::new(bytes), &offsets, None);
        }
    }
}
