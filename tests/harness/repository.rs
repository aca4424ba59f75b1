//! A local git repository, by the program `git`.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Output, Stdio};

pub struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    /// An empty repository, on branch `main`.
    pub fn empty() -> Self {
        let repository = Repository { folder: tempfile::tempdir().expect("a temporary folder") };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    /// A repository with these files in one commit, on branch `main` and, checked out, on `topic`.
    pub fn with(files: &[(&str, &[u8])]) -> Self {
        let repository = Repository::empty();
        for (path, contents) in files {
            repository.write(path, contents);
        }
        repository.commit("first");
        repository.git(&["checkout", "-q", "-b", "topic"]);
        repository
    }

    /// A clone of `url`, which may have credentials; checked by `git fsck`.
    pub fn clone(url: &str) -> Self {
        let repository = Repository { folder: tempfile::tempdir().expect("a temporary folder") };
        repository.git(&["clone", "-q", url, "."]);
        repository.git(&["fsck", "--full", "--strict"]);
        repository
    }

    /// Runs `git fast-import`, to whose input `write` writes.
    pub fn fast_import(&self, write: impl FnOnce(&mut ChildStdin) -> std::io::Result<()>) {
        let mut command = self.command(&["fast-import", "--quiet", "--force"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("git runs");
        write(&mut child.stdin.take().expect("piped")).expect("git reads");
        assert!(child.wait().expect("git ends").success());
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn write(&self, path: &str, contents: &[u8]) {
        std::fs::create_dir_all(self.file(path).parent().expect("a folder")).expect("a folder");
        std::fs::write(self.file(path), contents).expect("a file");
    }

    /// Commits everything. Returns the commit's id.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.text(&["rev-parse", "HEAD"])
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        command(self.path(), arguments)
    }

    /// The output of git, as text without the last line end.
    #[track_caller]
    pub fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.git(arguments)).expect("UTF-8").trim_end().to_owned()
    }

    /// The output of git. Fails if git does.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        let output = git(self.path(), arguments);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// Runs git in a folder.
pub fn git(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("these tests need the program `git`")
}

/// git in a folder, without the user's configuration and with fixed authors and times.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("GIT_DIR")
        .env("GIT_TERMINAL_PROMPT", "0")
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@x"), ("GIT_AUTHOR_DATE", "1700000000 +0000")])
        .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@x"), ("GIT_COMMITTER_DATE", "1700000000 +0000")])
        .stdin(Stdio::null());
    command
}
