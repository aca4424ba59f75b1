//! `hexad repack`: packs objects that earlier versions stored individually.

use std::io::{self, Write};

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use hexad::cli::{has_lost_reader, one_line, printable};
use serde::Deserialize;

use crate::import_git::git::Git;
use crate::import_git::{encode, remote_refs, send};
use crate::maintenance::StoreArgs;
use crate::server::{Server, ServerTimeout};

/// The number of projects on a page.
const PAGE: usize = 100;

/// Pack git objects that earlier versions stored one by one, with the program `git`.
///
/// Can be interrupted anywhere and repeated. Garbage collection then removes the packed objects.
#[derive(Args)]
pub struct Repack {
    /// A project, by its id or full path; may be repeated. Without it, all projects.
    #[arg(long, value_name = "PROJECT")]
    project: Vec<String>,

    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Deserialize)]
struct ListedProject {
    id: u64,
    #[serde(default)]
    path_with_namespace: String,
}

impl Repack {
    pub fn run(self) -> Result<()> {
        let store = self.store.open()?;
        let mut failed = 0;
        // An error in one repository does not stop the others.
        let mut repack = |project: &str, name: &str| match repack(&store.server, project, name) {
            Err(error) if !(has_lost_reader(&error) || error.is::<ServerTimeout>()) => {
                failed += 1;
                writeln!(io::stderr(), "{}: {}", printable(name), one_line(&error)).map_err(Error::from)
            }
            repacked => repacked,
        };
        for project in &self.project {
            repack(&encode(project), project)?;
        }
        let mut before = None;
        while self.project.is_empty() {
            let projects = list(&store.server, before)?;
            for project in &projects {
                repack(&project.id.to_string(), &project.path_with_namespace)?;
            }
            before = projects.last().map(|project| project.id);
            if projects.len() < PAGE {
                break;
            }
        }
        match failed {
            0 => Ok(()),
            failed => bail!("{failed} repositories were not repacked, listed above"),
        }
    }
}

/// The projects with the highest ids below `before`.
fn list(server: &Server, before: Option<u64>) -> Result<Vec<ListedProject>> {
    let before = before.map_or(String::new(), |id| format!("&id_before={id}"));
    let path = format!("projects?simple=true&order_by=id&sort=desc&per_page={PAGE}{before}");
    serde_json::from_str(&server.get(&path)?).context("the list of projects is not what was expected")
}

/// Repacks one project, named `name` in output. Skips it if packs have all objects that its branches and tags reach.
fn repack(server: &Server, project: &str, name: &str) -> Result<()> {
    let refs = remote_refs(server, project)?;
    let mut tips: Vec<&str> = refs.values().map(String::as_str).collect();
    tips.sort_unstable();
    tips.dedup();
    if send::known_commits(server, project, &tips)?.len() == tips.len() {
        return Ok(());
    }
    writeln!(io::stdout(), "{}:", printable(name))?;
    let folder = tempfile::tempdir()?;
    let address = server.address(&format!("projects/{project}/repository.git"));
    let git = Git::mirror(&address, &server.authorization()?, server.git_timeout(), folder.path())?;
    let local = git.refs()?;
    let tips: Vec<&str> = local.values().map(String::as_str).collect();
    writeln!(io::stdout(), "{}", send::send(server, &git, project, &tips, &[])?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::Parser;

    use super::*;
    use crate::wait::try_accept;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        repack: Repack,
    }

    #[test]
    fn a_server_that_hangs_is_not_asked_about_each_project() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options =
            ["hexad", "--url", &url, "--token", "t", "--timeout", "100ms", "--project", "1", "--project", "2"];
        let error = Program::parse_from(options).repack.run().unwrap_err();
        assert!(error.is::<ServerTimeout>(), "{error}");
        assert!(try_accept(&listener).is_some() && try_accept(&listener).is_none(), "one connection");
    }
}
