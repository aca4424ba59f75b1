//! The records of an import, in the form of the entities of the reference service: one JSON object with a `kind`.
//! Unknown fields are ignored, so that clients can send whole entities.

mod feature;
mod project;
mod reference;
mod user;

use crate::line_error::{InvalidLine, LineError};
use crate::record::project::Group;
use crate::record::reference::DetailsFields;
use crate::record::user::{MemberRecord, PendingMemberships, TokenRecord};
use directory::catalog::changes::{Changes, DeletedRecords};
use directory::dependents;
use directory::namespace::Details;
use feature::{Feature, PendingGates};
use kit::Env;
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use project::Project;
use reference::ById;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::num::NonZeroU64;
use user::User;

/// The kinds of records.
pub const KINDS: [&str; 7] = ["user", "token", "group", "project", "member", "setting", "feature"];

#[derive(Deserialize)]
struct RecordHead<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    deleted: bool,
}

/// Changes that are written at the end of the batch. A record that they name may follow after them.
#[derive(Default)]
pub struct PendingChanges {
    memberships: PendingMemberships,
    gates: PendingGates,
}

impl PendingChanges {
    /// Writes the memberships and reports their lines. A record that is deleted by then gets neither role nor feature,
    /// and the report warns about it.
    pub fn write(self, env: &Env, report: &mut ImportReport) -> Result<(), StoreError> {
        let mut deleted = DeletedRecords::default();
        self.memberships.write(env, &mut deleted, report)?;
        self.gates.close_for_deleted(env, report)
    }
}

/// A parsed line that is not applied yet.
pub enum Record {
    User(User, Box<Details>),
    DeleteUser(ById),
    Token(TokenRecord, Deleted),
    Group(Box<Group>, Box<Details>),
    DeleteGroup(ById),
    Project(Box<Project>),
    DeleteProject(ById),
    Member(MemberRecord, Deleted),
    Setting(Map<String, Value>, Deleted),
    Feature(Feature, Deleted),
}

type Deleted = bool;

/// The owner of a namespace that a record may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceOwner {
    Group(u64),
    User(u64),
}

impl Record {
    pub fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        // From an array, serde would read the fields of a struct in order.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(InvalidLine::NotAnObject);
        }
        let head: RecordHead = serde_json::from_slice(line).map_err(InvalidLine::Json)?;
        let deleted = head.deleted;
        match (&*head.kind, deleted) {
            ("user", false) => Ok(Record::User(parse(line)?, details(line)?)),
            ("user", true) => parse(line).map(Record::DeleteUser),
            ("token", _) => Ok(Record::Token(parse_secret(line)?, deleted)),
            ("group", false) => Ok(Record::Group(parse(line)?, details(line)?)),
            ("group", true) => parse(line).map(Record::DeleteGroup),
            ("project", false) => parse(line).map(Record::Project),
            ("project", true) => parse(line).map(Record::DeleteProject),
            ("member", _) => Ok(Record::Member(parse(line)?, deleted)),
            ("setting", _) => Ok(Record::Setting(parse_secret(line)?, deleted)),
            ("feature", _) => Ok(Record::Feature(parse(line)?, deleted)),
            _ => Err(InvalidLine::UnknownKind { kind: head.kind.into_owned(), known: &KINDS }),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Record::User(..) | Record::DeleteUser(_) => "user",
            Record::Token(..) => "token",
            Record::Group(..) | Record::DeleteGroup(_) => "group",
            Record::Project(_) | Record::DeleteProject(_) => "project",
            Record::Member(..) => "member",
            Record::Setting(..) => "setting",
            Record::Feature(..) => "feature",
        }
    }

    /// Adds the changes of this record to the changes of the catalog.
    pub fn add_to(&self, changes: &mut Changes) {
        match self {
            Record::User(user, _) => changes.user(user.id.get(), user.namespace_id.map(NonZeroU64::get)),
            Record::DeleteUser(user) => changes.delete_user(user.id.get()),
            Record::Group(group, _) => changes.group(group.id.get()),
            Record::DeleteGroup(group) => changes.delete_group(group.id.get()),
            Record::Project(project) => changes.project(project.id.get()),
            Record::DeleteProject(project) => changes.delete_project(project.id.get()),
            Record::Member(member, _) => member.add_to(changes),
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => {}
        }
    }

    /// The group or the user that this record creates or changes.
    pub fn namespace_owner(&self) -> Option<NamespaceOwner> {
        match self {
            Record::Group(group, _) => Some(NamespaceOwner::Group(group.id.get())),
            Record::User(user, _) => Some(NamespaceOwner::User(user.id.get())),
            _ => None,
        }
    }

    /// A warning for the operator about a valid record.
    pub fn warning(&self) -> Option<String> {
        match self {
            Record::Project(project) => project.warning(),
            Record::Group(group, _) => group.warning(),
            Record::Setting(fields, false) => feature::warning(fields),
            _ => None,
        }
    }

    /// Whether other records may depend on the changed record.
    pub fn changes_tree(&self) -> bool {
        match self {
            Record::User(..) | Record::Group(..) | Record::Project(_) | Record::Member(..) => true,
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => false,
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => false,
        }
    }

    /// Whether this record may delete or move dependents. These are looked up in the catalog.
    pub fn changes_dependents(&self, env: &Env) -> Result<bool, StoreError> {
        match self {
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => Ok(true),
            Record::User(user, _) => user.moves_namespace(env),
            Record::Group(group, _) => group.changes_parent(env),
            _ => Ok(false),
        }
    }

    /// Writes the record of a line. False for a membership, which `pending` writes and reports later.
    pub fn apply(self, env: &Env, line: u64, pending: &mut PendingChanges) -> Result<bool, LineError> {
        let written = match self {
            Record::User(user, details) => user.save(env, *details),
            Record::DeleteUser(user) => Ok(dependents::delete_user(env, user.id.get())?),
            Record::Token(token, deleted) => token.apply(env, deleted),
            Record::Group(group, details) => group.save(env, *details),
            Record::DeleteGroup(group) => Ok(dependents::delete_group(env, group.id.get())?),
            Record::Project(project) => project.save(env),
            Record::DeleteProject(project) => Ok(dependents::delete_project(env, project.id.get())?),
            Record::Member(member, deleted) => {
                return member.apply(line, deleted, &mut pending.memberships).map(|()| false);
            }
            Record::Setting(fields, deleted) => feature::apply(env, fields, deleted),
            Record::Feature(feature, deleted) => feature.apply(env, line, deleted, &mut pending.gates),
        };
        written.map(|()| true)
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(InvalidLine::Json)
}

fn details(line: &[u8]) -> Result<Box<Details>, InvalidLine> {
    let details = DetailsFields::deserialize(&mut serde_json::Deserializer::from_slice(line));
    details.map(Box::new).map_err(InvalidLine::Json)
}

fn parse_secret<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(|why| InvalidLine::SecretJson { column: why.column() })
}
