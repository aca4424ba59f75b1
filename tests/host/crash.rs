//! The host is killed during publishes. Afterwards, every acknowledged version is there, byte for byte, and every
//! visible version can be installed.

use super::*;

const ROUNDS: u64 = 4;
const PUBLISHERS: u64 = 4;
/// Acknowledged publishes in a round before the process is killed.
const UNTIL_KILLED: usize = 12;
/// Large enough for several chunks, so that a kill falls between them too.
const SIZE: usize = 2_500_000;

/// A version that was acknowledged, and the SHA-1 of its tarball.
type Acknowledged = BTreeMap<(String, String), String>;

#[test]
fn acknowledged_versions_survive_kill_9_and_nothing_half_published_is_visible() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut acknowledged = Acknowledged::new();
    let mut server = Server::start(data.path());
    forge::seed(&server);
    for round in 0..ROUNDS {
        publish_until_killed(server, round, &mut acknowledged);
        server = Server::start(data.path());
        verify(&Registry::new(&server, PUBLIC, DEVELOPER), &acknowledged);
    }
    assert!(acknowledged.len() >= (ROUNDS as usize) * UNTIL_KILLED);
}

fn publish_until_killed(server: Server, round: u64, acknowledged: &mut Acknowledged) {
    let (done, seen) = mpsc::channel();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let registry = Registry::new(&server, PUBLIC, DEVELOPER);
            let done = done.clone();
            std::thread::spawn(move || {
                // Two of the publishers share a package, so that they race for its root.
                let name = format!("crash-{}", publisher / 2);
                for serial in 0.. {
                    let version = format!("{round}.{publisher}.{serial}");
                    let tarball = package::tarball(&name, &version, SIZE, round * 1000 + publisher * 100 + serial);
                    let Ok(answer) = registry.publish(&name, &version, &tarball) else { return };
                    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
                    if done.send(((name.clone(), version), package::shasum(&tarball))).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    drop(done);
    acknowledged.extend(seen.iter().take(UNTIL_KILLED));
    server.kill();
    // Publishes that were answered before the kill and not yet counted were acknowledged as well.
    acknowledged.extend(seen.iter());
    publishers.into_iter().for_each(|publisher| join(publisher, "the end of a publisher"));
}

fn verify(registry: &Registry, acknowledged: &Acknowledged) {
    let names: std::collections::BTreeSet<&String> = acknowledged.keys().map(|(name, _)| name).collect();
    let mut listed = BTreeMap::new();
    for name in names {
        let metadata = registry.get(&format!("/{name}")).expect("an answer").json();
        for (version, record) in metadata["versions"].as_object().expect("versions") {
            let tarball = registry.fetch(record["dist"]["tarball"].as_str().expect("a URL")).expect("an answer");
            assert_eq!(tarball.status, 200, "{name} {version} is listed and cannot be downloaded");
            let shasum = package::shasum(&tarball.body);
            assert_eq!(record["dist"]["shasum"], shasum, "{name} {version} has other bytes than its record says");
            listed.insert((name.clone(), version.clone()), shasum);
        }
    }
    for (version, shasum) in acknowledged {
        assert_eq!(listed.get(version), Some(shasum), "{version:?} was acknowledged");
    }
}
