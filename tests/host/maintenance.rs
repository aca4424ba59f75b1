//! `hexad gc` and `hexad fsck`, on a server and on a folder.

use super::*;
use hexad_tests::server::output;
use std::process::Output;

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A store with two versions of `lib`, and garbage from long ago.
fn store(data: &Path) -> Vec<u8> {
    let server = Server::start(data);
    forge::seed(&server);
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let tarball = package::tarball("lib", "1.0.0", 1_500_000, 1);
    assert_eq!(registry.publish("lib", "1.0.0", &tarball).expect("an answer").status, 200);
    let second = package::tarball("lib", "1.1.0", 1000, 2);
    assert_eq!(registry.publish("lib", "1.1.0", &second).expect("an answer").status, 200);
    assert_eq!(server.stop(), Some(0));
    let database = rusqlite::Connection::open(data.join("sqlite_key_value.db")).expect("the store");
    // An upload of the year 2020 whose publisher never finished.
    for number in 0..3 {
        let key = format!("package-registry/v1/upload/016f5e66e80000000000000000000001/{number}");
        database.execute("INSERT INTO spin_key_value VALUES ('default', ?1, zeroblob(1000000))", [key]).expect("a row");
    }
    tarball
}

#[test]
fn garbage_is_removed_from_a_running_server_and_published_files_stay() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let tarball = store(data.path());
    let server = Server::start(data.path());
    let environment = [("HEXAD_URL", server.url.as_str()), ("HEXAD_TOKEN", BOOTSTRAP_TOKEN)];
    for (arguments, expected) in [
        (&["gc", "--dry-run"][..], "package-registry: garbage: 3 of "),
        (&["gc", "--no-wait"], "package-registry: removed: 3 of "),
        (&["gc", "--no-wait"], "package-registry: removed: 0 of "),
        (&["fsck"], "package-registry: 1 root and 1.5 MiB of files checked, 0 problems"),
    ] {
        let output = run(arguments, &environment);
        let text = printed(&output);
        assert!(output.status.success() && text.contains(expected), "{arguments:?}: {text}");
    }
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    assert!(registry.get("/lib/-/lib-1.0.0.tgz").expect("an answer").body == tarball);
    let refused = run(&["gc"], &[("HEXAD_URL", server.url.as_str()), ("HEXAD_TOKEN", DEVELOPER)]);
    assert!(!refused.status.success() && printed(&refused).contains("administrator"), "{}", printed(&refused));
}

#[test]
fn damage_is_named_and_makes_the_check_fail() {
    let data = tempfile::tempdir().expect("a temporary folder");
    store(data.path());
    let folder = data.path().display().to_string();
    let sound = run(&["fsck", "--data", &folder], &[]);
    let text = printed(&sound);
    assert!(sound.status.success() && text.contains("store: every page is sound"), "{text}");
    assert!(text.contains("3 keys of garbage, 2.9 MiB"), "{text}");

    let database = rusqlite::Connection::open(data.path().join("sqlite_key_value.db")).expect("the store");
    let chunk = "UPDATE spin_key_value SET value = zeroblob(length(value)) WHERE key LIKE 'package-registry/v1/upload/%/1' AND key NOT LIKE '%/016f5e66e8%'";
    assert_eq!(database.execute(chunk, []).expect("a row"), 1);
    drop(database);
    let damaged = run(&["fsck", "--data", &folder], &[]);
    let text = printed(&damaged);
    assert_eq!(damaged.status.code(), Some(1), "{text}");
    assert!(text.contains("package-registry/v1/package/7/lib: version 1.0.0: "), "{text}");
    assert!(text.contains("its checksum differs") && text.contains("1 problem found"), "{text}");
}

