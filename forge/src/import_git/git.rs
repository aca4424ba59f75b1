//! A local repository, read with the program `git`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Error, Result, anyhow, bail};
use hexad::cli::printable;

pub struct Git {
    folder: PathBuf,
}

impl Git {
    /// The repository in or above `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        let git = Git { folder: folder.to_owned() };
        let format = git.text(&["rev-parse", "--show-object-format"])?;
        match format.trim() {
            "sha1" => Ok(git),
            other => bail!("{} names its objects by {}; only sha1 is supported", folder.display(), printable(other)),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        // An object that is only replaced locally would be sent under an id that it does not have.
        command.arg("--no-replace-objects").arg("-C").arg(&self.folder).args(arguments).stdin(Stdio::null());
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

    /// An error with the text that git printed, if it failed.
    fn check(&self, output: &Output) -> Result<()> {
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr);
            bail!("git in {}: {}", self.folder.display(), printable(printed.trim()));
        }
        Ok(())
    }

    /// Ids of branches (`heads/main`) and tags (`tags/v1`) by name.
    pub fn refs(&self) -> Result<BTreeMap<String, String>> {
        let text = self.text(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"])?;
        let parts = text.lines().filter_map(|line| line.split_once(" refs/"));
        Ok(parts.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
    }

    /// The branch that is checked out; none if it is a commit.
    pub fn head(&self) -> Result<Option<String>> {
        let output = self.run(&["symbolic-ref", "-q", "HEAD"])?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().strip_prefix("refs/").filter(|_| output.status.success()).map(str::to_owned))
    }

    /// Whether the history of `new` has `old`.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        // git also fails if the repository does not have `old`.
        Ok(self.run(&["merge-base", "--is-ancestor", old, new])?.status.success())
    }

    /// The `ids` of objects that the repository has.
    pub fn existing<'a>(&self, ids: impl Iterator<Item = &'a String>) -> Result<Vec<String>> {
        let mut existing = Vec::new();
        let input: String = ids.map(|id| format!("{id}\n")).collect();
        let output = self.feed(&["cat-file", "--batch-check=%(objectname)"], &input)?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            if !line.ends_with(" missing") {
                existing.push(line);
            }
        }
        Ok(existing)
    }

    /// A file with the ids of `tips` and of all objects that `tips` reach and `common` do not, one a
    /// line, and their number. Tips are listed even if `common` reach them: the server accepts as a
    /// head only an object that was sent lately.
    pub fn list(&self, tips: &[&str], common: &[String]) -> Result<(File, u64)> {
        let mut unlisted: BTreeSet<&str> = tips.iter().copied().collect();
        let tips = tips.iter().map(|id| format!("{id}\n"));
        let input: String = tips.chain(common.iter().map(|id| format!("^{id}\n"))).collect();
        let mut list = self.feed(&["rev-list", "--objects", "--no-object-names", "--stdin"], &input)?;
        let mut count = 0;
        for line in BufReader::new(&list).lines() {
            unlisted.remove(line?.as_str());
            count += 1;
        }
        list.seek(SeekFrom::End(0))?;
        for id in &unlisted {
            writeln!(list, "{id}")?;
            count += 1;
        }
        list.rewind()?;
        Ok((list, count))
    }

    /// The output of a command for `input`, in temporary files because both may be large.
    fn feed(&self, arguments: &[&str], input: &str) -> Result<File> {
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

    /// A process that prints each of these objects.
    pub fn contents(&self, list: File) -> Result<Child> {
        let mut command = self.command(&["cat-file", "--batch", "--buffer"]);
        command.stdin(list).stdout(Stdio::piped()).spawn().map_err(not_installed)
    }
}

fn not_installed(error: std::io::Error) -> Error {
    anyhow!("cannot run `git`: {error}; install it, or put it on the PATH")
}
