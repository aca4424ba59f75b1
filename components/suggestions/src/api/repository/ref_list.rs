//! The branches and tags of a repository, and the server's capabilities.

use super::fetch_request::ListRequest;
use crate::git::{ObjectId, find_ambiguity, pktline};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::{ref_names, refs};
use directory::default_branch;
use directory::project::Project;
use kit::Env;
use kit::store::StoreError;

const AGENT: &str = concat!("agent=hexad/", env!("CARGO_PKG_VERSION"));

/// The refs of a repository at one moment.
pub struct RefList {
    /// The ref that HEAD points to: the project's default branch, or the branch that the imported repository had
    /// checked out, or any branch. It need not exist.
    pub head: String,
    /// By name, below `refs/`.
    pub refs: Vec<(String, ObjectId)>,
}

impl RefList {
    /// 1 read, and 1 for each name.
    pub fn read(env: &Env, project: &Project) -> Result<Self, StoreError> {
        let repository = RepositoryId::of(project);
        let names = ref_names::read(env, repository)?;
        let mut list = Vec::new();
        for name in names.names {
            if let Some(value) = refs::read(env, repository, &name)? {
                list.push((name, value.commit));
            }
        }
        let is_there = |wanted: &String| list.iter().any(|(name, _)| name == wanted);
        let configured = project.default_branch.as_deref();
        let unborn = configured.map(|branch| format!("heads/{branch}")).filter(|name| find_ambiguity(name).is_none());
        let any = list.iter().map(|(name, _)| name).find(|name| name.starts_with("heads/")).cloned();
        let head = default_branch::candidates(configured, names.default).find(is_there).or(any).or(unborn);
        let head = head.unwrap_or_else(|| "heads/main".into());
        Ok(RefList { head, refs: list })
    }

    pub fn find(&self, wanted: &str) -> Option<ObjectId> {
        self.refs.iter().find(|(name, _)| name == wanted).map(|(_, id)| *id)
    }
}

/// The target of a tag object; `None` for everything else, and for chains that are too long.
fn peeled(history: &History, name: &str, id: ObjectId) -> Result<Option<ObjectId>, StoreError> {
    if !name.starts_with("tags/") {
        return Ok(None);
    }
    Ok(history.peel_ref(id)?.filter(|peeled| !peeled.tags.is_empty()).map(|peeled| peeled.target))
}

/// The capabilities of version 2.
pub fn capabilities_v2() -> Vec<u8> {
    let mut out = Vec::new();
    for line in ["version 2", AGENT, "ls-refs=unborn", "fetch=shallow filter", "object-format=sha1"] {
        pktline::write_text(&mut out, &format!("{line}\n"));
    }
    pktline::write_flush(&mut out);
    out
}

/// The refs and capabilities of versions 0 and 1.
pub fn advertise_v0(
    env: &Env,
    project: RepositoryId,
    list: &RefList,
    service: &str,
    version: u8,
) -> Result<Vec<u8>, StoreError> {
    let mut out = Vec::new();
    pktline::write_text(&mut out, &format!("# service={service}\n"));
    pktline::write_flush(&mut out);
    if version == 1 {
        pktline::write_text(&mut out, "version 1\n");
    }
    let head = list.find(&list.head);
    let is_fetch = service == "git-upload-pack";
    let capabilities = match is_fetch {
        true => {
            let symref = head.map_or(String::new(), |_| format!(" symref=HEAD:refs/{}", list.head));
            format!(
                "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not \
                 deepen-relative no-progress include-tag multi_ack_detailed allow-tip-sha1-in-want \
                 allow-reachable-sha1-in-want filter{symref} object-format=sha1 {AGENT}"
            )
        }
        false => format!(
            "report-status delete-refs side-band-64k quiet atomic ofs-delta push-options object-format=sha1 {AGENT}"
        ),
    };
    let history = History::new(env, &[project]);
    let mut lines = Vec::new();
    lines.extend(head.filter(|_| is_fetch).map(|id| format!("{id} HEAD")));
    for (name, id) in &list.refs {
        lines.push(format!("{id} refs/{name}"));
        if is_fetch && let Some(target) = peeled(&history, name, *id)? {
            lines.push(format!("{target} refs/{name}^{{}}"));
        }
    }
    if lines.is_empty() {
        lines.push(format!("{} capabilities^{{}}", "0".repeat(2 * ObjectId::LENGTH)));
    }
    for (number, line) in lines.iter().enumerate() {
        let capabilities = if number == 0 { format!("\0{capabilities}") } else { String::new() };
        pktline::write_text(&mut out, &format!("{line}{capabilities}\n"));
    }
    pktline::write_flush(&mut out);
    Ok(out)
}

/// The answer to `ls-refs` of version 2.
pub fn list_v2(env: &Env, project: RepositoryId, list: &RefList, request: &ListRequest) -> Result<Vec<u8>, StoreError> {
    let mut out = Vec::new();
    let symref = if request.symrefs { format!(" symref-target:refs/{}", list.head) } else { String::new() };
    if request.is_asked_for("HEAD") {
        match list.find(&list.head) {
            Some(id) => pktline::write_text(&mut out, &format!("{id} HEAD{symref}\n")),
            None if request.unborn => pktline::write_text(&mut out, &format!("unborn HEAD{symref}\n")),
            None => {}
        }
    }
    let history = History::new(env, &[project]);
    for (name, id) in &list.refs {
        if !request.is_asked_for(&format!("refs/{name}")) {
            continue;
        }
        let target = if request.peel { peeled(&history, name, *id)? } else { None };
        let target = target.map_or(String::new(), |target| format!(" peeled:{target}"));
        pktline::write_text(&mut out, &format!("{id} refs/{name}{target}\n"));
    }
    pktline::write_flush(&mut out);
    Ok(out)
}
