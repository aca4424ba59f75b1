//! The keys. The crate's documentation has the table.

use crate::name::PackageName;
use directory::namespace::Namespace;
use directory::project::ProjectKey;
use std::fmt::{self, Write as _};

/// Everything this component writes is below this prefix; the number is the format's.
pub const PREFIX: &str = "package-registry/v1/";

/// The prefix of keys that format 2 added. If a store has such keys, a host refuses a component that reads format 1
/// only.
const PREFIX_2: &str = "package-registry/v2/";

/// The prefix of keys that format 3 added, likewise.
const PREFIX_3: &str = "package-registry/v3/";

/// Where requests are counted, by caller and by address.
pub const CALLER_RATES: &str = "package-registry/v1/rate/caller/";
pub const ADDRESS_RATES: &str = "package-registry/v1/rate/address/";
pub const LOOKUP_RATES: &str = "package-registry/v1/rate/lookup/";
pub const SEARCH_RATES: &str = "package-registry/v1/rate/search/";

/// Bytes that most keys need. Keys with long names are longer.
const USUAL_LENGTH: usize = 128;

/// A top-level namespace in keys: its id and, unless it is the first with the id, its incarnation.
#[derive(Debug, Clone)]
pub struct RootKey(String);

impl From<&Namespace> for RootKey {
    fn from(root: &Namespace) -> Self {
        RootKey(format!("{}{}", root.id, root.incarnation))
    }
}

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key below [`PREFIX`].
pub enum Key<'a> {
    Package(&'a ProjectKey, &'a PackageName),
    ProjectsByName(&'a PackageName),
    ProjectsByVersion(&'a PackageName, &'a str),
    /// The list of a version below one top-level namespace, for names that other namespaces can have, too.
    ProjectsByVersionBelow(&'a RootKey, &'a PackageName, &'a str),
    NameOwner(&'a RootKey, &'a PackageName),
    Reservations(&'a RootKey),
    VersionId(u64),
    Protection(&'a ProjectKey),
    /// The root of a list of [`super::package_names`], or with digits a record of a former tree.
    PackageNames(&'a ProjectKey, &'a str),
    /// The root of a [`kit::list`].
    Projects,
    Index(&'a str),
    Full(&'a str),
    Abbreviated(&'a str),
    Upload(&'a str),
    PackageLevelFields(&'a str),
    Attestations(&'a str),
    Chunk(&'a str, usize),
}

impl Key<'_> {
    /// Present if lists may have the form of format 3. A host then refuses a component that reads earlier formats only,
    /// also while no list has pages.
    pub const FORMAT_3: &'static str = "package-registry/v3/format";

    /// The prefix of the pages of [`Key::Projects`].
    pub fn project_pages() -> String {
        format!("{PREFIX_3}projects/")
    }

    /// The prefix of the pages of the lists of package names.
    pub fn name_pages() -> String {
        format!("{PREFIX_3}names/")
    }

    /// The prefixes of [`Key::PackageNames`].
    pub fn package_names() -> [String; 2] {
        [PREFIX, PREFIX_2].map(|prefix| format!("{prefix}project/"))
    }

    /// The prefix of [`Key::Protection`].
    pub fn protections() -> String {
        format!("{PREFIX}protection/")
    }

    /// The project of a [`Key::Protection`]; `None` for other keys.
    pub fn parse_protection(key: &str) -> Option<ProjectKey> {
        ProjectKey::parse(key.strip_prefix(&Self::protections())?)
    }

    /// The project of a [`Key::PackageNames`]; `None` for other keys, and for the counter of such a key.
    pub fn parse_package_names(key: &str) -> Option<ProjectKey> {
        let [first, below] = Self::package_names();
        let (project, digits) = match key.strip_prefix(&first) {
            Some(project) => (project, ""),
            None => key.strip_prefix(&below)?.split_once('/')?,
        };
        let is_list = !project.contains('/') && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        ProjectKey::parse(project).filter(|_| is_list)
    }

    /// The key as text. Unlike `to_string`, it reserves the space of most keys at once.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(USUAL_LENGTH);
        let _ = write!(text, "{self}");
        text
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Key::PackageNames(_, digits) if !digits.is_empty() => f.write_str(PREFIX_2)?,
            _ => f.write_str(PREFIX)?,
        }
        match self {
            Key::Package(project, name) => write!(f, "package/{project}/{name}"),
            Key::ProjectsByName(name) => write!(f, "name/{name}"),
            Key::ProjectsByVersion(name, version) => write!(f, "version/{name}/{version}"),
            Key::ProjectsByVersionBelow(root, name, version) => write!(f, "claim/{root}/{name}/{version}"),
            Key::NameOwner(root, name) => write!(f, "owner/{root}/{name}"),
            Key::Reservations(root) => write!(f, "reserved/{root}"),
            // Keys sort as the numbers do, so that garbage collection reads its sorted marks in order.
            Key::VersionId(id) => write!(f, "id/{id:014x}"),
            Key::Protection(project) => write!(f, "protection/{project}"),
            Key::PackageNames(project, "") => write!(f, "project/{project}"),
            Key::PackageNames(project, digits) => write!(f, "project/{project}/{digits}"),
            Key::Projects => f.write_str("projects"),
            Key::Index(run) => write!(f, "segment/{run}/index"),
            Key::Full(run) => write!(f, "segment/{run}/full"),
            Key::Abbreviated(run) => write!(f, "segment/{run}/abbreviated"),
            Key::Upload(upload) => write!(f, "upload/{upload}"),
            Key::PackageLevelFields(upload) => write!(f, "upload/{upload}/about"),
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
    fn lists_of_names_are_distinguished_from_their_counters() {
        for project in ["7", "7-01a0c4e1a80000000000000000000009"] {
            let project = ProjectKey::parse(project).unwrap();
            for digits in ["", "0", "0f3"] {
                let key = Key::PackageNames(&project, digits).text();
                assert_eq!(Key::parse_package_names(&key).as_ref(), Some(&project), "{key}");
                assert_eq!(Key::parse_package_names(&root::counter(&key)), None, "{key}");
            }
            let package = Key::Package(&project, &PackageName::parse("lib").unwrap()).text();
            assert_eq!(Key::parse_package_names(&package), None);
        }
        assert_eq!(Key::parse_package_names(&Key::Projects.text()), None);
    }
}
