//! The stored form of each record. Fields that a build does not know are ignored; a field that a
//! record does not have has its default; a word or number that a build does not know means the
//! least that it could allow.

mod feature;
mod is_default;
mod membership;
mod namespace;
mod path;
mod project;
mod token;
mod user;

pub(crate) use feature::FeatureRecords;
pub(crate) use membership::{MembershipsRecord, ShareRecord};
pub(crate) use namespace::NamespaceRecord;
pub(crate) use path::PathRecord;
pub(crate) use project::ProjectRecord;
pub(crate) use token::{TokenMigrationRecord, TokenRecord, UserTokenRecord, UserTokensRecord};
pub(crate) use user::UserRecord;
