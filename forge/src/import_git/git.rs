//! A local repository, read with the program `git`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use hexad::cli::printable;

/// Larger files are packed without deltas: the server accepts no deltas of files of more than 96 MiB.
const BIG_FILES: &str = "core.bigFileThreshold=64m";

pub struct Git {
    folder: PathBuf,
}

impl Git {
    /// Opens the repository in or above `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        let git = Git { folder: folder.to_owned() };
        let format = git.text(&["rev-parse", "--show-object-format"])?;
        match format.trim() {
            "sha1" => git.require_complete(&folder.display().to_string()),
            other => bail!("{} names its objects by {}; only sha1 is supported", folder.display(), printable(other)),
        }
    }

    /// Copies every branch and tag from `address` into the empty folder `folder`, and repacks them well. git takes the
    /// header with the credentials from its environment, which other users cannot read. It sends the header neither to
    /// proxies nor to other addresses. It gives up if nothing arrives for `timeout`.
    pub fn mirror(address: &str, authorization: &str, timeout: Duration, folder: &Path) -> Result<Self> {
        let git = Git { folder: folder.to_owned() };
        let progress = if io::stderr().is_terminal() { "--progress" } else { "-q" };
        let mut command = git.command(&["clone", "--mirror", progress, address, "."]);
        command.envs([("GIT_HTTP_LOW_SPEED_LIMIT", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
        command.env("GIT_HTTP_LOW_SPEED_TIME", timeout.as_secs().max(1).to_string());
        let settings = [
            ("extraHeader", &*format!("Authorization: {authorization}")),
            // An empty value disables the proxies of variables such as `http_proxy`.
            ("proxy", ""),
            // After a redirect, git would send the header to the new address.
            ("followRedirects", "false"),
        ];
        // Settings for this full address take precedence over settings of the user for its host.
        set(&mut command, settings.map(|(name, value)| (format!("http.{address}.{name}"), value)));
        let status = command.status().map_err(not_installed)?;
        if !status.success() {
            bail!("git clone of {} failed: {status}", printable(address));
        }
        let git = git.require_complete(&printable(address))?;
        // Without `-f`, git would not look for deltas of objects that arrived without one.
        let mut repack = vec!["repack", "-a", "-d", "-f"];
        repack.extend((!io::stderr().is_terminal()).then_some("-q"));
        let status = git.command(&repack).status().map_err(not_installed)?;
        if !status.success() {
            bail!("git repack of a copy of {} failed: {status}", printable(address));
        }
        Ok(git)
    }

    /// Returns the repository, named `name` in errors, unless it is a shallow clone. A copy of a shallow clone could
    /// not be cloned from the server.
    fn require_complete(self, name: &str) -> Result<Self> {
        match self.text(&["rev-parse", "--is-shallow-repository"])?.trim() {
            "true" => bail!(
                "{name} is a shallow clone, which lacks the older commits; run `git fetch --unshallow` in it first"
            ),
            _ => Ok(self),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        // git would send the content of a locally replaced object under the wrong id.
        command
            .args(["--no-replace-objects", "-c", BIG_FILES])
            .arg("-C")
            .arg(&self.folder)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.command(arguments).output().map_err(not_installed)
    }

    fn text(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        self.check(&output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Fails with the text that git printed, if git failed.
    fn check(&self, output: &Output) -> Result<()> {
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr);
            bail!("git in {}: {}", self.folder.display(), printable(printed.trim()));
        }
        Ok(())
    }

    /// The ids of branches (`heads/main`) and tags (`tags/v1`), by name.
    pub fn refs(&self) -> Result<BTreeMap<String, String>> {
        let text = self.text(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"])?;
        let parts = text.lines().filter_map(|line| line.split_once(" refs/"));
        Ok(parts.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
    }

    /// The branch that is checked out; `None` if it is a commit.
    pub fn head(&self) -> Result<Option<String>> {
        let output = self.run(&["symbolic-ref", "-q", "HEAD"])?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().strip_prefix("refs/").filter(|_| output.status.success()).map(str::to_owned))
    }

    /// Whether the history of `new` contains `old`.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        // git also fails if the repository does not have `old`.
        Ok(self.run(&["merge-base", "--is-ancestor", old, new])?.status.success())
    }

    /// The subset of `ids` whose objects the repository has.
    pub fn existing<'a>(&self, ids: impl Iterator<Item = &'a String>) -> Result<Vec<String>> {
        let mut existing = Vec::new();
        let input: String = ids.map(|id| format!("{id}\n")).collect();
        let output = self.run_with_input(&["cat-file", "--batch-check=%(objectname)"], &input)?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            if !line.ends_with(" missing") {
                existing.push(line);
            }
        }
        Ok(existing)
    }

    /// The commits that are reachable from `tips` and not from `common`, parents first.
    pub fn commits(&self, tips: &[&str], common: &[String]) -> Result<Vec<Commit>> {
        let input = revisions(tips.iter().copied(), common.iter().map(String::as_str));
        let list = self.run_with_input(&["rev-list", "--topo-order", "--reverse", "--parents", "--stdin"], &input)?;
        let mut commits = Vec::new();
        for line in BufReader::new(list).lines() {
            let line = line?;
            let mut ids = line.split(' ').map(str::to_owned);
            commits.push(Commit { id: ids.next().unwrap_or_default(), parents: ids.collect() });
        }
        Ok(commits)
    }

    /// The commits among these objects.
    pub fn only_commits<'a>(&self, ids: &[&'a str]) -> Result<Vec<&'a str>> {
        let input: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let output = self.run_with_input(&["cat-file", "--batch-check=%(objecttype)"], &input)?;
        let mut commits = Vec::new();
        for (line, id) in BufReader::new(output).lines().zip(ids) {
            if line? == "commit" {
                commits.push(*id);
            }
        }
        Ok(commits)
    }

    /// The output of a command with this input. Both are in temporary files, because they may be large.
    fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<File> {
        let mut stdin = tempfile::tempfile()?;
        stdin.write_all(input.as_bytes())?;
        stdin.rewind()?;
        let mut stdout = tempfile::tempfile()?;
        let mut command = self.command(arguments);
        command.stdin(stdin).stdout(stdout.try_clone()?).stderr(Stdio::piped());
        self.check(&command.output().map_err(not_installed)?)?;
        stdout.rewind()?;
        Ok(stdout)
    }

    /// A process that prints a pack of the objects that are reachable from `include` and not from `exclude`. Deltas may
    /// be based on objects reachable from `exclude`.
    pub fn pack<'a>(
        &self,
        include: impl Iterator<Item = &'a str>,
        exclude: impl Iterator<Item = &'a str>,
    ) -> Result<Child> {
        self.pack_objects(&["--revs", "--thin"], &revisions(include, exclude))
    }

    /// A process that prints a pack of only these objects.
    pub fn pack_only(&self, ids: &[&str]) -> Result<Child> {
        self.pack_objects(&[], &revisions(ids.iter().copied(), std::iter::empty()))
    }

    /// git prints errors always, and its progress only on a terminal.
    fn pack_objects(&self, arguments: &[&str], input: &str) -> Result<Child> {
        let mut stdin = tempfile::tempfile()?;
        stdin.write_all(input.as_bytes())?;
        stdin.rewind()?;
        let progress = if io::stderr().is_terminal() { "--progress" } else { "-q" };
        let mut command = self.command(&["pack-objects", "--stdout", "--delta-base-offset", progress]);
        command.args(arguments).stdin(stdin).stdout(Stdio::piped()).spawn().map_err(not_installed)
    }
}

