mod headers;

use super::*;
use crate::name::PackageName;
use crate::version::Version;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

/// A package's file: `package.json`, and another file with these bytes. It is not compressed, so that it is larger than
/// its files.
pub fn tarball(name: &str, version: &str, payload: &[u8]) -> Vec<u8> {
    let manifest = serde_json::json!({"name": name, "version": version}).to_string();
    gzip(&[file("package/package.json", manifest.as_bytes()), file("package/payload", payload), END.into()].concat())
}

/// A package's file with these files: their names, unchecked, and contents.
pub fn tarball_of(files: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = files.iter().map(|(name, content)| file(name, content.as_bytes())).collect();
    gzip(&[entries.concat(), END.into()].concat())
}

const END: [u8; 1024] = [0; 1024];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(EntryType::Regular, name.as_bytes(), content)
}

/// An entry with unchecked values.
fn entry(kind: EntryType, name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let padding = vec![0; content.len().next_multiple_of(512) - content.len()];
    [header.as_bytes().as_slice(), content, &padding].concat()
}

fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (rest.len()..).find(|length| length.to_string().len() + rest.len() == *length).unwrap();
    format!("{length}{rest}")
}

fn records(records: &[(&str, &str)]) -> Vec<u8> {
    let text: String = records.iter().map(|(key, value)| record(key, value)).collect();
    entry(EntryType::XHeader, b"PaxHeader/x", text.as_bytes())
}

fn manifest() -> Vec<u8> {
    file("package/package.json", br#"{"name":"lib","version":"1.0.0"}"#)
}

/// Inspects a file that arrives in pieces of each of several lengths.
#[track_caller]
fn inspect(file: &[u8]) -> Result<Contents, TarballError> {
    let in_pieces = |length: usize| {
        let mut inspector = TarballInspector::new(TarballLimits { unpacked: 1 << 24, entries: 100_000 });
        file.chunks(length).for_each(|piece| inspector.feed(piece));
        inspector.finish()
    };
    let outcome = in_pieces(usize::MAX);
    for length in [1, 7, 512, 1000] {
        assert_eq!(in_pieces(length), outcome, "in pieces of {length} bytes");
    }
    outcome
}

/// Inspects `parts`, one after the other, after a valid manifest and before the end.
#[track_caller]
fn with(parts: &[Vec<u8>]) -> Result<Contents, TarballError> {
    inspect(&gzip(&[manifest(), parts.concat(), END.into()].concat()))
}

/// Inspects an archive of one manifest.
#[track_caller]
fn with_manifest(text: &str) -> Result<Contents, TarballError> {
    inspect(&gzip(&[file("package/package.json", text.as_bytes()), END.into()].concat()))
}

#[track_caller]
fn is_coherent(contents: &Contents) -> Result<(), TarballError> {
    contents.package_json()?.verify(&PackageName::parse("lib").unwrap(), &Version::parse("1.0.0").unwrap())
}

#[test]
fn files_are_counted() {
    let contents = inspect(&tarball("lib", "1.0.0", &[7; 1000])).unwrap();
    assert_eq!(contents.totals, Totals { files: 2, size: 1032 });
    assert_eq!(is_coherent(&contents), Ok(()));
    let folder = entry(EntryType::Directory, b"package/src/", b"");
    assert_eq!(with(&[folder, file("package/empty", b"")]).unwrap().totals, Totals { files: 2, size: 32 });
}

#[test]
fn compressed_files_are_read() {
    let tar = [manifest(), file("package/a", &[1; 100_000]), END.into()].concat();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&tar).unwrap();
    assert_eq!(inspect(&encoder.finish().unwrap()).unwrap().totals.size, 100_032);
}

#[test]
fn long_names_of_each_kind_are_read() {
    let long = format!("package/{}/package.json", "x".repeat(300));
    let pax = records(&[("mtime", "1.5"), ("path", &long), ("size", "2"), ("SCHILY.dev", "7"), ("uname", "a")]);
    let gnu = entry(EntryType::GNULongName, b"././@LongLink", format!("{long}\0").as_bytes());
    let comment = entry(EntryType::XGlobalHeader, b"pax_global_header", record("comment", "0123").as_bytes());
    // With the short name alone, it would be the manifest.
    let short = file("package/package.json", b"{}");
    for extension in [vec![pax.clone()], vec![gnu], vec![comment, pax]] {
        let contents = with(&[extension.concat(), short.clone()]).unwrap();
        assert_eq!((is_coherent(&contents), contents.totals.files), (Ok(()), 2));
    }
}

