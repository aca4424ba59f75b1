//! Headers and members that programs read differently.

use super::*;

/// Some programs unpack the second member and some do not.
#[test]
fn a_second_gzip_member_is_refused() {
    let tar = [manifest(), file("package/a", b"x"), END.into()].concat();
    let (first, second) = tar.split_at(700);
    let without_end = &tar[..tar.len() - END.len()];
    for members in [
        [gzip(first), gzip(second)],
        [gzip(&tar), gzip(&manifest())],
        [gzip(without_end), gzip(&file("package/b", b"x"))],
        [gzip(&tar), gzip(b"")],
        [gzip(&tar), [vec![0; 512], gzip(&tar)].concat()],
        [gzip(&tar), [vec![0; 512], vec![1]].concat()],
        [gzip(&tar), b"more".into()],
    ] {
        let refused = Err(TarballError::Gzip("something follows its first member".into()));
        assert_eq!(inspect(&members.concat()), refused);
    }
    // bsdtar pads its output to a pipe.
    let padded = inspect(&[gzip(&tar), vec![0; 9000]].concat());
    assert_eq!(padded.unwrap().totals, inspect(&gzip(&tar)).unwrap().totals);
}

#[test]
fn ambiguous_archives_are_refused() {
    let hidden = file("package/package.json", b"{}");
    let named = |text: &str| entry(EntryType::XHeader, b"x", text.as_bytes());
    let malformed = Err(TarballError::Archive("a record of an extended header is malformed"));
    for text in [
        "\n12 path=x/y\n".to_owned(),
        format!("{}\n{}", record("comment", "x"), record("path", "x/y")),
        record("comment", "x\n12 path=x/y"),
        "99 path=x/y\n".into(),
        "path=x/y\n".into(),
        record("size", "-1"),
        record("size", "+2"),
        record("size", ""),
        record("size", "0x10"),
        "x".into(),
        "\n".into(),
        // Programs that skip as many characters as the number would have read another name.
        "012 path=x/y\n".into(),
        "+12 path=x/y\n".into(),
        " 12 path=x/y\n".into(),
        record("path", "x/y").trim_end().into(),
    ] {
        assert_eq!(with(&[named(&text), hidden.clone()]), malformed, "{text:?}");
    }
    for key in ["type", "mode", "linkname", "typeflag", "nullBlock", "GNU.volume.label", "x.y", ".x"] {
        let refused = Err(TarballError::Archive("a record of an extended header is of an unknown kind"));
        assert_eq!(with(&[records(&[(key, "5")]), hidden.clone()]), refused, "{key}");
    }
    let sparse = records(&[("GNU.sparse.name", "package/package.json")]);
    assert_eq!(with(&[sparse, hidden.clone()]), Err(TarballError::Archive("it has a sparse file")));
    let twice = Err(TarballError::Archive("an entry is named or measured twice"));
    let named = entry(EntryType::GNULongName, b"././@LongLink", b"package/b");
    assert_eq!(with(&[named.clone(), named.clone(), hidden.clone()]), twice);
    assert_eq!(with(&[records(&[("path", "x/y"), ("path", "x/y")]), hidden.clone()]), twice);
    let (posix, comment) = (records(&[("path", "package/c")]), record("comment", "x"));
    let comment = entry(EntryType::XGlobalHeader, b"g", comment.as_bytes());
    for (first, second) in
        [(&named, &posix), (&posix, &named), (&posix, &posix), (&named, &comment), (&posix, &comment)]
    {
        let refused = Err(TarballError::Archive("an extended header follows another one"));
        assert_eq!(with(&[first.clone(), second.clone(), hidden.clone()]), refused);
    }
    let global = entry(EntryType::XGlobalHeader, b"g", record("path", "x/y").as_bytes());
    assert_eq!(with(&[global]), Err(TarballError::Archive("a global header names or measures entries")));
    for zeros in [512, 1024, 5120] {
        let refused = Err(TarballError::Archive("something follows its end"));
        assert_eq!(with(&[vec![0; zeros], hidden.clone()]), refused, "{zeros}");
    }
    let large = entry(EntryType::XHeader, b"x", &vec![b'x'; (1 << 20) + 1]);
    assert_eq!(with(&[large]), Err(TarballError::Archive("an extended header is larger than 1 MiB")));
}

