//! A local repository, read with the program `git`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::cli::Failure;
use crate::cli::server::printable;

pub struct Git {
    folder: PathBuf,
}

impl Git {
    /// The repository in or above `folder`.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let git = Git { folder: folder.to_owned() };
        let format = git.text(&["rev-parse", "--show-object-format"])?;
        match format.trim() {
            "sha1" => Ok(git),
            other => {
                Err(format!("{} names its objects by {}; only sha1 is known", folder.display(), printable(other))
                    .into())
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        // An object that is only replaced locally would be sent under an id that it does not have.
        command.arg("--no-replace-objects").arg("-C").arg(&self.folder).args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Output, Failure> {
        self.command(arguments).output().map_err(not_there)
    }

    fn text(&self, arguments: &[&str]) -> Result<String, Failure> {
        let output = self.run(arguments)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git in {}: {}", self.folder.display(), printable(why.trim())).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ids of branches (`heads/main`) and tags (`tags/v1`) by name.
    pub fn refs(&self) -> Result<BTreeMap<String, String>, Failure> {
        let text = self.text(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"])?;
        let parts = text.lines().filter_map(|line| line.split_once(" refs/"));
        Ok(parts.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
    }

    /// The branch that is checked out; none if it is a commit.
    pub fn head(&self) -> Result<Option<String>, Failure> {
        let output = self.run(&["symbolic-ref", "-q", "HEAD"])?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().strip_prefix("refs/").filter(|_| output.status.success()).map(str::to_owned))
    }

    /// Whether the history of `new` has `old`.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, Failure> {
        // Another code than 0 is also that of a commit that is not here.
        Ok(self.run(&["merge-base", "--is-ancestor", old, new])?.status.success())
    }

    /// Those of `ids` that the repository has.
    pub fn existing<'a>(&self, ids: impl Iterator<Item = &'a String>) -> Result<Vec<String>, Failure> {
        let mut existing = Vec::new();
        let asked: String = ids.map(|id| format!("{id}\n")).collect();
        let output = self.feed(&["cat-file", "--batch-check=%(objectname)"], &asked)?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            if !line.ends_with(" missing") {
                existing.push(line);
            }
        }
        Ok(existing)
    }

    /// A file with the ids of `wanted`, and of all objects that they lead to and `known` do not, one a
    /// line, and how many there are. `wanted` are sent even if they are known, because the server
    /// takes for a head only what was sent lately.
    pub fn list(&self, wanted: &[&str], known: &[String]) -> Result<(File, u64), Failure> {
        let mut left: BTreeSet<&str> = wanted.iter().copied().collect();
        let wanted = wanted.iter().map(|id| format!("{id}\n"));
        let asked: String = wanted.chain(known.iter().map(|id| format!("^{id}\n"))).collect();
        let mut list = self.feed(&["rev-list", "--objects", "--no-object-names", "--stdin"], &asked)?;
        let mut count = 0;
        for line in BufReader::new(&list).lines() {
            left.remove(line?.as_str());
            count += 1;
        }
        list.seek(SeekFrom::End(0))?;
        for id in &left {
            writeln!(list, "{id}")?;
            count += 1;
        }
        list.rewind()?;
        Ok((list, count))
    }

    /// What a command prints for `input`, in a temporary file: both may be large.
    fn feed(&self, arguments: &[&str], input: &str) -> Result<File, Failure> {
        let mut asked = tempfile::tempfile()?;
        asked.write_all(input.as_bytes())?;
        asked.rewind()?;
        let mut printed = tempfile::tempfile()?;
        let mut command = self.command(arguments);
        let output =
            command.stdin(asked).stdout(printed.try_clone()?).stderr(Stdio::piped()).output().map_err(not_there)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git in {}: {}", self.folder.display(), printable(why.trim())).into());
        }
        printed.rewind()?;
        Ok(printed)
    }

    /// A process that prints each of these objects.
    pub fn contents(&self, list: File) -> Result<Child, Failure> {
        let mut command = self.command(&["cat-file", "--batch", "--buffer"]);
        command.stdin(list).stdout(Stdio::piped()).spawn().map_err(not_there)
    }
}

fn not_there(error: std::io::Error) -> Failure {
    format!("cannot run `git`: {error}; install it, or put it on the PATH").into()
}