#[test]
fn there_is_one_manifest() {
    let other = br#"{"name":"other","version":"1.0.0"}"#;
    for elsewhere in ["package/src/package.json", "package/package.jsonx", "package/xpackage.json"] {
        assert_eq!(is_coherent(&with(&[file(elsewhere, other)]).unwrap()), Ok(()), "{elsewhere}");
    }
    for second in [
        "package/package.json",
        "x/package.json",
        "./package.json",
        "package/./package.json",
        "./package/package.json",
        "package\\package.json",
        "package/package.json/",
        "package/Package.json",
        "package/PACKAGE.JSON",
        "package/pac\u{212a}age.json",
        "package/package.json.",
        "package/package.json ",
        "package/package.json::$DATA",
        "package/PACKAG~1.JSO",
        "package/package.json/x",
        "Package/package.json",
        "package.json",
        "package",
    ] {
        for entry in [file(second, other), [records(&[("path", second)]), file("package/x", other)].concat()] {
            assert!(matches!(with(&[entry]), Err(TarballError::Entry(name, _)) if name == second), "{second}");
        }
    }
    let none = inspect(&gzip(&[file("package/Package.json", other), END.into()].concat())).unwrap();
    assert_eq!(is_coherent(&none).unwrap_err().to_string(), "package.json not found");
    let elsewhere = br#"{"name":"lib","version":"1.0.0"}"#;
    let other_top = inspect(&gzip(&[file("lib-1.0.0/package.json", elsewhere), END.into()].concat())).unwrap();
    assert_eq!(is_coherent(&other_top), Ok(()), "any top-level folder");
}

