//! A plain client of merge requests' discussions and suggestions.

use crate::http::{self, Answer};
use crate::repository::Repository;
use crate::server::{BOOTSTRAP_TOKEN, Server, program};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use ureq::http::Request;

/// One project on a server, with a token.
#[derive(Clone)]
pub struct Suggestions {
    url: String,
    project: u64,
    token: String,
    agent: ureq::Agent,
}

impl Suggestions {
    pub fn new(server: &Server, project: u64, token: &str) -> Self {
        Suggestions { url: server.url.clone(), project, token: token.into(), agent: http::agent() }
    }

    /// The address that git clones, with the token as the password.
    pub fn clone_url(&self) -> String {
        let host = self.url.trim_start_matches("http://");
        format!("http://git:{}@{host}/api/v4/projects/{}/repository.git", self.token, self.project)
    }

    /// Imports merge request `iid`, from `branch` to `main`.
    pub fn import_merge_request(&self, iid: u64, branch: &str) {
        let record = json!({"kind": "merge_request", "id": 1000 * self.project + iid, "iid": iid, "project_id": self.project,
            "source_branch": branch, "target_branch": "main", "state": "opened", "title": branch, "author": {"id": 3}});
        let answer = self.send("POST", "import/suggestions", BOOTSTRAP_TOKEN, &record).expect("an answer");
        assert_eq!(answer.json()["failed"], 0);
    }

    /// The commit at a branch's head.
    pub fn head(&self, branch: &str) -> String {
        self.try_head(branch).expect("an answer")
    }

    /// The same; an error if the connection broke.
    pub fn try_head(&self, branch: &str) -> Result<String, ureq::Error> {
        let path = format!("projects/{}/repository.git/info/refs", self.project);
        let refs = String::from_utf8(self.get(&path)?.body).expect("UTF-8");
        let suffix = format!("\trefs/heads/{branch}");
        Ok(refs.lines().find_map(|line| line.strip_suffix(&suffix)).expect("the branch is there").to_owned())
    }

    pub fn get(&self, path: &str) -> Result<Answer, ureq::Error> {
        http::read(self.agent.get(format!("{}/api/v4/{path}", self.url)).header("private-token", &self.token).call()?)
    }

    /// Proposes `text` in place of a line of a file at `head`; the suggestion's id.
    pub fn suggest(&self, iid: u64, head: &str, path: &str, line: u64, text: &str) -> Result<u64, ureq::Error> {
        let answer = self.comment(iid, head, path, line, &format!("```suggestion\n{text}\n```"))?;
        Ok(answer.json()["notes"][0]["suggestions"][0]["id"].as_u64().expect("an id"))
    }

    /// Comments on a line of a file at `head`.
    pub fn comment(&self, iid: u64, head: &str, path: &str, line: u64, body: &str) -> Result<Answer, ureq::Error> {
        let body = json!({"body": body, "position": {"position_type": "text",
            "base_sha": head, "start_sha": head, "head_sha": head, "old_path": path, "new_path": path, "new_line": line}});
        let path = format!("projects/{}/merge_requests/{iid}/discussions", self.project);
        let answer = self.send("POST", &path, &self.token, &body)?.expect(201);
        Ok(answer)
    }

    pub fn apply(&self, id: u64, message: &str) -> Result<Answer, ureq::Error> {
        self.put(&format!("suggestions/{id}/apply"), &json!({"commit_message": message}))
    }

    fn send(&self, method: &str, path: &str, token: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let request = Request::builder().method(method).uri(format!("{}/api/v4/{path}", self.url));
        let request = request.header("private-token", token).header("content-type", "application/json");
        http::read(self.agent.run(request.body(body.to_string()).expect("a valid request"))?)
    }

    pub fn put(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        self.send("PUT", path, &self.token, body)
    }
}

/// `hexad import-git` of a local repository.
pub fn import_git(server: &Server, project: u64, folder: &Path, more: &[&str]) -> Output {
    Command::new(program())
        .arg("import-git")
        .args(["--project", &project.to_string(), "--url", &server.url, "--token", BOOTSTRAP_TOKEN])
        .args(more)
        .arg(folder)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .output()
        .expect("hexad runs")
}

/// The same, which must succeed. Returns what the program prints.
#[track_caller]
pub fn import_repository(server: &Server, project: u64, repository: &Repository, more: &[&str]) -> String {
    let output = import_git(server, project, repository.path(), more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
