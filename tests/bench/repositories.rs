//! Repositories by git: clones, fetches and pushes, beside `git http-backend` on the same repository.

use crate::*;
use hexad_tests::forge::{INTERNAL, MAINTAINER, PRIVATE};
use hexad_tests::repository::{Repository, git};
use hexad_tests::suggestions::import_repository;
use std::fmt::Write as _;
use std::io::Write as _;

/// The large repository's commits, and the incompressible bytes of the file that each adds.
const LARGE_COMMITS: u64 = 4_000;
const LARGE_FILE: usize = 256 << 10;

const PUSHED_COMMITS: usize = 100;

/// One of two servers of the same repository.
struct Remote {
    url: String,
    /// Pushed branches have other names each time.
    pushes: usize,
}

impl Remote {
    /// Runs git in a folder with the address at the end. Returns how long it takes, in milliseconds.
    fn time(&self, folder: &Path, arguments: &[&str], last: &[&str]) -> f64 {
        // With the header, git sends no request without a token, which would be refused. `http-backend` needs none.
        let header = format!("http.extraHeader=private-token: {MAINTAINER}");
        let all = [&["-c", &header], arguments, &[&self.url], last].concat();
        let start = Instant::now();
        let output = git(folder, &all);
        let took = start.elapsed().as_secs_f64() * 1000.0;
        assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
        took
    }

    fn clone(&self, options: &[&str]) -> f64 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        self.time(folder.path(), &[&["clone", "-q", "--bare"], options].concat(), &["copy"])
    }

    fn fetch(&self, clone: &Path) -> f64 {
        self.time(clone, &["fetch", "-q"], &["main"])
    }

    fn push(&mut self, repository: &Repository) -> f64 {
        self.pushes += 1;
        self.time(repository.path(), &["push", "-q"], &[&format!("HEAD:refs/heads/pushed-{}", self.pushes)])
    }
}

/// Measures both servers in turns, and prints the medians in milliseconds.
fn row(name: &str, times: usize, remotes: &mut [Remote; 2], mut measure: impl FnMut(&mut Remote) -> f64) {
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..times {
        remotes.iter_mut().zip(&mut took).for_each(|(remote, took)| took.push(measure(remote)));
    }
    let [ours, gits] = took.map(|mut took| {
        took.sort_by(f64::total_cmp);
        took[times / 2]
    });
    println!("  {name:<38} {ours:>9.1} {gits:>9.1} {:>9.2}", ours / gits);
}

/// A history whose size is that of its files: 1 GiB.
fn large() -> Repository {
    let repository = Repository::empty();
    let mut rng = fastrand::Rng::with_seed(1);
    repository.fast_import(|git| {
        for number in 0..LARGE_COMMITS {
            let mut contents = vec![0; LARGE_FILE];
            rng.fill(&mut contents);
            let mut head = format!("commit refs/heads/main\ncommitter A <a@x> {} +0000\n", 1_700_000_000 + number);
            let _ = write!(head, "data 1\nx\nM 100644 inline {}/{}\ndata {LARGE_FILE}\n", number / 100, number % 100);
            git.write_all(&[head.as_bytes(), &contents, b"\n"].concat())?;
        }
        Ok(())
    });
    repository
}

/// A copy of a repository as a server has it.
fn bare(folder: &Path, name: &str, repository: &Repository) {
    let from = repository.path().to_str().expect("UTF-8");
    let cloned = git(folder, &["clone", "-q", "--bare", "--no-local", from, name]);
    assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.stderr));
    // git maintains a repository after some pushes, which would disturb the measurement.
    git(&folder.join(name), &["config", "receive.autogc", "false"]);
}

/// Adds commits of one changed file each.
fn commit_more(repository: &Repository, round: usize) {
    let mut stream = String::new();
    for number in 0..PUSHED_COMMITS {
        let _ = write!(stream, "commit refs/heads/pushed\ncommitter A <a@x> {} +0000\n", 1_800_000_000 + number);
        let _ = write!(stream, "data 1\nx\n");
        if number == 0 {
            stream += "from refs/heads/main\n";
        }
        let path = suggestions::path((number * 577 + round) as u64);
        let contents = suggestions::contents(number as u64, round as u64);
        let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{contents}\n", contents.len());
    }
    repository.fast_import(|git| git.write_all(stream.as_bytes()));
    repository.git(&["symbolic-ref", "HEAD", "refs/heads/pushed"]);
}

pub fn run() {
    eprintln!("repositories: one of 50,000 files and 10,000 commits, and one of 1 GiB…");
    let repository = suggestions::repository(1);
    let gits = tempfile::tempdir().expect("a temporary folder");
    bare(gits.path(), "small.git", &repository);
    git(&gits.path().join("small.git"), &["config", "http.receivepack", "true"]);
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    import_repository(&server, PRIVATE, &repository, &[]);
    let backend = http_backend::start(gits.path());
    let remotes = |server: &Server, project: u64, name: &str| {
        let ours = format!("{}/api/v4/projects/{project}/repository.git", server.url);
        [ours, format!("{}/{name}.git", backend.url)].map(|url| Remote { url, pushes: 0 })
    };

    println!("Repositories by git, on 50,000 files in 5,000 folders with 10,000 commits");
    println!("  {:<38} {:>9} {:>9} {:>9}", "ms, median", "hexad", "git", "× git");
    let mut small = remotes(&server, PRIVATE, "small");
    row("clone", 5, &mut small, |remote| remote.clone(&[]));
    row("shallow clone", 5, &mut small, |remote| remote.clone(&["--depth", "1"]));
    let clones = tempfile::tempdir().expect("a temporary folder");
    bare(clones.path(), "clone", &repository);
    row("fetch of nothing", 21, &mut small, |remote| remote.fetch(&clones.path().join("clone")));
    let mut round = 0;
    row("push of 100 commits", 7, &mut small, |remote| {
        // Both servers get each commit once.
        commit_more(&repository, round / 2);
        round += 1;
        remote.push(&repository)
    });
    drop(repository);

    let repository = large();
    bare(gits.path(), "large.git", &repository);
    import_repository(&server, INTERNAL, &repository, &[]);
    drop(repository);
    // A new process, without the memory of the import.
    server.stop();
    let server = Server::start(data.path());
    let mut large = remotes(&server, INTERNAL, "large");
    let (idle, _) = server.memory();
    server.reset_peak_memory();
    row("clone of 1 GiB", 3, &mut large, |remote| remote.clone(&[]));
    let (_, peak) = server.memory();
    println!("  memory during these clones: {} MiB above {} MiB", (peak - idle) >> 20, idle >> 20);
    println!();
}