#[test]
fn the_manifest_must_be_of_the_version() {
    let of = |text: &str| is_coherent(&with_manifest(text).unwrap());
    for text in [
        r#"{"version":"1.0.0","name":"lib","x":{"name":"other"}}"#,
        r#"{"name":"lib","version":"v1.0.0"}"#,
        r#"{"name":" lib ","version":" =1.0.0+build.7 "}"#,
        r#"{"name":"lib","name":"lib","version":"1.0.0","x":1,"x":2}"#,
        "\u{feff}{\"name\":\"lib\",\"version\":\"1.0.0\"}\n",
        r#"{"n\u0061me":"lib","version":"1.0.0"}"#,
        r#"{"name":"lib","version":"01.0.0"}"#,
    ] {
        assert_eq!(of(text), Ok(()), "{text}");
    }
    for text in [
        r#"{"name":"lib","version":"1.0.1"}"#,
        r#"{"name":"lib","version":"1.0.0-rc.1"}"#,
        r#"{"name":"lib","version":"1.0"}"#,
        r#"{"name":"lib","version":1}"#,
        r#"{"name":"Lib","version":"1.0.0"}"#,
        r#"{"name":["lib"],"version":"1.0.0"}"#,
        "{}",
    ] {
        assert!(matches!(of(text), Err(TarballError::Incoherent(..))), "{text}");
    }
    for text in ["", "[]", "null", "{", r#"{"name":"lib","version":"1.0.0"}x"#, &"[".repeat(100_000)] {
        assert_eq!(of(text), Err(TarballError::ManifestUnreadable), "{text:.20}");
    }
    for text in [r#"{"name":"other","name":"lib","version":"1.0.0"}"#, r#"{"name":"lib","n\u0061me":"x"}"#] {
        assert_eq!(of(text), Err(TarballError::ManifestAmbiguous("name".into())), "{text}");
    }
    for text in [
        r#"{"name":"lib","version":"1.0.0","__proto__":{"scripts":{"install":"evil"}}}"#,
        r#"{"name":"lib","version":"1.0.0","__pr\u006fto__":null}"#,
    ] {
        assert_eq!(of(text), Err(TarballError::ManifestPrototype), "{text}");
    }
    assert_eq!(
        of(r#"{"version":"1.0.1"}"#).unwrap_err().to_string(),
        "Package manifest is not coherent: package.json in the attachment has name nothing and version \"1.0.1\", \
         published is lib@1.0.0"
    );
    let large = " ".repeat((4 << 20) + 1);
    assert_eq!(with_manifest(&large), Err(TarballError::ManifestTooLarge((4 << 20) + 1)));
}

#[test]
fn entries_outside_the_package_are_refused() {
    for (name, why) in [
        ("../x", "leads out of the package"),
        ("package/../../x", "leads out of the package"),
        ("package/..", "leads out of the package"),
        ("package\\..\\..\\x", "has a backslash in its name"),
        ("/etc/passwd", "is absolute or has an empty name"),
        ("package//etc/passwd", "is absolute or has an empty name"),
        ("\\\\host\\share", "has a backslash in its name"),
        ("C:/x", "names a drive"),
        ("package/././x", "has the name `.`"),
        ("package/./package.json", "has the name `.`"),
        ("package/c:x", "names a drive"),
        ("", "is absolute or has an empty name"),
    ] {
        let refused = Err(TarballError::Entry(name.into(), why));
        if !name.is_empty() {
            assert_eq!(with(&[file(name, b"x")]), refused);
        }
        assert_eq!(with(&[records(&[("path", name)]), file("package/a", b"x")]), refused);
        let long = entry(EntryType::GNULongName, b"././@LongLink", name.as_bytes());
        assert_eq!(with(&[long, file("package/a", b"x")]), refused);
    }
    let nul = with(&[records(&[("path", "package/a\0/../b")]), file("package/a", b"x")]);
    assert_eq!(nul, Err(TarballError::Entry("package/a\0/../b".into(), "has a NUL in its name")));
    for valid in ["package/..x", "package/x..", "package/ab:c", "package/é"] {
        assert!(with(&[file(valid, b"x")]).is_ok(), "{valid}");
    }
}

/// Versions 7 and 8 of pnpm pack such archives if `main` begins with `./`.
#[test]
fn a_file_may_be_there_as_in_main_if_its_contents_are_the_same() {
    let file_of = |name: &str, content: &[u8]| file(&format!("package/{name}"), content);
    let accepted = with(&[file_of("./dist/a", b"ab"), file_of("dist/a", b"ab"), file_of("dist/b", b"c")]);
    assert_eq!(accepted.unwrap().totals, Totals { files: 3, size: 35 });
    let empty = with(&[file_of("./a", b""), file_of("./a", b""), file_of("a", b"")]);
    assert_eq!(empty.unwrap().totals, Totals { files: 2, size: 32 });
    assert!(with(&[file_of("./binding.gyp", b"{}")]).unwrap().has_gyp_file);
    for (parts, path, why) in [
        (vec![file_of("./a", b"x"), file_of("a", b"y")], "a", "is there twice, with different contents"),
        (vec![file_of("./a", b"x"), file_of("a", b"")], "a", "is there twice, with different contents"),
        (vec![file_of("./a", b""), file_of("./a", b"x")], "a", "is there twice, with different contents"),
        // The contents of a file with a usual name are not recorded.
        (vec![file_of("a", b"x"), file_of("./a", b"x")], "package/./a", "is there twice"),
        (vec![file_of("a", b"x"), file_of("a", b"x")], "package/a", "is there twice"),
        (vec![file_of("./a", b"x"), entry(EntryType::Directory, b"package/a/", b"")], "package/a/", "is there twice"),
        (vec![entry(EntryType::Directory, b"package/./a/", b"")], "package/./a/", "has the name `.`"),
        (vec![entry(EntryType::Symlink, b"package/./a", b"")], "package/./a", "is a link that has the name `.`"),
    ] {
        assert_eq!(with(&parts), Err(TarballError::Entry(path.into(), why)), "{path}: {why}");
    }
}

#[test]
fn other_entry_types_are_refused() {
    for (kind, why) in [
        (EntryType::Char, "is neither a file, a folder nor a link"),
        (EntryType::Block, "is neither a file, a folder nor a link"),
        (EntryType::Fifo, "is neither a file, a folder nor a link"),
        (EntryType::GNUSparse, "is neither a file, a folder nor a link"),
        (EntryType::Continuous, "is neither a file, a folder nor a link"),
        (EntryType::new(b'X'), "is neither a file, a folder nor a link"),
        (EntryType::new(b'Z'), "is neither a file, a folder nor a link"),
    ] {
        assert_eq!(
            with(&[entry(kind, b"package/a", b"")]),
            Err(TarballError::Entry("package/a".into(), why)),
            "{kind:?}"
        );
    }
    let filled = with(&[entry(EntryType::Directory, b"package/a", b"x")]);
    assert_eq!(filled, Err(TarballError::Entry("package/a".into(), "is a folder with contents of its own")));
    for content in [&b""[..], b"x"] {
        let refused = Err(TarballError::Entry("package/a/".into(), "is a file with the name of a folder"));
        assert_eq!(with(&[file("package/a/", content)]), refused);
    }
}

#[test]
fn links_stay_in_the_package() {
    let to = |kind, target: &str| with(&[records(&[("linkpath", target)]), entry(kind, b"package/a/link", b"")]);
    for kind in [EntryType::Symlink, EntryType::Link] {
        for target in ["index.js", "b/c", "./b", "b/"] {
            assert!(to(kind, target).is_ok(), "{target}");
        }
        for target in ["../b", "b/../../../x", "..", "/etc/passwd", "C:/x", "b\\..\\..", "b\\c", "", "b\0", "b//c"] {
            let refused =
                TarballError::Entry("package/a/link".into(), "is a link that is absolute or goes through `..`");
            assert_eq!(to(kind, target), Err(refused.clone()), "{target}");
            let long = entry(EntryType::GNULongLink, b"././@LongLink", format!("{target}\0").as_bytes());
            assert_eq!(with(&[long, entry(kind, b"package/a/link", b"")]), Err(refused), "{target}");
        }
        let refused = |name: &str, why| Err(TarballError::Entry(name.into(), why));
        let why = "is a link to the package's folder, its own one or package.json";
        for target in [".", "./", "././", "package", "package/", "./package", "package/package.json"] {
            assert_eq!(to(kind, target), refused("package/a/link", why), "{target}");
        }
        for target in ["package.json", "./package.json", "Package.JSON", "package", ".", "PACKAG~1.JSO"] {
            let link = [records(&[("linkpath", target)]), entry(kind, b"package/link", b"")];
            assert_eq!(with(&link), refused("package/link", why), "{target}");
        }
        let below = [records(&[("linkpath", "b")]), entry(kind, b"package/a", b""), file("package/a/x", b"x")];
        assert_eq!(with(&below), refused("package/a/x", "is below a file or a link"));
        let replaced = [file("package/b", b"x"), records(&[("linkpath", "c")]), entry(kind, b"package/b", b"")];
        assert_eq!(with(&replaced), refused("package/b", "is there twice"));
        let top = inspect(&gzip(&[records(&[("linkpath", "b")]), entry(kind, b"package", b"")].concat()));
        assert_eq!(top, refused("package", "is not in a folder"));
        let filled = entry(kind, b"package/a", b"x");
        assert_eq!(with(&[filled]), refused("package/a", "is a link with contents of its own"));
        for name in ["package/package.json", "package/Package.json"] {
            let manifest = [records(&[("linkpath", "x")]), entry(kind, name.as_bytes(), b"")];
            assert_eq!(inspect(&gzip(&manifest.concat())), refused(name, "is a link"));
        }
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b"x"[..], b"just text that is longer than a header", b"PK\x03\x04", &[0x1f, 0x8b, 7, 0]] {
        assert!(matches!(inspect(bytes), Err(TarballError::Gzip(_))), "{bytes:?}");
    }
    let valid = tarball("lib", "1.0.0", b"x");
    for length in 1..valid.len() {
        assert!(matches!(inspect(&valid[..length]), Err(TarballError::Gzip(_))), "the first {length} bytes");
    }
    let mut damaged = valid.clone();
    damaged[900] ^= 1;
    assert!(inspect(&damaged).is_err());
    for (tar, why) in [
        (vec![], "it has no entries"),
        (END.to_vec(), "it has no entries"),
        (b"text".to_vec(), "it is cut off"),
        (vec![b'x'; 600], "the checksum of a header is wrong"),
        (manifest()[..520].to_vec(), "it is cut off"),
        (manifest()[..1000].to_vec(), "it is cut off"),
        ([manifest(), vec![1; 3]].concat(), "it is cut off"),
        ([manifest(), records(&[("path", "x/y")])].concat(), "it is cut off"),
    ] {
        assert_eq!(inspect(&gzip(&tar)), Err(TarballError::Archive(why)));
    }
    assert!(inspect(&gzip(&manifest())).is_ok(), "the marks of the end may be missing");
}

#[test]
fn bombs_are_not_unpacked() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&manifest()).unwrap();
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..9].copy_from_slice(b"package/a");
    header.set_size(1 << 25);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    encoder.write_all(&vec![0; 1 << 25]).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 16);
    assert_eq!(inspect(&bomb), Err(TarballError::UnpackedTooLarge(1 << 24)));

    let folder = entry(EntryType::Directory, b"package/a", b"");
    let mut inspector = TarballInspector::new(TarballLimits { unpacked: u64::MAX, entries: 100_000 });
    inspector.feed(&gzip(&folder.repeat(100_001)));
    assert_eq!(inspector.finish(), Err(TarballError::TooManyEntries(100_000)));

    // Each name is in a hundred new folders.
    let mut inspector = TarballInspector::new(TarballLimits { unpacked: u64::MAX, entries: 100_000 });
    let deep = (0..2100).map(|n| records(&[("path", &format!("package/{n}{}", "/x".repeat(100)))]));
    let deep: Vec<Vec<u8>> = deep.map(|records| [records, file("package/x", b"")].concat()).collect();
    inspector.feed(&gzip(&deep.concat()));
    assert_eq!(inspector.finish(), Err(TarballError::TooManyEntries(100_000)));
}
