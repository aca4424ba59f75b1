//! The texts of an issue that can be searched.

/// A searchable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Title,
    Description,
}

pub const FIELDS: [Field; 2] = [Field::Title, Field::Description];