/// pnpm stops at a header whose name is empty; other programs take the name from an extended header.
#[test]
fn headers_without_a_name_are_refused() {
    let path = record("path", "package/a");
    let comment = record("comment", "x");
    let gnu = entry(EntryType::GNULongName, b"././@LongLink", b"package/a\0");
    let mut with_prefix = entry(EntryType::Directory, b"", b"");
    with_prefix[345..352].copy_from_slice(b"package");
    let mut header = Header::from_byte_slice(&with_prefix).clone();
    header.set_cksum();
    with_prefix = header.as_bytes().to_vec();
    for parts in [
        [records(&[("path", "package/a")]), file("", b"x")],
        [records(&[("path", "package/a")]), file("\0abc", b"x")],
        [gnu, file("", b"x")],
        [entry(EntryType::XHeader, b"", path.as_bytes()), file("package/b", b"x")],
        [entry(EntryType::XGlobalHeader, b"", comment.as_bytes()), file("package/b", b"x")],
        [entry(EntryType::GNULongName, b"", b"package/a\0"), file("package/b", b"x")],
        [entry(EntryType::GNULongLink, b"", b"b\0"), entry(EntryType::Symlink, b"package/a", b"")],
        [with_prefix, file("package/b", b"x")],
        [file("", b""), file("package/b", b"x")],
    ] {
        assert_eq!(with(&parts), Err(TarballError::Archive("it has an entry without a name")));
    }
    let text = with(&[file("", b"")]).unwrap_err().to_string();
    assert_eq!(text, "Attachment is not a tar archive: it has an entry without a name");
}

/// A program that does not read extended headers would read the contents as another header.
#[test]
fn an_extended_header_does_not_change_the_size() {
    let file = file("package/a", &[b'x'; 100]);
    assert_eq!(with(&[records(&[("size", "100")]), file.clone()]).unwrap().totals.size, 132);
    for size in ["0", "99", "512"] {
        let refused = Err(TarballError::Archive("an entry has another size in its extended header"));
        assert_eq!(with(&[records(&[("size", size)]), file.clone()]), refused);
    }
}

