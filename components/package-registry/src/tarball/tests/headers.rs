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
        [gzip(&tar), vec![0; 512]],
        [gzip(&tar), b"more".into()],
    ] {
        let refused = Err(TarballError::Gzip("something follows its first member".into()));
        assert_eq!(inspect(&members.concat()), refused);
    }
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

/// pnpm reads no further than a header whose name is empty; others take the name from elsewhere.
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

#[test]
fn headers_that_programs_read_differently_are_refused() {
    let changed = |change: &dyn Fn(&mut [u8])| {
        let mut entry = file("package/a", b"x");
        change(&mut entry[..512]);
        let mut header = Header::from_byte_slice(&entry[..512]).clone();
        header.set_cksum();
        entry[..512].copy_from_slice(header.as_bytes());
        with(&[entry]).map(|contents| contents.totals.files)
    };
    let refused = |why| Err(TarballError::Archive(why));
    assert_eq!(changed(&|_| ()), Ok(2));
    let set =
        |at: usize, bytes: &[u8]| changed(&|header: &mut [u8]| header[at..at + bytes.len()].copy_from_slice(bytes));
    for size in
        [&b"00000000009\0"[..], b"0x000000001\0", b"+0000000001\0", b"-0000000001\0", b"1 1        \0", &[0; 12]]
    {
        assert_eq!(set(124, size), refused("the size in a header is no octal number"), "{size:?}");
    }
    let mut base_256 = [0; 12];
    (base_256[0], base_256[11]) = (0x80, 1);
    assert_eq!(set(124, &base_256), refused("the size in a header is no octal number"));
    assert_eq!(set(124, b"       1 \0\0\0"), Ok(2));
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
        let with_prefix = changed(&|header: &mut [u8]| {
            header[257..265].copy_from_slice(format);
            header[345] = b'x';
        });
        assert_eq!(with_prefix, refused("a header has a prefix that its format has not"));
    }
}

fn refused_entry(name: &str) -> Result<u64, TarballError> {
    Err(TarballError::Entry(name.into(), "is in another top-level folder than the first entry"))
}
