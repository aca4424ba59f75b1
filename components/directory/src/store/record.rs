//! The stored form of each record. Unknown fields are ignored. A missing field has its default. An unknown word or
//! number means the least access.

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
