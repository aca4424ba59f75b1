//! Trees: one directory each, as the bytes that git wrote.

use super::id::ObjectId;
use bytes::Bytes;

/// A directory: a sequence of entries, each `<mode> <name>` NUL and the 20 bytes of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree(Bytes);

/// A named object in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// Octal digits.
    mode: &'a [u8],
    pub name: &'a [u8],
    pub id: ObjectId,
    /// Offset of the id's bytes in the tree.
    id_offset: usize,
}

/// The type of an entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    Tree,
    File { is_executable: bool },
    Link,
    Submodule,
}

impl<'a> TreeEntry<'a> {
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// `None` if the mode has no type that git knows.
    pub fn entry_type(&self) -> Option<EntryType> {
        let mode = u32::from_str_radix(std::str::from_utf8(self.mode).ok()?, 8).ok()?;
        match mode & 0o170_000 {
            0o040_000 => Some(EntryType::Tree),
            0o100_000 => Some(EntryType::File { is_executable: mode & 0o100 != 0 }),
            0o120_000 => Some(EntryType::Link),
            0o160_000 => Some(EntryType::Submodule),
            _ => None,
        }
    }

    /// As git prints it: it takes old trees' other permissions for one of these two, and unknown modes for submodules.
    pub fn mode(&self) -> &'static str {
        match self.entry_type() {
            Some(EntryType::Tree) => "040000",
            Some(EntryType::File { is_executable: false }) => "100644",
            Some(EntryType::File { is_executable: true }) => "100755",
            Some(EntryType::Link) => "120000",
            Some(EntryType::Submodule) | None => "160000",
        }
    }

    /// git refuses such modes.
    pub fn is_zero_padded(&self) -> bool {
        self.mode.starts_with(b"0")
    }

    pub fn is_tree(&self) -> bool {
        self.entry_type() == Some(EntryType::Tree)
    }

    /// A file, executable or not, or a symbolic link, whose contents are its target; no tree or submodule.
    pub fn is_blob(&self) -> bool {
        matches!(self.entry_type(), Some(EntryType::File { .. } | EntryType::Link))
    }
}

impl Tree {
    /// `None` if the bytes are not those of a tree.
    pub fn parse(bytes: Bytes) -> Option<Self> {
        let tree = Tree(bytes);
        let mut entries = tree.entries();
        entries.by_ref().for_each(drop);
        let whole = entries.offset == tree.0.len();
        whole.then_some(tree)
    }

    pub fn entries(&self) -> TreeEntries<'_> {
        TreeEntries { bytes: &self.0, offset: 0 }
    }

    /// The entry of this name, in time linear in the tree's size: the search relies on no order of names, because not
    /// every writer kept git's order.
    pub fn find(&self, name: &[u8]) -> Option<TreeEntry<'_>> {
        self.entries().find(|entry| entry.name == name)
    }

    /// The tree in which each of these names has the given id. Names without an entry are ignored.
    pub fn replace<'a>(&self, changes: impl IntoIterator<Item = (&'a [u8], ObjectId)>) -> Tree {
        let mut bytes = self.0.to_vec();
        for (name, id) in changes {
            let old =
                self.find(name).and_then(|entry| bytes.get_mut(entry.id_offset..entry.id_offset + ObjectId::LENGTH));
            if let Some(old) = old {
                old.copy_from_slice(id.bytes());
            }
        }
        Tree(bytes.into())
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

/// Iterates over a tree's entries; ends at the first malformed one.
pub struct TreeEntries<'a> {
    bytes: &'a [u8],
    /// Of the next entry.
    offset: usize,
}

impl<'a> Iterator for TreeEntries<'a> {
    type Item = TreeEntry<'a>;

