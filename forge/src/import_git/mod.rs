//! `hexad import-git`: loads a local repository into a project. Objects first, branches last, so
//! that it can be interrupted and repeated anywhere.

mod git;
mod objects;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use ureq::SendBody;

use super::Failure;
use super::server::{Server, printable};
use git::Git;
use objects::Batches;

/// How many branches and tags are moved with one request.
const REFS: usize = 5000;

/// Load a local git repository, with its branches and tags, into a project.
#[derive(Args)]
pub struct ImportGit {
    /// The repository's folder.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// The project, by its id or full path.
    #[arg(long, value_name = "PROJECT")]
    project: String,

    /// Move branches and tags also where the server has commits that the repository does not have.
    #[arg(long)]
    force: bool,

    /// Delete branches and tags that the repository does not have.
    #[arg(long)]
    prune: bool,

    #[command(flatten)]
    server: Server,
}

/// What the server answers to objects.
#[derive(Deserialize)]
struct Stored {
    stored: u64,
    known: u64,
}

#[derive(Serialize)]
struct Move<'a> {
    name: &'a str,
    old: Option<&'a str>,
    new: Option<&'a str>,
}

#[derive(Serialize)]
struct Moves<'a> {
    refs: &'a [Move<'a>],
    head: Option<&'a str>,
}

/// What the server answers to moves.
#[derive(Deserialize)]
struct Moved {
    moved: u64,
    unchanged: u64,
    failed: Vec<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    name: String,
    error: String,
}

impl ImportGit {
    pub fn run(self) -> Result<(), Failure> {
        let git = Git::open(&self.path)?;
        let local = git.refs()?;
        if local.is_empty() {
            return Err(format!("{} has no branches and no tags", self.path.display()).into());
        }
        let project = encode(&self.project);
        let served = self.server.get(&format!("projects/{project}/repository.git/info/refs"))?;
        let remote: BTreeMap<String, String> = served
            .lines()
            .filter_map(|line| line.split_once("\trefs/"))
            .map(|(id, name)| (name.into(), id.into()))
            .collect();

        let (moves, refused) = self.moves(&git, &local, &remote)?;
        let known = git.existing(remote.values())?;
        let (stored, already) = self.send_objects(&git, &project, &moves, &known)?;
        let head = git.head()?;
        let updates = moves.iter().filter(|one| one.new.is_some()).count() as u64;
        let (mut moved, mut unchanged, mut failed) = (0, local.len() as u64 - refused - updates, refused);
        // The head is told even if nothing moves.
        let mut parts = moves.chunks(REFS).collect::<Vec<_>>();
        if parts.is_empty() {
            parts.push(&[]);
        }
        for refs in parts {
            let body = serde_json::to_vec(&Moves { refs, head: head.as_deref() })?;
            let path = format!("import/suggestions/{project}/refs");
            let answer: Moved =
                self.server.post(&path, "application/json", SendBody::from_reader(&mut body.as_slice()))?;
            moved += answer.moved;
            unchanged += answer.unchanged;
            failed += answer.failed.len() as u64;
            for Failed { name, error } in answer.failed {
                eprintln!("refs/{}: {}", printable(&name), printable(&error));
            }
        }
        writeln!(
            io::stdout(),
            "objects: {stored} stored, {already} known; refs: {moved} moved, {unchanged} unchanged"
        )?;
        match failed {
            0 => Ok(()),
            failed => Err(format!("{failed} branches or tags were not moved, as told above").into()),
        }
    }

    /// What is to be moved, and how many are not because that would lose commits.
    fn moves<'a>(
        &self,
        git: &Git,
        local: &'a BTreeMap<String, String>,
        remote: &'a BTreeMap<String, String>,
    ) -> Result<(Vec<Move<'a>>, u64), Failure> {
        let (mut moves, mut refused) = (Vec::new(), 0);
        for (name, new) in local {
            let old = remote.get(name);
            if old == Some(new) {
                continue;
            }
            if let Some(old) = old
                && !self.force
                && !(name.starts_with("heads/") && git.is_ancestor(old, new)?)
            {
                eprintln!(
                    "refs/{}: the server has it at {}, which the repository's does not contain; fetch it from there, or move it with --force",
                    printable(name),
                    printable(old)
                );
                refused += 1;
                continue;
            }
            moves.push(Move { name, old: old.map(String::as_str), new: Some(new) });
        }
        if self.prune {
            let gone = remote.iter().filter(|(name, _)| !local.contains_key(*name));
            moves.extend(gone.map(|(name, old)| Move { name, old: Some(old), new: None }));
        }
        Ok((moves, refused))
    }

    /// Sends what `moves` lead to and `known` does not; how many were new to the server, and how
    /// many were not.
    fn send_objects(&self, git: &Git, project: &str, moves: &[Move], known: &[String]) -> Result<(u64, u64), Failure> {
        let wanted: Vec<&str> = moves.iter().filter_map(|one| one.new).collect();
        if wanted.is_empty() {
            return Ok((0, 0));
        }
        let started = Instant::now();
        let (list, count) = git.list(&wanted, known)?;
        let bar = bar(count);
        let mut batches = Batches::new(git.contents(list)?)?;
        let path = format!("import/suggestions/{project}/objects");
        let (mut stored, mut already) = (0, 0);
        while let Some(mut batch) = batches.next()? {
            let sent = self.server.post::<Stored>(&path, "application/octet-stream", SendBody::from_reader(&mut batch));
            let broken = batch.broken();
            let answer = match (sent, broken) {
                (_, Some(why)) => return Err(why.into()),
                (sent, None) => sent?,
            };
            stored += answer.stored;
            already += answer.known;
            bar.set_position(stored + already);
        }
        bar.finish_and_clear();
        batches.end()?;
        if stored + already != count {
            return Err(format!(
                "git listed {count} objects and printed {}; is the repository whole? `git fsck` tells",
                stored + already
            )
            .into());
        }
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stdout(), "sent {count} objects in {seconds:.1} s ({:.0} objects/s)", count as f64 / seconds)?;
        Ok((stored, already))
    }
}

/// `text` as one segment of a path.
fn encode(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A bar on a terminal, and nothing elsewhere.
fn bar(objects: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "objects [{wide_bar}] {pos}/{len} {per_sec} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(objects).with_style(style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn a_full_path_is_one_segment() {
        assert_eq!(encode("acme/open.x"), "acme%2Fopen.x");
        assert_eq!(encode("7"), "7");
    }
}