/// A commit and the ids of its parents.
#[derive(Debug)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
}

/// The input of git commands that traverse a history.
fn revisions<'a>(include: impl Iterator<Item = &'a str>, exclude: impl Iterator<Item = &'a str>) -> String {
    include.map(|id| format!("{id}\n")).chain(exclude.map(|id| format!("^{id}\n"))).collect()
}

/// Adds settings to the environment of git, by name, after existing ones.
fn set<'a>(command: &mut Command, settings: impl IntoIterator<Item = (String, &'a str)>) {
    let before = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse::<usize>().ok());
    let mut count = before.unwrap_or(0);
    for (name, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

fn not_installed(error: io::Error) -> Error {
    anyhow!("cannot run `git`: {error}; install it, or put it on the PATH")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::wait::{SOON, accept, join, try_accept};

    #[test]
    fn a_shallow_clone_is_not_imported() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git { folder: folder.path().to_owned() };
        let author = ["-c", "user.name=A", "-c", "user.email=a@x"];
        git.text(&["init", "-q", "whole"]).unwrap();
        for _ in 0..2 {
            let commit = ["-C", "whole", "commit", "-q", "--allow-empty", "-m", "x"];
            git.text(&[&author[..], &commit].concat()).unwrap();
        }
        let address = format!("file://{}", folder.path().join("whole").display());
        git.text(&["clone", "-q", "--depth", "1", &address, "shallow"]).unwrap();
        assert!(Git::open(&folder.path().join("whole")).is_ok());
        let why = Git::open(&folder.path().join("shallow")).err().unwrap().to_string();
        assert!(why.contains("git fetch --unshallow"), "{why}");
    }

    #[test]
    fn credentials_are_not_sent_to_where_a_server_redirects() {
        let [server, elsewhere] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |listener: &TcpListener| format!("http://{}/a.git", listener.local_addr().unwrap());
        let (from, to) = (address(&server), address(&elsewhere));
        let redirect = thread::spawn(move || {
            let mut client = accept(&server, "a request of git");
            let head: Vec<String> =
                BufReader::new(&client).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let response = format!("HTTP/1.1 302 Found\r\nLocation: {to}/info/refs\r\nContent-Length: 0\r\n\r\n");
            client.write_all(response.as_bytes()).unwrap();
            head
        });
        let folder = tempfile::tempdir().unwrap();
        assert!(Git::mirror(&from, "Basic c2VjcmV0", SOON, folder.path()).is_err());
        let head = join(redirect, "the end of the server");
        assert!(head.contains(&"Authorization: Basic c2VjcmV0".to_owned()), "{head:?}");
        assert!(try_accept(&elsewhere).is_none());
    }
}