    fn next(&mut self) -> Option<TreeEntry<'a>> {
        let rest = self.bytes.get(self.offset..)?;
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let (mode, named) = (rest.get(..space)?, rest.get(space + 1..)?);
        let end = named.iter().position(|byte| *byte == 0)?;
        let name = named.get(..end)?;
        let id: &[u8; ObjectId::LENGTH] = named.get(end + 1..end + 1 + ObjectId::LENGTH)?.try_into().ok()?;
        if mode.is_empty() || name.is_empty() || !mode.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let id_offset = self.offset + space + 1 + end + 1;
        self.offset = id_offset + ObjectId::LENGTH;
        Some(TreeEntry { mode, name, id: ObjectId::new(*id), id_offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::new([byte; ObjectId::LENGTH])
    }

    fn tree(entries: &[(&str, &str, u8)]) -> Bytes {
        let mut bytes = Vec::new();
        for (mode, name, number) in entries {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend_from_slice(id(*number).bytes());
        }
        bytes.into()
    }

    /// Ids of the bytes 32 (space) and 48 (digit), which must not be parsed as text.
    const ENTRIES: [(&str, &str, u8); 5] = [
        ("100644", "a b", 32),
        ("120000", "link", 48),
        ("100755", "run", 0),
        ("40000", "sub", 1),
        ("160000", "mod", 2),
    ];

    #[test]
    fn entries_are_found_by_name_and_classified_by_mode() {
        let tree = Tree::parse(tree(&ENTRIES)).unwrap();
        for (mode, name, number) in ENTRIES {
            let entry = tree.find(name.as_bytes()).unwrap();
            assert_eq!((entry.mode, entry.id), (mode.as_bytes(), id(number)));
            assert_eq!(entry.is_tree(), name == "sub");
            assert_eq!(entry.is_blob(), !matches!(name, "sub" | "mod"));
        }
        assert_eq!(tree.find(b"su"), None);
        assert_eq!(tree.entries().count(), 5);
    }

    #[test]
    fn modes_are_normalized_by_their_type() {
        for (mode, expected) in [
            ("100600", "100644"),
            ("100640", "100644"),
            ("100664", "100644"),
            ("100777", "100755"),
            ("100100", "100755"),
            ("40755", "040000"),
            ("040000", "040000"),
            ("120777", "120000"),
            ("160000", "160000"),
            ("644", "160000"),
            ("60000", "160000"),
            ("100648", "160000"),
            ("77777777777777", "160000"),
        ] {
            let tree = Tree::parse(tree(&[(mode, "a", 1)])).unwrap();
            assert_eq!(tree.find(b"a").unwrap().mode(), expected, "{mode}");
        }
    }

    #[test]
    fn a_replacement_changes_ids_and_nothing_else() {
        let before = Tree::parse(tree(&ENTRIES)).unwrap();
        let after = before.replace([(&b"run"[..], id(9)), (b"nowhere", id(8))]);
        let mut expected = ENTRIES;
        expected[2].2 = 9;
        assert_eq!(after.bytes(), &tree(&expected));
        // Modes that git no longer writes are kept.
        let old = Tree::parse(tree(&[("100664", "x", 1), ("040000", "y", 2)])).unwrap();
        assert!(old.find(b"x").unwrap().is_blob() && old.find(b"y").unwrap().is_tree());
        assert_eq!(old.replace([(&b"x"[..], id(3))]).bytes(), &tree(&[("100664", "x", 3), ("040000", "y", 2)]));
    }

    #[test]
    fn malformed_trees_are_rejected() {
        assert!(Tree::parse(Bytes::new()).is_some());
        let good = tree(&ENTRIES);
        for end in 1..good.len() {
            let cut = Tree::parse(good.slice(..end));
            assert!(cut.is_none_or(|cut| cut.entries().count() < 5), "{end}");
        }
        assert_eq!(Tree::parse(Bytes::from_static(b"100644 a")), None);
        assert_eq!(Tree::parse(tree(&[("mode", "a", 1)])), None);
        assert_eq!(Tree::parse(tree(&[("100644", "", 1)])), None);
    }
}
