//! Plain values: the nouns of the directory, without storage.

pub mod feature;
pub mod incarnation;
pub mod membership;
pub mod namespace;
pub mod project;
pub mod token;
pub mod user;

/// Whether a field of a stored record has its default and is omitted.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
