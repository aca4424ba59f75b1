//! Actions on packages, and the rights that they need.

/// The action of a request on a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reads metadata or tags.
    Read,
    /// Reads the file. Unlike for [`Action::Read`], an anonymous caller is never asked for credentials.
    Download,
    /// Adds a version or sets a tag. Needs the role Developer.
    Publish,
    /// Removes a version or a tag, or deprecates a version. Needs the role Maintainer.
    Unpublish,
}

impl Action {
    pub fn is_write(self) -> bool {
        matches!(self, Action::Publish | Action::Unpublish)
    }
}

/// An action as a type, so that the compiler refuses a right to another action.
pub trait Permission {
    const ACTION: Action;
}

pub struct Read;
pub struct Download;
pub struct Publish;
pub struct Unpublish;

impl Permission for Read {
    const ACTION: Action = Action::Read;
}

impl Permission for Download {
    const ACTION: Action = Action::Download;
}

impl Permission for Publish {
    const ACTION: Action = Action::Publish;
}

impl Permission for Unpublish {
    const ACTION: Action = Action::Unpublish;
}
