//! `hexad import-git`: loads a local repository into a project. Branches are moved after all objects
//! are stored, so an interrupted import can be repeated.

mod git;
mod objects;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use hexad::cli::printable;
use serde::{Deserialize, Serialize};
use ureq::SendBody;

use crate::progress;
use crate::server::Server;
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

/// The server's answer to objects.
#[derive(Deserialize)]
struct StoreReport {
    stored: u64,
    known: u64,
}

/// A branch or tag before and after.
#[derive(Serialize)]
struct RefUpdate<'a> {
    name: &'a str,
    old: Option<&'a str>,
    new: Option<&'a str>,
}

#[derive(Serialize)]
struct RefUpdates<'a> {
    refs: &'a [RefUpdate<'a>],
    head: Option<&'a str>,
}

/// The server's answer to updates of branches and tags.
#[derive(Deserialize)]
struct UpdateReport {
    moved: u64,
    unchanged: u64,
    failed: Vec<RefusedUpdate>,
}

#[derive(Deserialize)]
struct RefusedUpdate {
    name: String,
    error: String,
}

impl ImportGit {
    pub fn run(self) -> Result<()> {
        let git = Git::open(&self.path)?;
        let local = git.refs()?;
        if local.is_empty() {
            bail!("{} has no branches and no tags", self.path.display());
        }
        let project = encode(&self.project);
        let advertised = self.server.get(&format!("projects/{project}/repository.git/info/refs"))?;
        let remote: BTreeMap<String, String> = advertised
            .lines()
            .filter_map(|line| line.split_once("\trefs/"))
            .map(|(id, name)| (name.into(), id.into()))
            .collect();

        let (updates, refused) = self.updates(&git, &local, &remote)?;
        let common = git.existing(remote.values())?;
        let (stored, known) = self.send_objects(&git, &project, &updates, &common)?;
        let head = git.head()?;
        let changed = updates.iter().filter(|update| update.new.is_some()).count() as u64;
        let (mut moved, mut unchanged, mut failed) = (0, local.len() as u64 - refused - changed, refused);
        // The server learns the head even if nothing moves.
        let mut batches = updates.chunks(REFS).collect::<Vec<_>>();
        if batches.is_empty() {
            batches.push(&[]);
        }
        for refs in batches {
            let updates = RefUpdates { refs, head: head.as_deref() };
            let report: UpdateReport =
                self.server.post_json(&format!("import/suggestions/{project}/refs"), &updates)?;
            moved += report.moved;
            unchanged += report.unchanged;
            failed += report.failed.len() as u64;
            for RefusedUpdate { name, error } in report.failed {
                eprintln!("refs/{}: {}", printable(&name), printable(&error));
            }
        }
        writeln!(io::stdout(), "objects: {stored} stored, {known} known; refs: {moved} moved, {unchanged} unchanged")?;
        match failed {
            0 => Ok(()),
            failed => bail!("{failed} branches or tags were not moved, listed above"),
        }
    }

    /// The updates to send, and how many are not sent because they would lose commits.
    fn updates<'a>(
        &self,
        git: &Git,
        local: &'a BTreeMap<String, String>,
        remote: &'a BTreeMap<String, String>,
    ) -> Result<(Vec<RefUpdate<'a>>, u64)> {
        let (mut updates, mut refused) = (Vec::new(), 0);
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
            updates.push(RefUpdate { name, old: old.map(String::as_str), new: Some(new) });
        }
        if self.prune {
            let removed = remote.iter().filter(|(name, _)| !local.contains_key(*name));
            updates.extend(removed.map(|(name, old)| RefUpdate { name, old: Some(old), new: None }));
        }
        Ok((updates, refused))
    }

    /// Sends the objects that `updates` reach and `common` commits do not. Returns how many the
    /// server stored, and how many it had.
    fn send_objects(&self, git: &Git, project: &str, updates: &[RefUpdate], common: &[String]) -> Result<(u64, u64)> {
        let tips: Vec<&str> = updates.iter().filter_map(|update| update.new).collect();
        if tips.is_empty() {
            return Ok((0, 0));
        }
        let started = Instant::now();
        let (list, count) = git.list(&tips, common)?;
        let bar = progress::items("objects", count);
        let mut batches = Batches::new(git.contents(list)?)?;
        let path = format!("import/suggestions/{project}/objects");
        let (mut stored, mut known) = (0, 0);
        while let Some(mut batch) = batches.next()? {
            let sent =
                self.server.post::<StoreReport>(&path, "application/octet-stream", SendBody::from_reader(&mut batch));
            // If git failed, that is why the request failed.
            if let Some(reason) = batch.take_failure() {
                return Err(anyhow!(reason));
            }
            let report = sent?;
            stored += report.stored;
            known += report.known;
            bar.set_position(stored + known);
        }
        bar.finish_and_clear();
        batches.end()?;
        if stored + known != count {
            bail!("git listed {count} objects and printed {}; is the repository whole? run `git fsck`", stored + known);
        }
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stdout(), "sent {count} objects in {seconds:.1} s ({:.0} objects/s)", count as f64 / seconds)?;
        Ok((stored, known))
    }
}

/// `text` as one segment of a path.
fn encode(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
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
