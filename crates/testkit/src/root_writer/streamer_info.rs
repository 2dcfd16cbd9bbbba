//! Class descriptions: a `TList` of `TStreamerInfo`.

use super::write_buffer::{Named, Out};

/// A class.
#[derive(Debug, Clone, Default)]
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: i32,
    /// The checksum that distinguishes it from other classes of the same version.
    pub checksum: u32,
    /// Its base classes, then its members.
    pub members: Vec<Member>,
}

/// A member or a base of a class.
#[derive(Debug, Clone, Copy, Default)]
pub struct Member {
    /// Its name; for a base, the name of the class.
    pub name: &'static str,
    /// Its comment.
    pub title: &'static str,
    /// Its C++ type.
    pub type_name: &'static str,
    /// `TStreamerInfo`'s code: 0 for bases.
    pub code: i32,
    /// Length of a fixed array; otherwise 0.
    pub length: usize,
    /// The member that contains the length of a variable array.
    pub count: &'static str,
}

struct Writer {
    out: Out,
    named: Named,
}

impl Writer {
    /// A pointer to a new object of `class`.
    fn pointer(&mut self, class: &'static str, body: impl FnOnce(&mut Self)) {
        let start = self.named.begin(&mut self.out, class);
        body(self);
        self.out.close(start);
    }

    fn class(&mut self, class: &Class) {
        let start = self.out.0.len();
        self.out.u32(0).i16(9).named(class.name, "");
        self.out.u32(class.checksum).signed(class.version);
        self.pointer("TObjArray", |writer| {
            let start = writer.out.0.len();
            writer.out.u32(0).i16(3).t_object().text("").i32(class.members.len()).i32(0);
            for member in &class.members {
                let counted = !member.count.is_empty();
                let kind = if counted { "TStreamerBasicPointer" } else { "TStreamerBasicType" };
                writer.pointer(kind, |writer| writer.member(member));
            }
            writer.out.close(start);
        });
        self.out.close(start);
    }

    fn member(&mut self, member: &Member) {
        self.out.object(2, |out| {
            out.object(4, |out| {
                out.named(member.name, member.title).signed(member.code).i32(0);
                out.i32(member.length).i32(usize::from(member.length > 0)).i32(member.length);
                out.put(&[0; 16]).text(member.type_name);
            });
            if !member.count.is_empty() {
                out.i32(1).text(member.count).text("");
            }
        });
    }
}

/// The list, for a position after a key of `origin` bytes.
pub(super) fn class_list(origin: usize, classes: &[Class]) -> Vec<u8> {
    let mut writer = Writer { out: Out::default(), named: Named::new(origin) };
    writer.out.u32(0).i16(5).t_object().text("").i32(classes.len());
    for class in classes {
        writer.pointer("TStreamerInfo", |writer| writer.class(class));
        writer.out.text("");
    }
    writer.out.close(0);
    writer.out.0
}
