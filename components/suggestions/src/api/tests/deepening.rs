//! `git fetch --deepen`, compared with git's own server.

use super::*;

/// A client of each server: of a bare repository of git, and of the forge in a version of the protocol.
struct Clients<'a> {
    forge: &'a Forge,
    bare: String,
    version: &'a str,
    of_git: Repository,
    of_forge: Repository,
}

impl Clients<'_> {
    fn fetch(&self, arguments: &[&str]) {
        let protocol = format!("protocol.version={}", self.version);
        let fetch = |url| [&["-c", &protocol, "fetch", "-q", url], arguments].concat();
        self.of_git.git(&fetch(&self.bare));
        self.forge.git(&self.of_forge, PUBLIC, "", &fetch("URL")).unwrap();
    }

    /// Both clients have the same. Returns how many commits these revisions reach.
    #[track_caller]
    fn count(&self, revisions: &[&str]) -> usize {
        let [git, forge] = [&self.of_git, &self.of_forge].map(|client| {
            client.git(&["fsck", "--full", "--strict"]);
            let history = client.text(&["log", "--all", "--topo-order", "--format=%H %P %D"]);
            let mut shallow: Vec<String> =
                std::fs::read_to_string(client.file(".git/shallow")).unwrap().lines().map(str::to_owned).collect();
            shallow.sort();
            (history, shallow)
        });
        assert_eq!(forge, git, "version {}", self.version);
        let count = self.of_forge.text(&[&["rev-list", "--count"], revisions].concat());
        count.parse().unwrap()
    }
}

const HEADS: &str = "+refs/heads/*:refs/remotes/o/*";

/// A history of so many commits on `main`, and both servers with it.
fn compare(commits: usize, steps: impl Fn(&Repository, &dyn Fn(&str), &Clients)) {
    for version in ["0", "2"] {
        let (forge, repository) = (Forge::new(), Repository::empty());
        let bare = Repository::empty();
        bare.git(&["init", "-q", "--bare", "bare.git"]);
        let bare = format!("file://{}", bare.file("bare.git").display());
        let bare_folder = bare.clone();
        for number in 0..commits {
            repository.commit(&number.to_string());
        }
        let push = |refspec: &str| {
            repository.git(&["push", "-q", &bare_folder, refspec]);
            forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", refspec]).unwrap();
        };
        push("main");
        let clients =
            Clients { forge: &forge, bare, version, of_git: Repository::empty(), of_forge: Repository::empty() };
        clients.fetch(&["--depth=1", HEADS]);
        steps(&repository, &push, &clients);
    }
}

#[test]
fn a_new_branch_below_the_end_of_the_history_comes_along() {
    compare(120, |repository, push, clients| {
        repository.git(&["branch", "release", "HEAD~100"]);
        push("release");
        clients.fetch(&["--deepen=10", HEADS]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["--all"])), (11, 31));
        clients.fetch(&["--deepen=10", HEADS]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["--all"])), (21, 41));
    });
}

#[test]
fn a_new_branch_and_new_commits_above_the_end_count_from_the_end() {
    compare(40, |repository, push, clients| {
        repository.git(&["checkout", "-q", "-b", "beside", "HEAD~4"]);
        repository.commit("beside");
        push("beside");
        repository.git(&["checkout", "-q", "main"]);
        repository.commit("one");
        repository.git(&["merge", "-q", "--no-ff", "-m", "merge", "beside"]);
        push("main");
        clients.fetch(&["--deepen=10", HEADS]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["o/beside"])), (14, 8));
        clients.fetch(&["--deepen=3", "refs/heads/beside:refs/remotes/o/beside"]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["o/beside"])), (17, 11));
    });
}

#[test]
fn the_end_of_a_branch_that_is_not_asked_for_moves_too() {
    compare(30, |repository, push, clients| {
        repository.git(&["checkout", "-q", "--orphan", "other"]);
        for number in 0..5 {
            repository.commit(&format!("other {number}"));
        }
        push("other");
        clients.fetch(&["--depth=1", HEADS]);
        assert_eq!(clients.count(&["o/main"]), 1);
        clients.fetch(&["--deepen=2", "refs/heads/other:refs/remotes/o/other"]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["o/other"])), (3, 3));
    });
}

#[test]
fn the_end_of_a_branch_that_is_gone_stays() {
    compare(30, |repository, push, clients| {
        repository.git(&["checkout", "-q", "-b", "gone", "main~9"]);
        repository.commit("gone");
        push("gone");
        clients.fetch(&["--depth=1", "refs/heads/gone:refs/remotes/o/gone"]);
        push(":gone");
        clients.fetch(&["--deepen=3", HEADS]);
        assert_eq!((clients.count(&["o/main"]), clients.count(&["o/gone"])), (4, 1));
    });
}

#[test]
fn ends_that_only_another_server_knows_are_left_alone() {
    let (forge, repository) = (Forge::new(), Repository::empty());
    for number in 0..300 {
        repository.commit(&number.to_string());
    }
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main"]).unwrap();
    let other = Repository::empty();
    other.write("a", b"other");
    other.commit("first");
    let unknown = other.commit("second");
    let client = Repository::empty();
    forge.git(&client, PUBLIC, "", &["fetch", "-q", "--depth=1", "URL", "main:refs/remotes/o/main"]).unwrap();
    let url = format!("file://{}", other.path().display());
    client.git(&["fetch", "-q", "--depth=1", &url, "main:refs/remotes/other"]);
    for (version, commits) in [("0", "3"), ("2", "5")] {
        let protocol = format!("protocol.version={version}");
        let fetch = ["-c", &protocol, "fetch", "-q", "--deepen=2", "URL", "main:refs/remotes/o/main"];
        forge.git(&client, PUBLIC, "", &fetch).unwrap();
        assert_eq!(client.text(&["rev-list", "--count", "o/main"]), commits, "{version}");
        assert_eq!(client.text(&["rev-list", "other"]), unknown);
    }
}
