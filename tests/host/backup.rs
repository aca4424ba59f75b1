//! A backup during publishes has every version that was acknowledged before it began, and no partial version.

use super::*;
use hexad_tests::compiled_code;
use hexad_tests::server::{output, program};
use std::sync::{Arc, Mutex};

const PUBLISHERS: u64 = 3;
/// Acknowledged publishes before the backup begins, and before the publishers end.
const BEFORE: usize = 10;
const AFTER: usize = 10;
/// Several chunks.
const SIZE: usize = 1_500_000;

#[test]
fn a_backup_during_publishes_has_every_version_that_was_acknowledged_before() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    // Only the data folder has this version of the registry.
    let swapped = variant("package-registry", 1);
    let served = |server: &Server| Operator::of(server).get("/components/package-registry").json()["digest"].clone();
    assert_eq!(Operator::of(&server).swap("package-registry", &swapped).status, 200);
    let digest = served(&server);
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let count = |wanted: usize| {
        let has_wanted = || acknowledged.lock().expect("no panic").len() >= wanted;
        wait_until(SOON, &format!("{wanted} publications"), has_wanted);
    };
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let (registry, acknowledged) = (Registry::new(&server, PUBLIC, DEVELOPER), acknowledged.clone());
            let stop = stop.clone();
            std::thread::spawn(move || {
                for serial in 0.. {
                    if stop.load(std::sync::atomic::Ordering::SeqCst) {
                        return;
                    }
                    let version = format!("{publisher}.0.{serial}");
                    let tarball = package::tarball("copied", &version, SIZE, publisher * 1000 + serial);
                    registry.publish("copied", &version, &tarball).expect("an answer").expect(200);
                    acknowledged.lock().expect("no panic").insert(version, package::shasum(&tarball));
                }
            })
        })
        .collect();
    count(BEFORE);
    let before = acknowledged.lock().expect("no panic").clone();
    let target = data.path().join("copy.db");
    let (folder, file) = (data.path().display().to_string(), target.display().to_string());
    let output = run(&["backup", "--data", &folder, &file], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let during = acknowledged.lock().expect("no panic").len();
    count(during + AFTER);
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    publishers.into_iter().for_each(|publisher| join(publisher, "the end of a publisher"));
    drop(server);

    let restored = tempfile::tempdir().expect("a temporary folder");
    std::fs::rename(&target, restored.path().join("sqlite_key_value.db")).expect("the backup is there");
    let folder = restored.path().display().to_string();
    let output = compiled_code::reuse(restored.path(), || run(&["fsck", "--data", &folder], &[]));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("0 problems"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let server = Server::start(restored.path());
    assert_eq!(served(&server), digest, "what was swapped in serves after a restore");
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let metadata = registry.get("/copied").expect("an answer").json();
    let all = acknowledged.lock().expect("no panic");
    let versions = metadata["versions"].as_object().expect("versions");
    for (version, shasum) in &before {
        assert!(versions.contains_key(version), "{version} was acknowledged before the backup began");
        assert_eq!(all[version], *shasum);
    }
    for (version, record) in versions {
        let tarball = registry.fetch(record["dist"]["tarball"].as_str().expect("a URL")).expect("an answer");
        let found = (tarball.status, record["dist"]["shasum"].as_str());
        assert_eq!(found, (200, Some(package::shasum(&tarball.body).as_str())), "{version}");
    }
    let again = registry.publish("copied", "9.0.0", &package::tarball("copied", "9.0.0", 100, 1)).expect("an answer");
    assert_eq!(again.status, 200, "the copy is a store like any other");
}

#[test]
fn names_that_look_like_urls_are_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hexad = |arguments: &[&str]| {
        let output = output(std::process::Command::new(program()).current_dir(folder.path()).args(arguments));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    drop(Server::start(&folder.path().join("file:data")));
    hexad(&["backup", "--data", "file:data", "file:copy.db"]);
    std::fs::create_dir(folder.path().join("file:restored")).expect("a folder");
    let copy = folder.path().join("file:copy.db");
    assert!(copy.metadata().expect("the backup is there").len() > 0);
    std::fs::rename(copy, folder.path().join("file:restored/sqlite_key_value.db")).expect("it can be moved");
    let manifest = root().join("spin.toml").display().to_string();
    compiled_code::reuse(&folder.path().join("file:restored"), || {
        hexad(&["fsck", "--data", "file:restored", "--manifest", &manifest]);
    });
}
