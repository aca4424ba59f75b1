//! `hexad user`, `hexad group` and `hexad project`: what the directory has, and its deletion.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hexad::cli::printable;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::SendBody;

use crate::import_git::encode;
use crate::list::{self, Column, Output};
use crate::server::Server;

/// List and delete users.
#[derive(Args)]
pub struct User {
    #[command(subcommand)]
    command: Command,
}

/// List and delete groups.
#[derive(Args)]
pub struct Group {
    #[command(subcommand)]
    command: Command,
}

/// List and delete projects.
#[derive(Args)]
pub struct Project {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(List),
    Delete(Delete),
}

/// List all of them, or the matches of a search.
#[derive(Args)]
struct List {
    /// Only those with this text in a name or a path.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    server: Server,
}

/// Delete one, with everything that belongs to it. `hexad backup` makes a copy of the store before.
#[derive(Args)]
struct Delete {
    /// The name of the user or the full path of the group or project, or the id.
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    server: Server,
}

/// One kind of records.
struct Kind {
    noun: &'static str,
    list: &'static str,
    columns: &'static [Column],
    /// The field with the name.
    name: &'static str,
}

const USERS: Kind = Kind {
    noun: "user",
    list: "users",
    columns: &[("id", 8), ("username", 24), ("state", 8), ("name", 0)],
    name: "username",
};
const GROUPS: Kind = Kind {
    noun: "group",
    list: "groups",
    columns: &[("id", 8), ("full_path", 32), ("visibility", 10), ("name", 0)],
    name: "full_path",
};
const PROJECTS: Kind = Kind {
    noun: "project",
    list: "projects",
    columns: &[("id", 8), ("path_with_namespace", 32), ("visibility", 10), ("name", 0)],
    name: "path_with_namespace",
};

impl User {
    pub fn run(self) -> Result<()> {
        self.command.run(&USERS)
    }
}

impl Group {
    pub fn run(self) -> Result<()> {
        self.command.run(&GROUPS)
    }
}

impl Project {
    pub fn run(self) -> Result<()> {
        self.command.run(&PROJECTS)
    }
}

/// The answer of the import.
#[derive(Deserialize)]
struct Report {
    errors: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Command {
    fn run(self, kind: &Kind) -> Result<()> {
        match self {
            Self::List(List { search, output, server }) => {
                let search = search.map_or_else(String::new, |text| format!("&search={}", encode(&text)));
                let path = format!("{}?order_by=id&sort=asc{search}", kind.list);
                list::write(&server, &path, kind.columns, &output)
            }
            Self::Delete(Delete { name, server }) => {
                let (noun, Found { id, name }) = (kind.noun, find(&server, kind, &name)?);
                let line = json!({"kind": noun, "id": id, "deleted": true}).to_string();
                let mut bytes = line.as_bytes();
                let body = SendBody::from_reader(&mut bytes);
                let report: Report = server.post("import/directory", "application/x-ndjson", body)?;
                if let Some(Refusal { error }) = report.errors.first() {
                    bail!("the {noun} {name} was not deleted: {error}");
                }
                Ok(writeln!(std::io::stdout(), "deleted the {noun} {name} with the id {id}")?)
            }
        }
    }
}

/// A record that the server has.
pub struct Found {
    pub id: u64,
    name: String,
}

/// The user with a name or an id.
pub fn find_user(server: &Server, name: &str) -> Result<Found> {
    find(server, &USERS, name)
}

fn find(server: &Server, kind: &Kind, name: &str) -> Result<Found> {
    let is_id = name.bytes().all(|byte| byte.is_ascii_digit());
    let (noun, list, segment) = (kind.noun, kind.list, encode(name));
    let found: Option<Value> = match noun == USERS.noun && !is_id {
        true => serde_json::from_str::<Vec<Value>>(&server.get(&format!("{list}?username={segment}"))?)?.pop(),
        false => Some(serde_json::from_str(&server.get(&format!("{list}/{segment}"))?)?),
    };
    let field = |field: &str| found.as_ref()?.get(field);
    let id = field("id").and_then(Value::as_u64);
    let id = id.with_context(|| format!("there is no {noun} {name}; `hexad {noun} list` shows them"))?;
    Ok(Found { id, name: printable(field(kind.name).and_then(Value::as_str).unwrap_or(name)) })
}
