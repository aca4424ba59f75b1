//! The records of an import, in the shape of the reference service's own entities: one JSON object
//! with a `kind`. Fields that are not known are ignored, so that whole entities can be sent.

mod deserialize;
mod details;
mod feature;
mod group;
mod member;
mod project;
mod reference;
mod setting;
mod token;
mod unkept;
mod user;

use crate::line_error::{InvalidLine, LineError};
use details::DetailsFields;
use directory::catalog::changes::Changes;
use directory::catalog::dangling::DeletedRecords;
use directory::dependents;
use directory::namespace::Details;
use feature::{Feature, PendingGates};
use group::Group;
use kit::Env;
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use member::{MemberRecord, PendingMemberships};
use project::Project;
use reference::ById;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::num::NonZeroU64;
use token::TokenRecord;
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

/// Changes that lines leave to the end of their batch, because a record that they name may come after them.
#[derive(Default)]
pub struct PendingChanges {
    memberships: PendingMemberships,
    gates: PendingGates,
}

impl PendingChanges {
    /// Writes the memberships and reports their lines. A record that is deleted by then gets no role and no feature,
    /// and the report says so.
    pub fn write(self, env: &Env, report: &mut ImportReport) -> Result<(), StoreError> {
        let mut deleted = DeletedRecords::default();
        self.memberships.write(env, &mut deleted, report)?;
        self.gates.close_of_deleted(env, report)
    }
}

/// One line, read and not applied yet.
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

/// Whose namespace a record may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceOwner {
    Group(u64),
    User(u64),
}

impl Record {
    pub fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        // Serde would also read an array as a struct's fields in order.
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

    /// Adds the changes of this record, for the catalog to follow.
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

    /// The group, or the user with a personal namespace, that this creates or changes.
    pub fn namespace_owner(&self) -> Option<NamespaceOwner> {
        match self {
            Record::Group(group, _) => Some(NamespaceOwner::Group(group.id.get())),
            Record::User(user, _) => Some(NamespaceOwner::User(user.id.get())),
            _ => None,
        }
    }

    /// A warning to the operator about the record, although it is valid.
    pub fn warning(&self) -> Option<String> {
        match self {
            Record::Project(project) => project.warning(),
            Record::Group(group, _) => group.warning(),
            Record::Setting(fields, false) => setting::warning(fields),
            _ => None,
        }
    }

    /// Whether other records can depend on the one that this changes.
    pub fn is_of_tree(&self) -> bool {
        match self {
            Record::User(..) | Record::Group(..) | Record::Project(_) | Record::Member(..) => true,
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => false,
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => false,
        }
    }

    /// Whether dependents may be deleted or moved with this record. They are looked up in the catalog.
    pub fn changes_dependents(&self, env: &Env) -> Result<bool, StoreError> {
        match self {
            Record::DeleteUser(_) | Record::DeleteGroup(_) | Record::DeleteProject(_) => Ok(true),
            Record::User(user, _) => user.moves_namespace(env),
            Record::Group(group, _) => group.moves_below(env),
            _ => Ok(false),
        }
    }

    /// Writes the record of a line. False for a membership: it only goes into `pending`, which reports it.
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
            Record::Setting(fields, deleted) => setting::apply(env, fields, deleted),
            Record::Feature(feature, deleted) => feature.apply(env, line, deleted, &mut pending.gates),
        };
        written.map(|()| true)
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(InvalidLine::Json)
}

/// A warning that restrictions of the reference service are not kept, of which each has a value.
fn unkept(restrictions: &[(&str, &Option<Value>)]) -> Option<String> {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        value => value.is_null() || *value == false,
    };
    let given = restrictions.iter().filter(|(_, value)| value.as_ref().is_some_and(|value| !is_empty(value)));
    let names: Vec<&str> = given.map(|(name, _)| *name).collect();
    (!names.is_empty())
        .then(|| format!("not supported by this server, which does not restrict by it: {}", names.join(", ")))
}

fn details(line: &[u8]) -> Result<Box<Details>, InvalidLine> {
    parse::<DetailsFields>(line).map(|fields| Box::new(fields.into()))
}

fn parse_secret<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(|why| InvalidLine::SecretJson { column: why.column() })
}
