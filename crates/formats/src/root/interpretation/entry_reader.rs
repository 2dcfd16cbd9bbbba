//! Reads entries by their [`StreamedType`]: parses all bytes, and keeps the values of one column.
//!
//! Every byte must match the type: an object must end where its byte count states, an entry where
//! the next one begins. So a class with a hand-written streamer, which differs from its
//! description, is an error instead of wrong values. Memory is bounded by the bytes present: a
//! count is accepted only if that many values fit into the remaining bytes.

use crate::error::{FormatError, Result};
use crate::root::cursor::Cursor;
use crate::root::interpretation::number_encoding::NumberEncoding;
use crate::root::interpretation::streamed_type::{
    ClassLayout, Level, StreamedClass, StreamedColumn, StreamedMember, StreamedType,
    T_OBJECT_MEMBERS,
};
use crate::root::object::{BYTE_COUNT, IS_REFERENCED, MEMBERWISE};
use crate::{Column, ElementType, Values};
use std::ops::Range;
use std::sync::Arc;

/// First version of the head of a member-by-member collection after which the version of its class
/// follows.
const CLASS_VERSION_FOLLOWS: u16 = 8;

/// Builder of the column.
pub(crate) struct ColumnBuilder {
    /// Per level of lists: the start of each list, in items of that level.
    offsets: Vec<Vec<i64>>,
    values: Values,
}

/// The target column within a value: the remaining path to it, and the number of lists entered.
#[derive(Debug, Clone, Copy)]
struct Target<'p> {
    path: &'p [Arc<str>],
    depth: usize,
}

impl Target<'_> {
    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// The storage order of a collection: object by object, or member by member with the layout of its
/// class.
#[derive(Debug, Clone, Copy)]
enum Order {
    Objects,
    Members { version: u16, checksum: u32 },
}

/// Reads the entries of a basket's data at these positions; without positions, one directly after
/// the other.
pub(crate) fn read(
    data: &[u8],
    positions: Option<&[Range<usize>]>,
    entries: usize,
    shape: &StreamedType,
    leaf: &StreamedColumn,
) -> Result<Column> {
    let mut builder = ColumnBuilder::new(leaf);
    let target = Some(Target { path: &leaf.path, depth: 0 });
    match positions {
        Some(positions) => {
            for range in positions {
                let bytes = data.get(range.clone()).ok_or_else(|| {
                    FormatError::corrupt("basket", format!("entry at bytes {range:?}"))
                })?;
                let mut walk =
                    EntryReader { cursor: Cursor::new(bytes, "entry"), out: &mut builder };
                walk.entry(shape, target)?;
                walk.finished()?;
            }
        }
        None => {
            let mut walk = EntryReader { cursor: Cursor::new(data, "entry"), out: &mut builder };
            for _ in 0..entries {
                walk.value(shape, target)?;
            }
            walk.finished()?;
        }
    }
    builder.check(entries, &leaf.levels)?;
    Ok(builder.finish(entries, &leaf.levels))
}

fn unlike(what: impl Into<String>) -> FormatError {
    FormatError::UnsupportedFeature { what: what.into() }
}

impl ColumnBuilder {
    fn new(leaf: &StreamedColumn) -> Self {
        let lists = leaf.levels.iter().filter(|level| **level == Level::List).count();
        Self { offsets: vec![vec![0]; lists], values: Values::with_capacity(leaf.element, 0) }
    }

    /// Starts a list of `n` items.
    fn list(&mut self, depth: usize, n: usize) -> Result<()> {
        let offsets =
            self.offsets.get_mut(depth).ok_or_else(|| unlike("its lists are nested otherwise"))?;
        let last = offsets.last().copied().unwrap_or(0);
        offsets.push(last + i64::try_from(n).unwrap_or(i64::MAX - last));
        Ok(())
    }

