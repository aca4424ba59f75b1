//! The merge request of the demo: a small repository, a branch, and comments with suggestions. The demo omits it if the
//! program `git` is not installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::SendBody;

use crate::import_git::ImportGit;
use crate::server::Server;

const BRANCH: &str = "shorter-names";

const BEFORE: &str = "export function colorize(text, colorCode) {\n  var result = \"\";\n  result = \"\\u001b[\" + colorCode + \"m\" + text + \"\\u001b[0m\";\n  return result;\n}\n";
const AFTER: &str = "export function color(text, code) {\n  var result = \"\";\n  result = \"\\u001b[\" + code + \"m\" + text + \"\\u001b[0m\";\n  return result;\n}\n";

/// The line and the text of each comment.
const COMMENTS: [(u64, &str); 2] = [
    (1, "A default makes most calls shorter:\n\n```suggestion:-0+0\nexport function color(text, code = 31) {\n```"),
    (
        3,
        "This is a template string, and the variable is not needed:\n\n```suggestion:-1+1\n  return `\\u001b[${code}m${text}\\u001b[0m`;\n```",
    ),
];

#[derive(Deserialize)]
struct Discussion {
    notes: Vec<Note>,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    body: String,
}

/// Loads the repository and the merge request into a project.
pub fn load(url: &str, bootstrap_token: &str, developer: &str, project: u64) -> Result<()> {
    let is_there = Command::new("git").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder for the demo")?;
    let path = folder.path();
    git(path, &["init", "-q", "-b", "main"])?;
    commit(path, BEFORE, "Colors")?;
    git(path, &["checkout", "-q", "-b", BRANCH])?;
    commit(path, AFTER, "Shorter names")?;
    let head = git(path, &["rev-parse", "HEAD"])?;
    git(path, &["checkout", "-q", "main"])?;
    ImportGit::new(path.to_owned(), project.to_string(), Server::new(url, bootstrap_token)).load()?;

    let record = json!({"kind": "merge_request", "id": 1, "iid": 1, "project_id": project, "source_branch": BRANCH,
        "target_branch": "main", "state": "opened", "title": "Shorter names", "author": {"id": 3}});
    let text = record.to_string();
    let server = Server::new(url, bootstrap_token);
    let report: Value =
        server.post("import/suggestions", "application/x-ndjson", SendBody::from_reader(&mut text.as_bytes()))?;
    if report.get("failed").and_then(Value::as_u64) != Some(0) {
        bail!("the merge request of the demo was refused: {report}");
    }
    let developer = Server::new(url, developer);
    let path = format!("projects/{project}/merge_requests/1/discussions");
    for (line, body) in COMMENTS {
        // An earlier attempt may have created the comment.
        if !notes_with(&developer, &path, body)?.is_empty() {
            continue;
        }
        let position = json!({"position_type": "text", "base_sha": head, "start_sha": head, "head_sha": head,
            "old_path": "colors.js", "new_path": "colors.js", "new_line": line});
        let comment = json!({"body": body, "position": position});
        let _: Value = developer.post_json(&path, &comment)?;
        // Another host may have created the comment at the same time. All hosts keep the same note and delete the
        // others.
        for note in notes_with(&developer, &path, body)?.iter().skip(1) {
            developer.delete(&format!("projects/{project}/merge_requests/1/notes/{note}"))?;
        }
    }
    Ok(())
}

/// The ids of the notes with this text, the lowest first.
fn notes_with(server: &Server, discussions: &str, body: &str) -> Result<BTreeSet<u64>> {
    let discussions: Vec<Discussion> = serde_json::from_str(&server.get(discussions)?)?;
    let notes = discussions.into_iter().flat_map(|discussion| discussion.notes);
    Ok(notes.filter(|note| note.body == body).map(|note| note.id).collect())
}

fn commit(path: &Path, contents: &str, message: &str) -> Result<()> {
    std::fs::write(path.join("colors.js"), contents).context("cannot write the demo's repository")?;
    git(path, &["add", "."])?;
    git(path, &["commit", "-q", "-m", message]).map(drop)
}

/// Runs git in the folder and returns its output. The settings of the operator do not apply. Commits have the same ids
/// each time.
fn git(path: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    // If git or an editor started this program, these variables name its repository.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
        command.env_remove(variable);
    }
    command
        .arg("-C")
        .arg(path)
        .args(arguments)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
    for (role, date) in [("AUTHOR", "GIT_AUTHOR_DATE"), ("COMMITTER", "GIT_COMMITTER_DATE")] {
        command.env(format!("GIT_{role}_NAME"), "Dev").env(format!("GIT_{role}_EMAIL"), "dev@example.com");
        command.env(date, "2026-01-05T09:00:00Z");
    }
    let output = command.output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
