//! Which fields are left out of a stored record.

/// Whether a field has its default, and so need not be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
