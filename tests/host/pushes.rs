//! Pushes by git: of several branches, at the same moment, and to a host that is killed.

use super::*;
use hexad_tests::forge::{MAINTAINER, PRIVATE};
use hexad_tests::repository::{Repository, git};
use hexad_tests::suggestions::Suggestions;
use std::sync::Barrier;

const ROUNDS: usize = 3;
const PUSHERS: usize = 3;
/// Acknowledged pushes in a round before the process is killed.
const UNTIL_KILLED: usize = 6;

fn url(server: &Server) -> String {
    Suggestions::new(server, PRIVATE, MAINTAINER).clone_url()
}

/// A server with a repository whose `main` has one commit.
fn server(data: &std::path::Path) -> (Server, Repository) {
    let server = Server::start(data);
    forge::seed(&server);
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    repository.git(&["push", "-q", &url(&server), "main"]);
    (server, repository)
}

#[test]
fn an_atomic_push_moves_all_refs_or_none() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (server, repository) = server(data.path());
    let url = url(&server);
    repository.write("b", b"b\n");
    repository.commit("second");
    repository.git(&["push", "-q", "--atomic", &url, "topic", "topic:main"]);
    let before = repository.text(&["ls-remote", &url]);
    repository.write("b", b"c\n");
    repository.commit("third");
    let refused = git(repository.path(), &["push", "--atomic", &url, "topic", "topic:topic/x"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("atomic push failure"), "{why}");
    assert_eq!(repository.text(&["ls-remote", &url]), before);
    Repository::clone(&url);
}

#[test]
fn of_two_pushes_of_one_branch_at_once_one_wins_and_the_other_is_told() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (server, repository) = server(data.path());
    let url = url(&server);
    for round in 0..5 {
        let clones = [0, 1].map(|number| {
            let clone = Repository::clone(&url);
            clone.write("a.txt", format!("{round} {number}\n").as_bytes());
            clone.commit("next");
            clone
        });
        let barrier = Barrier::new(clones.len());
        let push = |clone: &Repository| {
            barrier.wait();
            git(clone.path(), &["push", "origin", "HEAD:main"])
        };
        let pushed: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = clones.iter().map(|clone| scope.spawn(|| push(clone))).collect();
            threads.into_iter().map(|thread| thread.join().expect("git ran")).collect()
        });
        assert_eq!(pushed.iter().filter(|output| output.status.success()).count(), 1);
        let loser = pushed.iter().find(|output| !output.status.success()).expect("one lost");
        let why = String::from_utf8_lossy(&loser.stderr);
        assert!(why.contains("rejected"), "{why}");
        let head = repository.text(&["ls-remote", &url, "refs/heads/main"]);
        let winner = clones.iter().zip(&pushed).find(|(_, output)| output.status.success()).expect("one won").0;
        assert!(head.starts_with(&winner.text(&["rev-parse", "HEAD"])));
    }
    Repository::clone(&url);
}

#[test]
fn of_a_branch_and_a_folder_of_its_name_at_once_one_is_made() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (server, repository) = server(data.path());
    let url = url(&server);
    let clones = [0, 1].map(|_| Repository::clone(&url));
    for round in 0..30 {
        let names = [format!("refs/heads/r{round}"), format!("refs/heads/r{round}/inner")];
        let barrier = Barrier::new(clones.len());
        let push = |clone: &Repository, name: &str| {
            barrier.wait();
            git(clone.path(), &["push", "origin", &format!("HEAD:{name}")])
        };
        let pushed: Vec<_> = std::thread::scope(|scope| {
            let pairs = clones.iter().zip(&names);
            let threads: Vec<_> = pairs.map(|(clone, name)| scope.spawn(|| push(clone, name))).collect();
            threads.into_iter().map(|thread| thread.join().expect("git ran")).collect()
        });
        let listed = repository.text(&["ls-remote", &url, &format!("refs/heads/r{round}*")]);
        let made: Vec<bool> = names.iter().map(|name| listed.lines().any(|line| line.ends_with(name))).collect();
        let told: Vec<bool> = pushed.iter().map(|output| output.status.success()).collect();
        let why: Vec<_> = pushed.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
        assert_eq!(made, told, "round {round}: {listed} {why:?}");
        assert_eq!(made.iter().filter(|is_made| **is_made).count(), 1, "round {round}: {listed} {why:?}");
        assert!(why.iter().any(|why| why.contains("cannot lock ref")), "{why:?}");
    }
    // `clone` checks with `git fsck --full --strict`.
    Repository::clone(&url);
}

