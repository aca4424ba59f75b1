//! Plain values: the nouns of the directory, without storage.

pub mod address;
pub mod feature;
pub mod incarnation;
pub mod membership;
pub mod namespace;
pub mod project;
pub mod role;
pub mod token;
pub mod user;