    fn numbers(&mut self, packed: NumberEncoding, bytes: &[u8]) -> Result<()> {
        let same = self.values.element_type() == packed.element();
        if same && packed.append(&mut self.values, bytes) {
            Ok(())
        } else {
            Err(unlike("its type differs between versions of its class"))
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<()> {
        match &mut self.values {
            Values::Text(strings) => {
                strings.push(text);
                Ok(())
            }
            _ => Err(unlike("its type differs between versions of its class")),
        }
    }

    /// Checks that the number of lists and values matches the entries. It does not if an object
    /// lacked the target.
    fn check(&self, entries: usize, levels: &[Level]) -> Result<()> {
        let mut lists = self.offsets.iter();
        let mut n = Some(entries);
        for level in levels {
            n = match level {
                Level::Fixed(size) => n.and_then(|n| n.checked_mul(*size)),
                Level::List => lists
                    .next()
                    .filter(|offsets| n.is_some_and(|n| offsets.len() == n + 1))
                    .and_then(|offsets| usize::try_from(*offsets.last()?).ok()),
            };
        }
        match n {
            Some(n) if n == self.values.len() => Ok(()),
            _ => Err(unlike("its bytes do not follow the description of its type")),
        }
    }

    /// Returns the column: nests the lists, from the innermost to the outermost.
    fn finish(self, entries: usize, levels: &[Level]) -> Column {
        let mut values = self.values;
        let mut offsets = self.offsets;
        let mut rest = levels;
        while let Some(at) = rest.iter().rposition(|level| *level == Level::List) {
            let (before, within) = rest.split_at(at);
            let shape = fixed(within);
            let own = offsets.pop().unwrap_or_default();
            if before.is_empty() {
                return Column { entries, offsets: Some(own), item_shape: shape, values };
            }
            let entries = own.len().saturating_sub(1);
            values = Values::Lists(Box::new(Column {
                entries,
                offsets: Some(own),
                item_shape: shape,
                values,
            }));
            rest = before;
        }
        Column { entries, offsets: None, item_shape: fixed(rest), values }
    }
}

/// The fixed dimensions in `levels`.
pub(crate) fn fixed(levels: &[Level]) -> Vec<usize> {
    let size = |level: &Level| if let Level::Fixed(n) = level { Some(*n) } else { None };
    levels.iter().filter_map(size).collect()
}

struct EntryReader<'a, 'b> {
    cursor: Cursor<'a>,
    out: &'b mut ColumnBuilder,
}

/// The head of an object or collection.
struct Head {
    version: u16,
    memberwise: bool,
    end: usize,
}

impl<'a> EntryReader<'a, '_> {
    fn finished(&self) -> Result<()> {
        match self.cursor.left() {
            0 => Ok(()),
            left => Err(self.unlike_described(&format!("{left} bytes are left over"))),
        }
    }

    fn unlike_described(&self, what: &str) -> FormatError {
        unlike(format!("its bytes do not follow the description of its type ({what})"))
    }

    /// Reads an entry with a byte range of its own. An object may lack its head there.
    fn entry(&mut self, shape: &StreamedType, target: Option<Target<'_>>) -> Result<()> {
        if self.cursor.left() == 0 && !shape.runs_to_the_end() {
            return match shape {
                StreamedType::LeafText => target.map_or(Ok(()), |_| self.out.text(b"")),
                _ => Err(self.unlike_described("an entry without bytes")),
            };
        }
        if let StreamedType::Object(class) = shape {
            let whole = self.cursor.left().saturating_sub(4);
            let mut ahead = self.cursor.clone();
            let headed = ahead.u32().is_ok_and(|count| {
                count & BYTE_COUNT != 0 && (count & !BYTE_COUNT) as usize == whole
            });
            if !headed {
                let layout = class.layouts.first();
                let members = layout.map_or(&[][..], |layout| layout.members.as_slice());
                return self.members(members, target).map(drop);
            }
        }
        self.value(shape, target)
    }

    fn value(&mut self, shape: &StreamedType, target: Option<Target<'_>>) -> Result<()> {
        match shape {
            StreamedType::Numbers { packed, .. } => {
                let bytes = self.cursor.take(shape.least())?;
                match target {
                    Some(_) => self.out.numbers(*packed, bytes),
                    None => Ok(()),
                }
            }
            StreamedType::Text { .. } | StreamedType::LeafText => {
                let text = if matches!(shape, StreamedType::Text { wide: true }) {
                    let length = self.cursor.count()?;
                    self.cursor.take(length)?
                } else {
                    self.cursor.text()?
                };
                target.map_or(Ok(()), |_| self.out.text(text))
            }
            StreamedType::Fixed { dims, item } => self.fixed(dims, item, target),
            StreamedType::List(_, item) => self.list(item, Order::Objects, target),
            StreamedType::Pair(members) => {
                for member in members.iter() {
                    self.value(&member.shape, wanted(target, member))?;
                }
                Ok(())
            }
            StreamedType::Headed(content) => self.headed(content, target),
            StreamedType::Rest(item) => self.rest(item, Order::Objects, self.cursor.left(), target),
            StreamedType::Object(class) => self.object(class, target),
            StreamedType::Bits => {
                let bits = self.bits()?;
                target.map_or(Ok(()), |_| {
                    self.out.numbers(NumberEncoding::Plain(ElementType::U32), bits)
                })
            }
            StreamedType::TObject => self.t_object(target),
            StreamedType::Counted { .. } => Err(unlike("its length is in another branch")),
            StreamedType::Unknown(why) => Err(unlike(why.as_ref())),
        }
    }

    fn fixed(
        &mut self,
        dims: &[usize],
        item: &StreamedType,
        target: Option<Target<'_>>,
    ) -> Result<()> {
        let n = dims.iter().fold(1_usize, |n, &size| n.saturating_mul(size));
        self.check_room(n, item)?;
        for _ in 0..n {
            self.value(item, target)?;
        }
        Ok(())
    }

    /// Checks that `n` values fit into the remaining bytes.
    fn check_room(&self, n: usize, item: &StreamedType) -> Result<()> {
        if n.saturating_mul(item.least().max(1)) <= self.cursor.left() {
            return Ok(());
        }
        Err(self.cursor.corrupt(format!("{n} values in {} bytes", self.cursor.left())))
    }

    fn head(&mut self) -> Result<Head> {
        let count = self.cursor.u32()?;
        let length = (count & !BYTE_COUNT) as usize;
        if count & BYTE_COUNT == 0 || length < 2 || length > self.cursor.left() {
            return Err(self.unlike_described("a byte count was expected"));
        }
        let end = self.cursor.position() + length;
        let version = self.cursor.u16()?;
        Ok(Head { version: version & !MEMBERWISE, memberwise: version & MEMBERWISE != 0, end })
    }

    fn check_end(&self, end: usize) -> Result<()> {
        if self.cursor.position() == end {
            return Ok(());
        }
        Err(self.unlike_described("a byte count does not agree"))
    }

    fn headed(&mut self, content: &StreamedType, target: Option<Target<'_>>) -> Result<()> {
        // The members of an empty collection are not written, and neither is their head.
        if matches!(content, StreamedType::Rest(_)) && self.cursor.left() == 0 {
            return self.value(content, target);
        }
        let head = self.head()?;
        if target.is_none() {
            return self.cursor.seek(head.end);
        }
        let order = if head.memberwise { self.order(head.version)? } else { Order::Objects };
        self.content(content, order, head.end, target)?;
        self.check_end(head.end)
    }

    /// Reads the storage order from the class version that follows the head of a member-by-member
    /// collection.
    fn order(&mut self, version: u16) -> Result<Order> {
        if version < CLASS_VERSION_FOLLOWS {
            return Err(unlike("it was written member by member by an old ROOT"));
        }
        let version = self.cursor.u16()?;
        let checksum = if version == 0 { self.cursor.u32()? } else { 0 };
        Ok(Order::Members { version, checksum })
    }

    fn content(
        &mut self,
        content: &StreamedType,
        order: Order,
        end: usize,
        target: Option<Target<'_>>,
    ) -> Result<()> {
        match (content, order) {
            (StreamedType::List(_, item), _) => self.list(item, order, target),
            (StreamedType::Rest(item), _) => {
                let left = end.saturating_sub(self.cursor.position());
                self.rest(item, order, left, target)
            }
            (StreamedType::Fixed { dims, item }, Order::Members { .. }) => {
                let n = dims.iter().fold(1_usize, |n, &size| n.saturating_mul(size));
                self.check_room(n, item)?;
                for _ in 0..n {
                    self.content(item, order, end, target)?;
                }
                Ok(())
            }
            (_, Order::Objects) => self.value(content, target),
            _ => Err(unlike("it was written member by member")),
        }
    }

    /// Reads a count and that many items.
    fn list(
        &mut self,
        item: &StreamedType,
        order: Order,
        target: Option<Target<'_>>,
    ) -> Result<()> {
        let mut count = self.cursor.u32()?;
        if count & BYTE_COUNT != 0 && matches!(order, Order::Objects) {
            // Inside maps, collections have a head.
            let version = self.cursor.u16()?;
            if version & MEMBERWISE != 0 {
                let order = self.order(version & !MEMBERWISE)?;
                return self.list(item, order, target);
            }
            count = self.cursor.u32()?;
        }
        let n = usize::try_from(count).unwrap_or(usize::MAX);
        if let Order::Members { version, checksum } = order {
            return self.by_members(item, n, (version, checksum), target);
        }
        self.check_room(n, item)?;
        if let Some(target) = target {
            self.out.list(target.depth, n)?;
        }
        let inside = target.map(Target::inside);
        if let StreamedType::Numbers { packed, .. } = item {
            let bytes = self.cursor.take(n.saturating_mul(item.least()))?;
            return inside.map_or(Ok(()), |_| self.out.numbers(*packed, bytes));
        }
        for _ in 0..n {
            self.value(item, inside)?;
        }
        Ok(())
    }

    /// Reads the items of a collection member by member: the first member of all objects, then the
    /// next one of all.
    fn by_members(
        &mut self,
        item: &StreamedType,
        n: usize,
        (version, checksum): (u16, u32),
        target: Option<Target<'_>>,
    ) -> Result<()> {
        let members = match item {
            StreamedType::Object(class) => layout(class, version, checksum)?.members.as_slice(),
            StreamedType::Pair(members) => members.as_slice(),
            _ => return Err(unlike("it was written member by member")),
        };
        let least = members.iter().fold(0_usize, |sum, member| {
            let once = matches!(member.shape, StreamedType::Headed(_));
            sum.saturating_add(if once { 1 } else { member.shape.least() })
        });
        if n.saturating_mul(least.max(1)) > self.cursor.left() {
            return Err(self
                .cursor
                .corrupt(format!("{n} objects in {} bytes", self.cursor.left())));
        }
        if let Some(target) = target {
            self.out.list(target.depth, n)?;
        }
        if n == 0 {
            return Ok(());
        }
        let inside = target.map(Target::inside);
        for member in members {
            let wanted = wanted(inside, member);
            match &member.shape {
                StreamedType::Headed(content) => {
                    let head = self.head()?;
                    if head.memberwise {
                        return Err(unlike("it was written member by member twice"));
                    }
                    for _ in 0..n {
                        self.value(content, wanted)?;
                    }
                    self.check_end(head.end)?;
                }
                shape => {
                    for _ in 0..n {
                        self.value(shape, wanted)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads items up to the end of the next `left` bytes.
    fn rest(
        &mut self,
        item: &StreamedType,
        order: Order,
        left: usize,
        target: Option<Target<'_>>,
    ) -> Result<()> {
        let end = self.cursor.position().saturating_add(left);
        let inside = target.map(Target::inside);
        let mut n = 0;
        while self.cursor.position() < end {
            let before = self.cursor.position();
            self.content(item, order, end, inside)?;
            if self.cursor.position() == before {
                return Err(self.unlike_described("a value without bytes"));
            }
            n += 1;
        }
        target.map_or(Ok(()), |target| self.out.list(target.depth, n))
    }

    fn object(&mut self, class: &StreamedClass, target: Option<Target<'_>>) -> Result<()> {
        let head = self.head()?;
        if target.is_none() {
            return self.cursor.seek(head.end);
        }
        if head.memberwise {
            return Err(unlike("it was written member by member"));
        }
        let checksum = if head.version == 0 { self.cursor.u32()? } else { 0 };
        let layout = layout(class, head.version, checksum)?;
        if self.members(&layout.members, target)? {
            return self.check_end(head.end);
        }
        self.cursor.seek(head.end)
    }

    /// Reads the members of an object. Returns false if it stopped at a member that cannot be read,
    /// after the target.
    fn members(&mut self, members: &[StreamedMember], target: Option<Target<'_>>) -> Result<bool> {
        let mut counts: Vec<(usize, usize)> = Vec::new();
        let mut found = target.is_none();
        for (index, member) in members.iter().enumerate() {
            let wanted = wanted(target, member);
            found |= wanted.is_some();
            match &member.shape {
                StreamedType::Unknown(_) if found && wanted.is_none() => return Ok(false),
                StreamedType::Counted { packed, counter } => {
                    let count = counts.iter().find(|(at, _)| at == counter);
                    let count = count.map(|&(_, count)| count);
                    self.counted(*packed, count, wanted)?;
                }
                shape => {
                    let before = self.cursor.clone();
                    self.value(shape, wanted)?;
                    if let Some(count) = count_in(before, shape) {
                        counts.push((index, count));
                    }
                }
            }
        }
        if !found {
            return Err(unlike("an object is of a version that does not have this member"));
        }
        Ok(true)
    }

    fn counted(
        &mut self,
        packed: NumberEncoding,
        count: Option<usize>,
        target: Option<Target<'_>>,
    ) -> Result<()> {
        let count = count.ok_or_else(|| unlike("the member with its length is no number"))?;
        let marker = self.cursor.u8()?;
        let count = if marker == 0 { 0 } else { count };
        let bytes = self.cursor.take(count.saturating_mul(packed.size()))?;
        if let Some(target) = target {
            self.out.list(target.depth, count)?;
            self.out.numbers(packed, bytes)?;
        }
        Ok(())
    }

    /// Reads the bits of a `TObject`. Skips the process number that a referenced object has.
    fn bits(&mut self) -> Result<&'a [u8]> {
        let bits = self.cursor.take(4)?;
        let set = bits.first_chunk().map_or(0, |raw| u32::from_be_bytes(*raw));
        if set & IS_REFERENCED != 0 {
            self.cursor.skip(2)?;
        }
        Ok(bits)
    }

    fn t_object(&mut self, target: Option<Target<'_>>) -> Result<()> {
        let version = self.cursor.u16()?;
        if u32::from(version) << 16 & BYTE_COUNT != 0 {
            self.cursor.skip(4)?;
        }
        let fields = [self.cursor.take(4)?, self.bits()?];
        let Some(target) = target else { return Ok(()) };
        let wanted = T_OBJECT_MEMBERS
            .iter()
            .position(|name| target.path.first().is_some_and(|wanted| wanted.as_ref() == *name));
        let bytes = wanted.and_then(|at| fields.get(at)).copied().unwrap_or_default();
        self.out.numbers(NumberEncoding::Plain(ElementType::U32), bytes)
    }
}

/// Returns the target within a member, if it leads to the column.
fn wanted<'p>(target: Option<Target<'p>>, member: &StreamedMember) -> Option<Target<'p>> {
    let target = target?;
    let (first, path) = target.path.split_first()?;
    (*first == member.name).then_some(Target { path, ..target })
}

/// The layout that the version or checksum of a head selects.
fn layout(class: &StreamedClass, version: u16, checksum: u32) -> Result<&ClassLayout> {
    let mut layouts = class.layouts.iter();
    let found = match (class.layouts.as_slice(), version) {
        // Classes without a version of their own differ by checksum.
        ([only], 0) => Some(only),
        (_, 0) => layouts.find(|layout| layout.checksum == checksum),
        _ => layouts.find(|layout| layout.version == i32::from(version)),
    };
    found.ok_or_else(|| {
        unlike(format!("version {version} of `{}`, which the file does not describe", class.name))
    })
}

/// The value of a member if it is an integer: it may be the count of another member.
fn count_in(mut cursor: Cursor<'_>, shape: &StreamedType) -> Option<usize> {
    let StreamedType::Numbers { packed: NumberEncoding::Plain(element), dims } = shape else {
        return None;
    };
    if !dims.is_empty() {
        return None;
    }
    usize::try_from(cursor.int(*element).ok()??).ok()
}
