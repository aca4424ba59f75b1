//! Programs that unpack packages find the same files in each archive that the registry accepts.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use hexad_tests::registry::Registry;
use std::collections::BTreeMap;
use std::io::Write as _;
use tar::{EntryType, Header};

/// Unpacks the file that is its first argument into the folder that is the second, with npm's own program.
const NODE_TAR: &str = "
    const npm = require('fs').realpathSync(process.argv[1]);
    const tar = require(require('path').resolve(npm, '../../node_modules/tar'));
    tar.x({ file: process.argv[2], cwd: process.argv[3], sync: process.argv[4] === 'sync', strict: true });
";

/// Bytes to write into a header, at these offsets.
type Patches<'a> = &'a [(usize, &'a [u8])];

fn entry(kind: EntryType, name: &str, content: &[u8], patches: Patches) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    for (at, bytes) in patches {
        header.as_mut_bytes()[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    header.set_cksum();
    let padding = vec![0; content.len().next_multiple_of(512) - content.len()];
    [header.as_bytes().as_slice(), content, &padding].concat()
}

fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let length = (rest.len()..).find(|length| length.to_string().len() + rest.len() == *length).expect("a length");
    format!("{length}{rest}").into_bytes()
}

fn manifest(name: &str, more: &str) -> Vec<u8> {
    format!(r#"{{"name":"{name}","version":"1.0.0","dependencies":{{"left":"^1.0.0"}}{more}}}"#).into_bytes()
}

/// The files that a program has unpacked into the package's folder.
fn files(folder: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = format!("{below}/{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            files(&path, &name, found);
        } else {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}

/// A number in a header, of a length that is not known before.
fn size(content: &[u8], before: &str, after: &str, digits: usize) -> Vec<u8> {
    format!("{before}{:0digits$o}{after}", content.len()).into_bytes()
}

/// An archive with a file whose content is an entry of another archive. A program that skips the file's header reads
/// that entry.
struct Variant {
    case: &'static str,
    /// Stands before the file.
    extension: Vec<u8>,
    /// Bytes of the file's header, at these offsets.
    patches: Vec<(usize, Vec<u8>)>,
    is_accepted: bool,
}

fn variants(hidden: &[u8]) -> Vec<Variant> {
    let extension = |kind, content: &[u8]| entry(kind, "extension", content, &[]);
    let none = Vec::new;
    let large = b"\x80\0\0\0\0\x7f\xff\xff".to_vec();
    let path = record("path", "package/a.txt");
    // Some versions of pnpm pack the file that `main` names like this.
    let dotted = |content: &[u8]| entry(EntryType::Regular, "package/./a.txt", content, &[]);
    let long = |length: usize| record("path", &format!("package/{}a", "\u{e9}/".repeat(length)));
    let variants = vec![
        ("plain", none(), vec![], true),
        ("of the oldest format", none(), vec![(257, vec![0; 8])], true),
        ("of GNU's format", none(), vec![(257, b"ustar  \0".to_vec())], true),
        ("a size with spaces", none(), vec![(124, size(hidden, "   ", " \0", 7))], true),
        ("no owner", none(), vec![(108, vec![0; 16])], true),
        ("an owner of eight digits", none(), vec![(108, b"7777777777777777".to_vec())], true),
        ("a large owner", none(), vec![(108, [large.clone(), large].concat())], true),
        ("a prefix", none(), vec![(0, b"a.txt\0\0\0\0\0\0\0\0".to_vec()), (345, b"package".to_vec())], true),
        ("two times", none(), vec![(476, b"00000000001\0 0000000001\0".to_vec())], true),
        ("a name in records", extension(EntryType::XHeader, &path), vec![], true),
        ("GNU's long name", extension(EntryType::GNULongName, b"package/a.txt\0"), vec![], true),
        ("the same file before it", dotted(hidden), vec![], true),
        ("another file before it", dotted(b"other"), vec![], false),
        ("a comment", extension(EntryType::XGlobalHeader, &record("comment", "x")), vec![], true),
        ("a name of other characters", extension(EntryType::XHeader, &long(120)), vec![], true),
        ("a name in pieces", extension(EntryType::XHeader, &long(200)), vec![], false),
        (
            "a folder's name of its own",
            extension(EntryType::XHeader, &path),
            vec![(0, b"package/dir/\0".to_vec())],
            false,
        ),
        ("a link's target", none(), vec![(157, b"x".to_vec())], false),
        ("records of a target", extension(EntryType::XHeader, &record("linkpath", "package/b")), vec![], false),
        ("GNU's target", extension(EntryType::GNULongLink, b"package/b\0"), vec![], false),
        ("a size after a line feed", none(), vec![(124, size(hidden, "\n", "\0", 10))], false),
        ("a size after a tab", none(), vec![(124, size(hidden, "\t", "\0", 10))], false),
        ("a huge owner", none(), vec![(108, b"\x80\xff\xff\xff\xff\xff\xff\xff".to_vec())], false),
        ("an owner in another form", none(), vec![(108, b"\x90\0\0\0\0\0\0\0".to_vec())], false),
        ("a mode in another form", none(), vec![(100, vec![0xc0; 8])], false),
        ("a huge time", none(), vec![(136, [vec![0x80], vec![0xff; 11]].concat())], false),
        ("a huge device", none(), vec![(329, [vec![0x80], vec![0xff; 7]].concat())], false),
        ("a huge time of access", none(), vec![(476, [vec![0x80], vec![0xff; 11]].concat())], false),
    ];
    let named = variants.into_iter();
    named.map(|(case, extension, patches, is_accepted)| Variant { case, extension, patches, is_accepted }).collect()
}

#[test]
fn programs_unpack_an_accepted_archive_alike() {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let registry = Registry::new(&server, PUBLIC, MAINTAINER);
    let has_bsdtar = Command::new("bsdtar").arg("--version").output().is_ok();
    let npm = Command::new("sh").args(["-c", "command -v npm"]).output().expect("a shell").stdout;
    let npm = String::from_utf8(npm).expect("a path").trim().to_owned();
    let hidden_manifest = manifest("hidden", r#","scripts":{"install":"hidden"}"#);
    let hidden = entry(EntryType::Regular, "package/package.json", &hidden_manifest, &[]);
    for (number, Variant { case, extension, patches, is_accepted }) in variants(&hidden).into_iter().enumerate() {
        let name = format!("archive-{number}");
        let manifest = manifest(&name, "");
        let patches: Vec<(usize, &[u8])> = patches.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
        let shown = entry(EntryType::Regular, "package/a.txt", &hidden, &patches);
        let manifest_entry = entry(EntryType::Regular, "package/package.json", &manifest, &[]);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&[manifest_entry, extension, shown, vec![0; 1024]].concat()).expect("memory");
        let file = encoder.finish().expect("memory");
        let answer = registry.publish(&name, "1.0.0", &file).expect("an answer");
        assert_eq!(answer.status, if is_accepted { 200 } else { 400 }, "{case}: {}", answer.text());
        if !is_accepted {
            continue;
        }
        let archive = machine.folder("").join(format!("{name}.tgz"));
        std::fs::write(&archive, &file).expect("a file");
        let archive = archive.display().to_string();
        let unpacked = |program: &str| {
            let folder = machine.folder(&format!("{name}/{program}"));
            let target = folder.display().to_string();
            let output = match program {
                "sync" | "async" => {
                    machine.run(&folder, "node", &["-e", NODE_TAR, npm.as_str(), &archive, &target, program])
                }
                // bsdtar converts names to the locale's encoding.
                program => {
                    let arguments = ["LC_ALL=C.UTF-8", program, "-xzf", &archive, "--no-same-owner", "-C", &target];
                    machine.run(&folder, "env", &arguments)
                }
            };
            output.ok();
            let mut found = BTreeMap::new();
            files(&folder, "", &mut found);
            found
        };
        let found = unpacked("sync");
        assert_eq!(found.get("/package/package.json"), Some(&manifest), "{case}");
        assert_eq!(found.len(), 2, "{case}: {:?}", found.keys());
        assert!(found.values().any(|content| *content == hidden), "{case}");
        for program in ["async", "tar"].into_iter().chain(has_bsdtar.then_some("bsdtar")) {
            assert!(unpacked(program) == found, "{case}: {program} finds other files than node-tar");
        }
    }
}
