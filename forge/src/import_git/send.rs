//! Sends a history as packs, which the server stores unchanged.

use std::collections::BTreeSet;
use std::fmt;
use std::process::Child;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use ureq::SendBody;

use super::git::Git;
use super::slices::slices;
use crate::progress;
use crate::server::Server;

/// The most commits in one request.
const IDS_PER_REQUEST: usize = 5000;

/// The exit code of git after a fatal error.
const GIT_FATAL: i32 = 128;

/// The answer to a pack: how many of its objects were new, and how many were known.
#[derive(Deserialize)]
struct PackReport {
    stored: u64,
    known: u64,
}

/// Commits in a request. The answer has those commits that packs on the server contain with all reachable objects.
#[derive(Serialize, Deserialize)]
struct KnownCommits {
    ids: Vec<String>,
}

/// The counts of an upload.
#[derive(Default)]
pub struct Sent {
    /// The number of objects that were new to the server.
    stored: u64,
    /// The number of objects that the server had.
    known: u64,
    commits: usize,
    packs: usize,
    seconds: f64,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Sent { stored, known, commits, packs, seconds } = self;
        if *packs > 0 {
            writeln!(f, "sent {commits} commits in {packs} packs, in {seconds:.1} s")?;
        }
        write!(f, "objects: {stored} stored, {known} known")
    }
}

/// Sends the objects that are reachable from `tips` and not from `common`. Objects of an earlier call are not sent
/// again.
pub fn send(server: &Server, git: &Git, project: &str, tips: &[&str], common: &[String]) -> Result<Sent> {
    if tips.is_empty() {
        return Ok(Sent::default());
    }
    let started = Instant::now();
    let mut common = common.to_vec();
    let mut commits = git.commits(tips, &common)?;
    let heads: Vec<&str> = slices(&commits).iter().flat_map(|slice| slice.heads.clone()).collect();
    let known = known_commits(server, project, &heads)?;
    if !known.is_empty() {
        common.extend(known);
        commits = git.commits(tips, &common)?;
    }
    let mut slices = slices(&commits);
    // The last pack also has the tags, and tips that are not commits.
    let mut last = slices.pop().unwrap_or_default();
    last.bases.extend(slices.iter().flat_map(|slice| slice.heads.iter().copied()));
    last.heads.extend(tips);
    last.bases.extend(common.iter().map(String::as_str));
    slices.push(last);
    let bar = progress::items("commits", commits.len() as u64);
    let (mut stored, mut known) = (0, 0);
    let mut count = |report: PackReport| {
        stored += report.stored;
        known += report.known;
    };
    for slice in &slices {
        let pack = git.pack(slice.heads.iter().copied(), slice.bases.iter().copied())?;
        count(send_pack(server, project, pack)?);
        bar.inc(slice.commits as u64);
    }
    bar.finish_and_clear();
    // The server accepts an object as a head only if it was sent recently or is in a pack.
    let listed: BTreeSet<&str> = commits.iter().map(|commit| commit.id.as_str()).collect();
    let unlisted: Vec<&str> = tips.iter().copied().filter(|tip| !listed.contains(tip)).collect();
    let unlisted = git.only_commits(&unlisted)?;
    if !unlisted.is_empty() {
        count(send_pack(server, project, git.pack_only(&unlisted)?)?);
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Sent { stored, known, commits: commits.len(), packs: slices.len(), seconds })
}

/// The subset of `commits` that packs on the server contain with all reachable objects.
pub fn known_commits(server: &Server, project: &str, commits: &[&str]) -> Result<Vec<String>> {
    let mut known = Vec::new();
    for ids in commits.chunks(IDS_PER_REQUEST) {
        let request = KnownCommits { ids: ids.iter().map(|id| (*id).to_owned()).collect() };
        let path = format!("import/suggestions/{project}/known");
        known.extend(server.post_json::<KnownCommits>(&path, &request)?.ids);
    }
    Ok(known)
}

/// Sends the pack that a git process prints.
fn send_pack(server: &Server, project: &str, mut git: Child) -> Result<PackReport> {
    let mut pack = git.stdout.take().context("git has no output")?;
    let path = format!("import/suggestions/{project}/pack");
    let sent = server.post(&path, "application/octet-stream", SendBody::from_reader(&mut pack));
    // Closes the pipe, so that git ends even if the server has not read the whole pack.
    drop(pack);
    let status = git.wait()?;
    // If git failed, its failure caused the failure of the request.
    if status.code() == Some(GIT_FATAL) || sent.is_ok() && !status.success() {
        bail!("git pack-objects failed ({status}); what it printed says why");
    }
    sent
}
