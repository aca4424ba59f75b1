//! The error about a component that the manifest does not have.

/// Lists the manifest's components, so that the reader sees a typing error.
#[derive(Debug, thiserror::Error)]
#[error("there is no component `{id}` in the manifest, which has {known}")]
pub struct UnknownComponent {
    id: String,
    known: String,
}

impl UnknownComponent {
    pub fn new<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<_> = known.map(|id| format!("`{id}`")).collect();
        Self { id: id.to_owned(), known: known.join(", ") }
    }
}
