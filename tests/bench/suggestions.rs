//! Suggestions applied to a large repository, beside git making the same commits locally.

use crate::load::{Load, Request};
use crate::*;
use hexad_tests::forge::PRIVATE;
use hexad_tests::repository::Repository;
use hexad_tests::suggestions::{Suggestions, import_repository};
use std::fmt::Write as _;
use std::io::Write as _;

const FOLDERS: u64 = 5_000;
const FILES: u64 = 10;
const COMMITS: u64 = 10_000;
/// Branches with one suggestion each, which is applied once.
const BRANCHES: u64 = 600;
const ONE_BY_ONE: usize = 200;
/// The line that is replaced.
const LINE: u64 = 20;
/// A file with many suggestions on it, in the comments of one page.
const LARGE: &str = "large.txt";
const LARGE_LINES: u64 = 40_000;
const COMMENTS: u64 = 20;
const SUGGESTIONS_EACH: u64 = 50;

pub fn path(file: u64) -> String {
    let folder = file / FILES;
    format!("part-{}/folder-{}/file-{}.txt", folder / 50, folder % 50, file % FILES)
}

pub fn contents(file: u64, version: u64) -> String {
    (0..40).map(|line| format!("line {line} of file {file}, version {version}\n")).collect()
}

/// 50,000 files in 5,000 folders, and one of 2 MB; then a commit for each of 10,000 changes of one file. Beside `main`,
/// `branches` branches are at the last commit.
pub fn repository(branches: u64) -> Repository {
    let repository = Repository::empty();
    let mut stream = String::new();
    let mut commit = |number: u64, files: &mut dyn Iterator<Item = u64>| {
        let _ = write!(
            stream,
            "commit refs/heads/main\nmark :{}\ncommitter A <a@x> {} +0000\n",
            number + 1,
            1_700_000_000 + number
        );
        let message = format!("change {number}");
        let _ = write!(stream, "data {}\n{message}\n", message.len());
        if number > 0 {
            let _ = writeln!(stream, "from :{number}");
        }
        for file in files {
            let contents = contents(file, number);
            let _ = write!(stream, "M 100644 inline {}\ndata {}\n{contents}\n", path(file), contents.len());
        }
        if number == 0 {
            let lines = (0..LARGE_LINES).map(|line| format!("line {line:05} of a large file, with fifty bytes each\n"));
            let contents: String = lines.collect();
            let _ = write!(stream, "M 100644 inline {LARGE}\ndata {}\n{contents}\n", contents.len());
        }
    };
    commit(0, &mut (0..FOLDERS * FILES));
    (1..COMMITS).for_each(|number| commit(number, &mut std::iter::once(number * 7919 % (FOLDERS * FILES))));
    for branch in 0..branches {
        let _ = write!(stream, "reset refs/heads/topic-{branch}\nfrom :{COMMITS}\n");
    }
    repository.fast_import(|git| git.write_all(stream.as_bytes()));
    repository
}

pub fn run() {
    eprintln!("a repository of 50,000 files and 10,000 commits…");
    let repository = repository(BRANCHES);
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start_with(data.path(), &[("notes_rate_limit", "0"), ("suggestions_rate_limit", "0")]);
    forge::seed(&server);
    println!("Suggestions, on 50,000 files in 5,000 folders with 10,000 commits");

    eprintln!("import-git…");
    let said = import_repository(&server, PRIVATE, &repository, &[]);
    println!("  import-git: {}", said.lines().next().unwrap_or_default());

    eprintln!("commenting on {BRANCHES} branches…");
    let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
    let head = client.head("topic-0");
    let mut requests: Vec<Request> = (0..BRANCHES)
        .map(|branch| {
            client.import_merge_request(1 + branch, &format!("topic-{branch}"));
            let id = client.suggest(1 + branch, &head, &edited(branch), LINE, "suggested").expect("an answer");
            Request::of("PUT", format!("/api/v4/suggestions/{id}/apply"), &[("private-token", DEVELOPER)], "")
        })
        .collect();
    eprintln!("applying…");
    println!("  {:<38} {:>9} {:>9} {:>9}", "", "per s", "p50 ms", "p99 ms");
    let at_once = requests.split_off(ONE_BY_ONE);
    row("apply, one after the other", &load::each_once(&server.url, requests, 1));
    row("apply, 8 at once on different branches", &load::each_once(&server.url, at_once, 8));
    row("discussions, 1,000 suggestions a page", &discussions(&server, &client, &head));
    git(&repository);
    println!();
}

/// The first page of a merge request's discussions: comments all over a file, from before its branch moved.
fn discussions(server: &Server, client: &Suggestions, head: &str) -> Load {
    let iid = BRANCHES + 1;
    client.import_merge_request(iid, "topic-1");
    let body = "```suggestion:-2+2\nbetter\n```\n".repeat(SUGGESTIONS_EACH as usize);
    for comment in 0..COMMENTS {
        let line = (comment + 1) * LARGE_LINES / (COMMENTS + 1);
        client.comment(iid, head, LARGE, line, &body).expect("an answer");
    }
    let path = format!("/api/v4/projects/{PRIVATE}/merge_requests/{iid}/discussions");
    let request = get(&path, &[("private-token", DEVELOPER)]);
    load::each_once(&server.url, vec![request; 100], 1)
}

fn row(name: &str, load: &Load) {
    println!("  {name:<38} {:>9.0} {:>9.2} {:>9.2}", load.per_second(), load.percentile(0.5), load.percentile(0.99));
}

/// The file that is changed on a branch.
fn edited(branch: u64) -> String {
    path(branch * 104_729 % (FOLDERS * FILES))
}

/// The same with git: write the file's object, put it into an index, write the folders, the commit and the branch, all
/// durably.
fn git(repository: &Repository) {
    repository.git(&["config", "core.fsync", "all"]);
    repository.git(&["read-tree", "topic-0"]);
    let mut latencies = Vec::new();
    for branch in 0..20 {
        let (path, name) = (edited(branch), format!("topic-{branch}"));
        let start = Instant::now();
        let before = repository.text(&["show", &format!("{name}:{path}")]) + "\n";
        let lines = before.split_inclusive('\n').zip(1..);
        let after: String = lines.map(|(text, line)| if line == LINE { "suggested\n" } else { text }).collect();
        repository.write("new-contents", after.as_bytes());
        let blob = repository.text(&["hash-object", "-w", "--no-filters", "new-contents"]);
        repository.git(&["update-index", "--cacheinfo", &format!("100644,{blob},{path}")]);
        let tree = repository.text(&["write-tree"]);
        let commit = repository.text(&["commit-tree", &tree, "-p", &name, "-m", "Suggested"]);
        repository.git(&["update-ref", &format!("refs/heads/{name}"), &commit]);
        latencies.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    latencies.sort_by(f64::total_cmp);
    let (sum, last) = (latencies.iter().sum::<f64>(), latencies.len() - 1);
    let rate = 1000.0 * latencies.len() as f64 / sum;
    println!(
        "  {:<38} {rate:>9.0} {:>9.2} {:>9.2}",
        "git, the same commits, one by one",
        latencies[last / 2],
        latencies[last]
    );
}
