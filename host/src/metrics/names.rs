//! The names of reasons and operations in metrics, logs and spans.

/// The name of `value` in a list of all values.
pub fn name_of<T: PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(one, _)| *one == value).map_or("", |(_, name)| name)
}
