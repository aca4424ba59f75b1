//! `hexad import-git`: loads a local repository into a project. Branches move only after all objects are stored. So an
//! interrupted import can be repeated; it continues after the last pack on the server.

pub mod git;
pub mod send;
mod slices;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hexad::cli::printable;
use serde::{Deserialize, Serialize};

use crate::server::Server;
use git::Git;

/// The most branches and tags of one request.
const REFS_PER_REQUEST: usize = 5000;

/// Load a local git repository, with its branches and tags, into a project.
#[derive(Args)]
pub struct ImportGit {
    /// The repository's folder.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// The project, by its id or full path.
    #[arg(long, value_name = "PROJECT")]
    project: String,

    /// Also move branches and tags if the server has commits that the repository does not have.
    #[arg(long)]
    force: bool,

    /// Delete branches and tags that the repository does not have.
    #[arg(long)]
    prune: bool,

    #[command(flatten)]
    server: Server,
}

/// The old and the new id of a branch or tag.
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
    #[serde(default)]
    left_out: Vec<RefusedUpdate>,
}

#[derive(Deserialize)]
struct RefusedUpdate {
    name: String,
    error: String,
}

impl ImportGit {
    /// An import into a project without a repository.
    pub fn new(path: PathBuf, project: String, server: Server) -> Self {
        ImportGit { path, project, force: false, prune: false, server }
    }

    pub fn run(self) -> Result<()> {
        writeln!(io::stdout(), "{}", self.load()?)?;
        Ok(())
    }

    /// Imports the repository and returns a report for the terminal.
    pub fn load(self) -> Result<String> {
        let git = Git::open(&self.path)?;
        let local = git.refs()?;
        if local.is_empty() {
            bail!("{} has no branches and no tags", self.path.display());
        }
        let project = encode(&self.project);
        let remote = remote_refs(&self.server, &project)?;
        let (updates, refused) = self.updates(&git, &local, &remote)?;
        let common = git.existing(remote.values())?;
        let tips: Vec<&str> = updates.iter().filter_map(|update| update.new).collect();
        let sent = send::send(&self.server, &git, &project, &tips, &common)?;
        let head = git.head()?;
        let changed = updates.iter().filter(|update| update.new.is_some()).count() as u64;
        let (mut moved, mut unchanged, mut failed) = (0, local.len() as u64 - refused - changed, refused);
        let mut left_out = 0;
        // Without any updates, a request still tells the server the head.
        let mut batches = updates.chunks(REFS_PER_REQUEST).collect::<Vec<_>>();
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
            left_out += report.left_out.len() as u64;
            for RefusedUpdate { name, error } in report.failed.into_iter().chain(report.left_out) {
                writeln!(io::stderr(), "refs/{}: {}", printable(&name), printable(&error))?;
            }
        }
        let mut report = format!("{sent}; refs: {moved} moved, {unchanged} unchanged");
        if left_out > 0 {
            report += &format!(", {left_out} left out, listed above");
        }
        match failed {
            0 => Ok(report),
            failed => {
                writeln!(io::stdout(), "{report}")?;
                bail!("{failed} branches or tags were not moved, listed above")
            }
        }
    }

    /// The updates to send, and the number of updates that are refused because they would lose commits.
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
                writeln!(
                    io::stderr(),
                    "refs/{}: the server has it at {}, which the repository's does not contain; fetch it from there, or move it with --force",
                    printable(name),
                    printable(old)
                )?;
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
}

/// The ids of the branches (`heads/main`) and tags (`tags/v1`) of the project, by name.
pub fn remote_refs(server: &Server, project: &str) -> Result<BTreeMap<String, String>> {
    let advertised = server.get(&format!("projects/{project}/repository.git/info/refs"))?;
    let refs = advertised.lines().filter_map(|line| line.split_once("\trefs/"));
    Ok(refs.map(|(id, name)| (name.into(), id.into())).collect())
}

/// `text` encoded as one path segment.
pub fn encode(text: &str) -> String {
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