/// An entry with patched bytes in its header, and a valid sum.
fn patched(entry: &[u8], patches: &[(usize, &[u8])]) -> Vec<u8> {
    let mut entry = entry.to_vec();
    for (at, bytes) in patches {
        entry[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    let mut header = Header::from_byte_slice(&entry[..512]).clone();
    header.set_cksum();
    entry[..512].copy_from_slice(header.as_bytes());
    entry
}

fn refused<T>(why: &'static str) -> Result<T, TarballError> {
    Err(TarballError::Archive(why))
}

/// Inspects a file with patched bytes in its header.
fn set(at: usize, bytes: &[u8]) -> Result<u64, TarballError> {
    with(&[patched(&file("package/a", b"x"), &[(at, bytes)])]).map(|contents| contents.totals.files)
}

/// For each of these values, node-tar skips the header, but reads the contents as headers.
#[test]
fn headers_that_one_program_leaves_out_are_refused() {
    let hidden = file("package/package.json", br#"{"name":"lib","version":"1.0.0","scripts":{"install":"evil"}}"#);
    let shown = file("package/a.txt", &hidden);
    let contents = |entry: Vec<u8>| with(&[entry]).map(|contents| contents.totals.files);
    assert_eq!(contents(shown.clone()), Ok(2));
    let linked = refused("a header that is of no link has a link's target");
    assert_eq!(contents(patched(&shown, &[(157, b"x")])), linked);
    let folder = entry(EntryType::Directory, b"package/d", b"");
    assert_eq!(contents(patched(&folder, &[(157, b"x")])), linked);
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
        let extension = entry(kind, b"x", record("comment", "x").as_bytes());
        assert_eq!(contents(patched(&extension, &[(157, b"x")])), linked, "{kind:?}");
    }
    let manifest = patched(&manifest(), &[(157, b"x")]);
    assert_eq!(inspect(&gzip(&manifest)).map(|contents| contents.totals.files), linked);

    let number = |name| match name {
        "uid" => (108, 8),
        "gid" => (116, 8),
        "mode" => (100, 8),
        "mtime" => (136, 12),
        "devmajor" => (329, 8),
        "devminor" => (337, 8),
        "atime" => (476, 12),
        _ => (488, 12),
    };
    for name in ["uid", "gid", "mode", "mtime", "devmajor", "devminor", "atime", "ctime"] {
        let (at, length) = number(name);
        let filled = |first: u8, rest: u8| [vec![first], vec![rest; length - 1]].concat();
        let mut lines = filled(b'1', b' ');
        lines[1] = b'\n';
        for value in [
            filled(0x80, 0xff),
            filled(0x90, 0),
            filled(0xc0, 0xc0),
            filled(0xff, 0xff),
            filled(b'z', b'z'),
            filled(b'\n', b'1'),
            filled(b'\t', b'1'),
            filled(b'-', b'1'),
            filled(0, b'1'),
            lines,
        ] {
            let why = refused("a number in a header is no octal number");
            assert_eq!(contents(patched(&shown, &[(at, &value)])), why, "{name} {value:?}");
        }
        // Some packers leave a number out, and some write it without a terminator.
        for value in [filled(0, 0), filled(b' ', b' '), filled(b'1', b'1'), filled(b' ', b'1'), filled(b'1', 0)] {
            assert_eq!(contents(patched(&shown, &[(at, &value)])), Ok(2), "{name} {value:?}");
        }
    }
    // GNU tar's form of an owner's id beyond seven digits.
    for at in [108, 116] {
        assert_eq!(contents(patched(&shown, &[(at, b"\x80\0\0\0\xff\xff\xff\xff")])), Ok(2));
        let why = refused("a number in a header is no octal number");
        assert_eq!(contents(patched(&shown, &[(at, b"\x80\0\0\x01\0\0\0\0")])), why);
    }
    // The bytes behind a prefix of 155 bytes are no time.
    let long = [b"package/".as_slice(), &[b'x'; 146]].concat();
    assert_eq!(set(345, &[long.as_slice(), b"y"].concat()), Ok(2));
}

/// One program reads four bytes beyond the field.
#[test]
fn a_checksum_ends_in_its_field() {
    let mut entry = file("package/a", b"x");
    let sum: u32 = entry[..148].iter().chain(&entry[156..512]).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
    for (text, is_read) in [
        (format!("{sum:06o}\0 "), true),
        (format!("{sum:06o} \0"), true),
        (format!("{sum:07o}\0"), true),
        (format!("{sum:07o} "), true),
        (format!("{sum:>6o}\0 "), true),
        (format!("{sum:08o}"), false),
        (format!("{sum:>8o}"), false),
        (format!("\n{sum:06o}\0"), false),
        (format!("\t{sum:06o}\0"), false),
        (format!("{sum:06o}\n\0"), false),
        (format!("\0{sum:06o}\0"), false),
    ] {
        entry[148..156].copy_from_slice(text.as_bytes());
        let outcome = with(&[entry.clone()]).map(|contents| contents.totals.files);
        assert_eq!(outcome, if is_read { Ok(2) } else { refused("the checksum of a header is wrong") }, "{text:?}");
    }
}

/// One program unpacks such a file as a link, and one skips its header.
#[test]
fn an_extended_header_names_the_target_of_links_only() {
    let long = entry(EntryType::GNULongLink, b"././@LongLink", b"package/b\0");
    let posix = records(&[("linkpath", "package/b")]);
    for entry in [file("package/a", b"x"), entry(EntryType::Directory, b"package/a", b"")] {
        for extension in [&long, &posix] {
            let why = refused("an extended header names the target of an entry that is no link");
            assert_eq!(with(&[extension.clone(), entry.clone()]).map(drop), why);
        }
    }
    // GNU tar names the target first.
    let name = self::entry(EntryType::GNULongName, b"././@LongLink", b"package/c\0");
    for extensions in [[long.clone(), name.clone()], [name, long]] {
        assert!(with(&[extensions.concat(), self::entry(EntryType::Symlink, b"package/a", b"")]).is_ok());
    }
}

const BEHIND: &str = "an extended header has a name that is not ASCII behind its first 512 bytes";

/// One program decodes each piece of such a header on its own, and ignores a name with a character in two pieces. The
/// first piece has 512 bytes or more.
#[test]
fn long_names_that_may_arrive_in_pieces_are_ascii() {
    let other = "\u{e9}".repeat(100);
    let early = |length: usize| format!("package/{other}{}", "/x".repeat(length));
    let late = |length: usize| format!("package{}/{other}", "/x".repeat(length));
    let ascii = late(160).replace('\u{e9}', "e");
    for (name, is_read) in [
        (early(140), true),
        (early(160), true),
        (early(240), true),
        (late(140), true),
        (late(160), false),
        (ascii, true),
    ] {
        for kind in [EntryType::Symlink, EntryType::Regular] {
            let (key, gnu) = match kind {
                EntryType::Symlink => ("linkpath", EntryType::GNULongLink),
                _ => ("path", EntryType::GNULongName),
            };
            for extension in [records(&[(key, &name)]), entry(gnu, b"././@LongLink", name.as_bytes())] {
                let outcome = with(&[extension, entry(kind, b"package/a", b"")]).map(drop);
                assert_eq!(outcome, if is_read { Ok(()) } else { refused(BEHIND) }, "{kind:?} {}", name.len());
            }
        }
    }
    for length in 470..500 {
        let before = record("comment", &"x".repeat(length));
        let name = record("path", "package/\u{e9}");
        let end = before.len() + name.len() - "\n".len();
        let extension = entry(EntryType::XHeader, b"PaxHeader/x", (before + &name).as_bytes());
        let outcome = with(&[extension, file("package/b", b"x")]).map(drop);
        assert_eq!(outcome, if end <= 512 { Ok(()) } else { refused(BEHIND) }, "{end}");
    }
    let attribute = records(&[("path", "package/b"), ("SCHILY.xattr.user.x", &"\u{e9}".repeat(600))]);
    assert!(with(&[attribute, file("package/a", b"x")]).is_ok());
}

#[test]
fn headers_that_programs_read_differently_are_refused() {
    assert_eq!(set(0, b"package/b"), Ok(2));
    for size in [
        &b"00000000009\0"[..],
        b"0x000000001\0",
        b"+0000000001\0",
        b"-0000000001\0",
        b"1 1        \0",
        &[0; 12],
        b"            ",
        // Some programs skip this white space, and some read 0.
        b"\n0000000001\0",
        b"\r0000000001\0",
        b"\t0000000001\0",
        b"\x0b0000000001\0",
        b"\x0c0000000001\0",
        b"0000000001\n\0",
        b"\x000000000001\0",
        b"000000000001",
        b"\x80\0\0\0\0\0\0\0\0\0\0\x01",
    ] {
        assert_eq!(set(124, size), refused("the size in a header is no octal number"), "{size:?}");
    }
    assert_eq!(set(124, b"       1 \0\0\0"), Ok(2));
    // pnpm calculates with 32 bits.
    for size in [b"20000000000\0", b"40000001000\0", b"77777777777\0"] {
        assert_eq!(set(124, size), refused("an entry has 2 GiB or more"), "{size:?}");
    }
    let continues = refused("a name in a header continues after its end");
    assert_eq!(set(10, b"/../../x"), continues);
    assert_eq!(set(158, b"x"), continues);
    assert_eq!(set(345, b"x\0y"), continues);
    assert_eq!(set(475, b"x"), continues, "npm takes an empty prefix for one");
    assert_eq!(set(345, b"x"), refused_entry("x/package/a"));
    assert_eq!(set(345, b"package/b"), Ok(2));
    assert_eq!(set(257, b"ustar  \0"), Ok(2));
    assert_eq!(set(257, &[0; 8]), Ok(2));
    for format in [&b"ustar\x0001"[..], b"ustar\0\0\0", b"ustar 00", b"USTAR\x0000"] {
        assert_eq!(set(257, format), refused("a header is of an unknown format"), "{format:?}");
    }
    for format in [&b"ustar  \0"[..], &[0; 8]] {
        let with_prefix = with(&[patched(&file("package/a", b"x"), &[(257, format), (345, b"x")])]);
        assert_eq!(with_prefix.map(drop), refused("a header has a prefix that its format has not"));
    }
    // star's format has a shorter prefix.
    assert_eq!(set(508, b"tar\0"), refused("a header is of an unknown format"));
    // Some programs judge a file by its own header's name in spite of an extended header. They take it for a folder,
    // and read headers in it.
    for kind in [b"\0", b"0"] {
        let own = patched(&file("package/d/", b"x"), &[(156, kind)]);
        let gnu = entry(EntryType::GNULongName, b"././@LongLink", b"package/b\0");
        for extension in [records(&[("path", "package/b")]), gnu] {
            let why = Err(TarballError::Entry("package/b".into(), "is a file with the name of a folder"));
            assert_eq!(with(&[extension, own.clone()]).map(drop), why, "{kind:?}");
        }
    }
}

/// Packers write a long name into an extended header, and as much as fits into the entry's own header.
#[test]
fn a_long_name_may_be_cut_behind_a_slash() {
    let folder = format!("package/{}/", "d".repeat(91));
    let name = format!("{folder}a.txt");
    let cut = |content: &[u8], kind: &[u8]| {
        let own = patched(&file(&folder, content), &[(156, kind)]);
        let gnu = entry(EntryType::GNULongName, b"././@LongLink", format!("{name}\0").as_bytes());
        [records(&[("path", &name)]), gnu].map(|extension| with(&[extension, own.clone()]).map(|all| all.totals.files))
    };
    assert_eq!(folder.len(), 100);
    for content in [&b"x"[..], &[b'x'; 2000]] {
        assert_eq!(cut(content, b"0"), [Ok(2), Ok(2)]);
    }
    let folder_like = || Err(TarballError::Entry(excerpt(name.as_bytes()), "is a file with the name of a folder"));
    assert_eq!(cut(b"", b"0"), [(); 2].map(|()| folder_like()));
    assert_eq!(cut(b"x", b"\0"), [(); 2].map(|()| folder_like()), "all programs take this one for a folder");
    // If a program takes the file for an empty folder, it reads the contents as headers, or as the archive's end.
    let hidden = file("package/package.json", b"{}");
    let mut signed = hidden.clone();
    signed[0] = 0xe9;
    let signed_sum: i32 =
        (0..512).map(|at| if (148..156).contains(&at) { 32 } else { i32::from(signed[at] as i8) }).sum();
    signed[148..156].copy_from_slice(format!("{signed_sum:06o}\0 ").as_bytes());
    for content in [&hidden[..], &hidden[..400], &signed, &[0; 3]] {
        let why = "a file with the name of a folder in its header has a header in it";
        assert_eq!(cut(content, b"0"), [(); 2].map(|()| Err(TarballError::Archive(why))));
    }
}

fn refused_entry(name: &str) -> Result<u64, TarballError> {
    Err(TarballError::Entry(name.into(), "is in another top-level folder than the first entry"))
}