#[test]
fn a_damaged_index_of_versions_is_an_error_and_frees_no_version() {
    let data = tempfile::tempdir().expect("a temporary folder");
    store(data.path());
    let database = rusqlite::Connection::open(data.path().join("sqlite_key_value.db")).expect("the store");
    let halve = "UPDATE spin_key_value SET value = substr(value, 1, length(value) / 2) WHERE key LIKE 'package-registry/v1/segment/%/index'";
    // The second publish has merged the segment of the first.
    assert_eq!(database.execute(halve, []).expect("rows"), 2);
    drop(database);
    let server = Server::start(data.path());
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        let other = package::tarball("lib", version, 1000, 3);
        assert_eq!(registry.publish("lib", version, &other).expect("an answer").status, 500, "{version}");
    }
    assert_eq!(registry.get("/lib/-/lib-1.1.0.tgz").expect("an answer").status, 500);
    let fsck = run(&["fsck"], &[("HEXAD_URL", server.url.as_str()), ("HEXAD_TOKEN", BOOTSTRAP_TOKEN)]);
    let text = printed(&fsck);
    assert!(!fsck.status.success() && text.contains("/index`: its checksum differs"), "{text}");
    // Other packages are published.
    let other = package::tarball("other", "1.0.0", 1000, 4);
    assert_eq!(registry.publish("other", "1.0.0", &other).expect("an answer").status, 200);
}

/// The names and contents of a data folder's deployed components and audit log.
fn deployed(data: &Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(data.join("components")).expect("a folder").map(|file| file.expect("a file").path());
    let files = files.chain([data.join("audit.ndjson")]);
    let mut files: Vec<_> =
        files.map(|path| (path.display().to_string(), std::fs::read(&path).expect("a file"))).collect();
    files.sort();
    files
}

#[test]
fn maintenance_commands_leave_the_deployed_version_unchanged() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let digest = |server: &Server| Operator::of(server).get("/components/experiments").json()["digest"].clone();
    let server = Server::start(data.path());
    assert_eq!(Operator::of(&server).swap("experiments", &variant("experiments", 1)).status, 200);
    let swapped_in = digest(&server);
    assert_eq!(server.stop(), Some(0));
    let before = deployed(data.path());

    // The manifest of a later checkout, with another source.
    let later = tempfile::tempdir().expect("a temporary folder");
    let source = later.path().join("experiments.wasm");
    std::fs::write(&source, variant("experiments", 2)).expect("a file");
    let manifest = std::fs::read_to_string(root().join("spin.toml")).expect("the manifest");
    let manifest = manifest.replace("dist/experiments.wasm", &source.display().to_string());
    let manifest = manifest.replace("\"dist/", &format!("\"{}/dist/", root().display()));
    let path = later.path().join("spin.toml");
    std::fs::write(&path, manifest).expect("a file");
    let (folder, path) = (data.path().display().to_string(), path.display().to_string());
    for command in [&["fsck"][..], &["gc", "--dry-run"], &["gc", "--no-wait"], &["repack"]] {
        let output = run(&[command, &["--data", &folder, "--manifest", &path]].concat(), &[]);
        assert!(output.status.success(), "{command:?}: {}", printed(&output));
        assert!(deployed(data.path()) == before, "{command:?}");
    }
    assert_eq!(digest(&Server::start(data.path())), swapped_in);
}

#[test]
fn a_folder_without_a_store_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("typo");
    let data = missing.to_str().expect("text");
    for command in ["gc", "repack", "fsck"] {
        let output = run(&[command, "--data", data], &[]);
        let text = printed(&output);
        assert!(!output.status.success() && text.contains("there is no store in"), "{command}: {text}");
        assert!(!missing.exists(), "{command}");
    }
    std::os::unix::fs::symlink(folder.path().join("away.db"), folder.path().join("sqlite_key_value.db"))
        .expect("a link");
    let output = output(&mut up(Path::new("spin.toml"), folder.path()));
    assert!(
        !output.status.success() && printed(&output).contains("link to a file that is away"),
        "{}",
        printed(&output)
    );
}
