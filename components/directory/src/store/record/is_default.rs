//! Defaults, which are omitted from a stored record.

/// Whether a field has its default and is omitted.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
