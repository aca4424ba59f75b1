//! Ids of repositories, which tell a project's repository from that of an earlier project with the same id.

use directory::project::{self, Existence, Incarnation, Project};
use kit::store::StoreError;
use kit::{Env, id};
use std::fmt;

/// The name of a repository in keys. For the first project with an id, it is that id, as in keys of earlier builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryId {
    pub project: u64,
    /// The number of the incarnation's id; `None` for the first one.
    incarnation: Option<u128>,
}

impl RepositoryId {
    pub fn new(project: u64, incarnation: &Incarnation) -> Self {
        RepositoryId { project, incarnation: incarnation.id().and_then(id::number) }
    }

    /// The repository of the first project with this id.
    pub fn first(project: u64) -> Self {
        RepositoryId { project, incarnation: None }
    }

    pub fn of(project: &Project) -> Self {
        RepositoryId::new(project.id, &project.repository_incarnation)
    }

    /// The repository of the present project with this id; of the first project if it was never imported. `None` if the
    /// project was deleted. 1 read, or 2.
    pub fn find(env: &Env, project: u64) -> Result<Option<Self>, StoreError> {
        Ok(match project::repository_existence(env, project)? {
            Existence::Present(incarnation) => Some(RepositoryId::new(project, &incarnation)),
            Existence::Unknown => Some(RepositoryId::first(project)),
            Existence::Deleted => None,
        })
    }

    /// Whether the project was deleted. 1 read, or 2.
    pub fn is_deleted(self, env: &Env) -> Result<bool, StoreError> {
        Ok(RepositoryId::find(env, self.project)? != Some(self))
    }

    /// Reads the text of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let (project, incarnation) = match text.split_once('-') {
            Some((project, incarnation)) => (project, Some(id::number(incarnation)?)),
            None => (text, None),
        };
        Some(RepositoryId { project: project.parse().ok()?, incarnation })
    }

    pub fn incarnation(self) -> Incarnation {
        self.incarnation.map_or(Incarnation::default(), |number| Incarnation::new(format!("{number:032x}")))
    }

    /// 24 bits that differ from one incarnation to another; 0 for the first one.
    pub fn fingerprint(self) -> [u8; 3] {
        let bytes = self.incarnation.unwrap_or_default().to_be_bytes();
        bytes.last_chunk().copied().unwrap_or_default()
    }
}

/// The id alone for the first project with it.
impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            Some(number) => write!(f, "{}-{number:032x}", self.project),
            None => write!(f, "{}", self.project),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_like_its_project() {
        let later = Incarnation::new("0192000000000000000000000000abcd".into());
        for (incarnation, expected) in [(Incarnation::default(), "7"), (later, "7-0192000000000000000000000000abcd")] {
            let repository = RepositoryId::new(7, &incarnation);
            assert_eq!(repository.to_string(), expected);
            assert_eq!(RepositoryId::parse(expected), Some(repository));
            assert_eq!(RepositoryId::new(7, &repository.incarnation()), repository);
        }
        for text in ["", "x", "7-", "7-x", "-1", "7/8"] {
            assert_eq!(RepositoryId::parse(text), None, "{text}");
        }
    }
}
