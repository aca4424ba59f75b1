//! The keys. The crate's documentation has the table.

use crate::name::PackageName;
use directory::project::ProjectKey;
use std::fmt::{self, Write as _};

/// Everything this component writes is below this prefix; the number is the format's.
pub const PREFIX: &str = "package-registry/v1/";

/// What format 2 added. A host does not serve a component that reads format 1 only from a store with such keys.
const PREFIX_2: &str = "package-registry/v2/";

/// Where requests are counted, by caller and by address.
pub const CALLER_RATES: &str = "package-registry/v1/rate/caller/";
pub const ADDRESS_RATES: &str = "package-registry/v1/rate/address/";
pub const LOOKUP_RATES: &str = "package-registry/v1/rate/lookup/";
pub const SEARCH_RATES: &str = "package-registry/v1/rate/search/";

/// Bytes of most keys. Those with long names are longer.
const MOST: usize = 128;

/// A key below [`PREFIX`].
pub enum Key<'a> {
    Package(&'a ProjectKey, &'a PackageName),
    ProjectsWithName(&'a PackageName),
    ProjectsWithVersion(&'a PackageName, &'a str),
    /// A list of [`super::package_names`], by its place in their tree.
    PackageNames(&'a ProjectKey, &'a str),
    Projects,
    Index(&'a str),
    Full(&'a str),
    Abbreviated(&'a str),
    Upload(&'a str),
    LatestFields(&'a str),
    Attestations(&'a str),
    Chunk(&'a str, usize),
}

impl Key<'_> {
    /// How the keys of [`Key::PackageNames`] begin.
    pub fn package_names() -> [String; 2] {
        [PREFIX, PREFIX_2].map(|prefix| format!("{prefix}project/"))
    }

    /// The project of a [`Key::PackageNames`]; `None` for other keys, and for the counter beside one.
    pub fn parse_package_names(key: &str) -> Option<ProjectKey> {
        let [first, below] = Self::package_names();
        let (project, place) = match key.strip_prefix(&first) {
            Some(project) => (project, ""),
            None => key.strip_prefix(&below)?.split_once('/')?,
        };
        let is_list = !project.contains('/') && place.bytes().all(|digit| digit.is_ascii_hexdigit());
        ProjectKey::parse(project).filter(|_| is_list)
    }

    /// The key as text. `to_string` would begin with an empty one and let it grow.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(MOST);
        let _ = write!(text, "{self}");
        text
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Key::PackageNames(_, place) if !place.is_empty() => f.write_str(PREFIX_2)?,
            _ => f.write_str(PREFIX)?,
        }
        match self {
            Key::Package(project, name) => write!(f, "package/{project}/{name}"),
            Key::ProjectsWithName(name) => write!(f, "name/{name}"),
            Key::ProjectsWithVersion(name, version) => write!(f, "version/{name}/{version}"),
            Key::PackageNames(project, "") => write!(f, "project/{project}"),
            Key::PackageNames(project, place) => write!(f, "project/{project}/{place}"),
            Key::Projects => f.write_str("projects"),
            Key::Index(segment) => write!(f, "segment/{segment}/index"),
            Key::Full(segment) => write!(f, "segment/{segment}/full"),
            Key::Abbreviated(segment) => write!(f, "segment/{segment}/abbreviated"),
            Key::Upload(upload) => write!(f, "upload/{upload}"),
            Key::LatestFields(upload) => write!(f, "upload/{upload}/about"),
            Key::Attestations(upload) => write!(f, "upload/{upload}/attestations"),
            Key::Chunk(upload, number) => write!(f, "upload/{upload}/{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::root;

    #[test]
    fn lists_of_names_are_told_from_the_counters_beside_them() {
        for project in ["7", "7-01a0c4e1a80000000000000000000009"] {
            let project = ProjectKey::parse(project).unwrap();
            for place in ["", "0", "0f3"] {
                let key = Key::PackageNames(&project, place).text();
                assert_eq!(Key::parse_package_names(&key).as_ref(), Some(&project), "{key}");
                assert_eq!(Key::parse_package_names(&root::counter(&key)), None, "{key}");
            }
            let package = Key::Package(&project, &PackageName::parse("lib").unwrap()).text();
            assert_eq!(Key::parse_package_names(&package), None);
        }
        assert_eq!(Key::parse_package_names(&Key::Projects.text()), None);
    }
}