/// Pushes commits to one's own branches, two at a time and together, until the connection breaks.
fn push_on(url: &str, round: usize, pusher: usize, done: &mpsc::Sender<(String, String)>) {
    let clone = Repository::clone(url);
    let branch = format!("by-{pusher}");
    for number in 0.. {
        clone.write(&format!("file-{pusher}"), format!("{round} {number}\n").repeat(2_000).as_bytes());
        let head = clone.commit("next");
        let refs = [format!("+HEAD:{branch}"), format!("+HEAD:{branch}-copy")];
        let pushed = git(clone.path(), &["push", "-q", "--atomic", "origin", &refs[0], &refs[1]]);
        if !pushed.status.success() || done.send((branch.clone(), head)).is_err() {
            return;
        }
    }
}

#[test]
fn pushes_survive_kill_9_and_leave_nothing_half_done() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (mut server, _repository) = server(data.path());
    for round in 0..ROUNDS {
        let (done, seen) = mpsc::channel();
        let address = url(&server);
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                let (address, done) = (address.clone(), done.clone());
                std::thread::spawn(move || push_on(&address, round, pusher, &done))
            })
            .collect();
        drop(done);
        let mut acknowledged: BTreeMap<String, String> = seen.iter().take(UNTIL_KILLED).collect();
        server.kill();
        acknowledged.extend(seen.iter());
        pushers.into_iter().for_each(|pusher| join(pusher, "the end of a pusher"));
        server = Server::start(data.path());
        // `clone` checks with `git fsck --full --strict`.
        let clone = Repository::clone(&url(&server));
        for (branch, head) in &acknowledged {
            let contains = ["merge-base", "--is-ancestor", head, &format!("origin/{branch}")].map(str::to_owned);
            let contains: Vec<&str> = contains.iter().map(String::as_str).collect();
            assert!(git(clone.path(), &contains).status.success(), "{branch} lacks {head}, which was acknowledged");
        }
        for pusher in 0..PUSHERS {
            let both = [format!("origin/by-{pusher}"), format!("origin/by-{pusher}-copy")];
            let heads = both.map(|name| git(clone.path(), &["rev-parse", "-q", "--verify", &name]).stdout);
            assert_eq!(heads[0], heads[1], "both branches of a push were moved, or none");
        }
    }
}

#[test]
fn compressed_requests_are_read_by_the_shipped_component() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let (server, repository) = server(data.path());
    let head = repository.text(&["rev-parse", "main"]);
    let send = |service: &str, body: &[u8]| {
        let address = format!("{}/api/v4/projects/{PRIVATE}/repository.git/{service}", server.url);
        let request =
            http::agent().post(address).header("private-token", MAINTAINER).header("content-encoding", "gzip");
        http::read(request.send(&gzip(body)[..]).expect("an answer")).expect("an answer")
    };
    let zeros = "0".repeat(40);
    let command = format!("{zeros} {head} refs/heads/by-gzip\0 report-status");
    let mut push = format!("{:04x}{command}0000", command.len() + 4).into_bytes();
    // A pack without objects.
    push.extend_from_slice(
        b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e",
    );
    let pushed = send("git-receive-pack", &push);
    assert!(pushed.status == 200 && pushed.text().contains("ok refs/heads/by-gzip"), "{}", pushed.text());
    send("git-upload-pack", format!("0032want {head}\n00000009done\n").as_bytes()).expect(200);
    assert_eq!(send("git-upload-pack", &vec![b'0'; 9 << 20]).status, 413);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
