//! Several publishers at the same moment.

use super::*;
use std::sync::{Arc, Barrier};

fn server() -> (Server, tempfile::TempDir) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    (server, data)
}

/// Runs `publishers` at the same moment, and collects their results in order.
fn at_once<T: Send + 'static>(publishers: Vec<impl FnOnce() -> T + Send + 'static>) -> Vec<T> {
    let start = Arc::new(Barrier::new(publishers.len()));
    let threads: Vec<_> = publishers
        .into_iter()
        .map(|publish| {
            let start = start.clone();
            std::thread::spawn(move || {
                start.wait();
                publish()
            })
        })
        .collect();
    threads.into_iter().map(|thread| join(thread, "the end of a publisher")).collect()
}

#[test]
fn of_ten_publishers_of_one_version_exactly_one_wins_and_its_bytes_are_served() {
    let (server, _data) = server();
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let tarballs: Vec<Vec<u8>> = (0..10).map(|seed| package::tarball("one", "1.0.0", 50_000, seed)).collect();
    let publishers = tarballs
        .iter()
        .cloned()
        .map(|tarball| {
            let registry = registry.clone();
            move || registry.publish("one", "1.0.0", &tarball).expect("an answer")
        })
        .collect();
    let answers = at_once(publishers);
    let winners: Vec<usize> = (0..10).filter(|n| answers[*n].status == 200).collect();
    assert_eq!(winners.len(), 1, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    for (n, answer) in answers.iter().enumerate().filter(|(n, _)| *n != winners[0]) {
        assert_eq!((answer.status, answer.json()["error"].as_str()), (403, Some("Package already exists.")), "{n}");
    }
    let served = registry.get("/one/-/one-1.0.0.tgz").expect("an answer");
    assert!(served.body == tarballs[winners[0]], "another publisher's bytes are served");
}

#[test]
fn fifty_versions_published_at_once_are_all_there() {
    let (server, _data) = server();
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let publishers = (0..50)
        .map(|n| {
            let registry = registry.clone();
            move || {
                let version = format!("1.0.{n}");
                let tarball = package::tarball("many", &version, 10_000, n);
                registry.publish("many", &version, &tarball).expect("an answer").status
            }
        })
        .collect();
    assert_eq!(at_once(publishers), vec![200; 50]);
    let metadata = registry.get("/many").expect("an answer").json();
    assert_eq!(metadata["versions"].as_object().expect("versions").len(), 50);
    assert_eq!(metadata["time"].as_object().expect("times").len(), 52, "each version, created and modified");
}

#[test]
fn an_identical_retry_succeeds_and_another_tarball_is_refused() {
    let (server, _data) = server();
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let tarball = package::tarball("again", "1.0.0", 10_000, 1);
    for _ in 0..2 {
        assert_eq!(registry.publish("again", "1.0.0", &tarball).expect("an answer").status, 200);
    }
    let other = package::tarball("again", "1.0.0", 10_000, 2);
    assert_eq!(registry.publish("again", "1.0.0", &other).expect("an answer").status, 403);
}
