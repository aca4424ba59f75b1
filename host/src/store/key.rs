//! Keys, and the limits of keys and values.

use std::sync::Arc;

/// Longest key, in bytes. Spin's engines have no limit. With this one, each page of the table's index holds several
/// keys.
pub const MAX_KEY_BYTES: usize = 1024;

/// Largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 32 * 1024 * 1024;

/// A key in a store. The store is the label that the component opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub store: Arc<str>,
    pub key: Arc<str>,
}
