//! A name's packages of several projects as one package. The owner's is the first. Of one version in several projects,
//! the first project's is served.

use crate::package::{LATEST, Package};
use directory::project::Project;
use kit::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use xxhash_rust::xxh3::Xxh3;

/// A project's package of a name. It lists a version.
#[derive(Clone)]
pub struct Holder {
    pub project: Rc<Project>,
    pub package: Rc<Package>,
    /// Whether its `latest` counts, set or computed. Only the owner's does, and the only package at project level.
    pub provides_latest: bool,
}

impl Holder {
    /// Its tags that count, each with its version.
    fn tags(&self) -> BTreeMap<&str, &str> {
        let mut tags = self.package.dist_tags();
        if !self.provides_latest {
            tags.remove(LATEST);
        }
        tags
    }
}

/// The packages of one name.
pub struct MergedPackage {
    first: Holder,
    others: Vec<Holder>,
}

impl MergedPackage {
    /// The package of one project.
    pub fn of(only: Holder) -> Self {
        MergedPackage { first: only, others: Vec::new() }
    }

    /// The packages of several projects, the most important first. `None` without a package.
    pub fn merge(holders: Vec<Holder>) -> Option<Self> {
        let mut holders = holders.into_iter();
        Some(MergedPackage { first: holders.next()?, others: holders.collect() })
    }

    pub fn first(&self) -> &Holder {
        &self.first
    }

    pub fn iter(&self) -> impl Iterator<Item = &Holder> {
        [&self.first].into_iter().chain(&self.others)
    }

    pub fn projects(&self) -> impl Iterator<Item = &Project> {
        self.iter().map(|holder| &*holder.project)
    }

    pub fn has_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// The first package in which `look` finds something.
    pub fn find<'a, T, E>(
        &'a self,
        mut look: impl FnMut(&'a Package) -> Result<Option<T>, E>,
    ) -> Result<Option<(&'a Holder, T)>, E> {
        for holder in self.iter() {
            if let Some(found) = look(&holder.package)? {
                return Ok(Some((holder, found)));
            }
        }
        Ok(None)
    }

    /// Every tag and its version. A tag of the first package counts before equal tags of the others.
    pub fn tags(&self) -> BTreeMap<&str, &str> {
        let mut tags = self.first.tags();
        for holder in &self.others {
            for (tag, version) in holder.tags() {
                tags.entry(tag).or_insert(version);
            }
        }
        tags
    }

    /// The package whose tag of this name counts.
    pub fn provider(&self, tag: &str) -> Option<&Holder> {
        self.iter().find(|holder| holder.tags().contains_key(tag))
    }

    /// Whether a tag that is set in the package of `holder` would not count here.
    pub fn hides_tag(&self, holder: &Holder, tag: &str) -> bool {
        let is_holder = |other: &Holder| Rc::ptr_eq(&other.package, &holder.package);
        (tag == LATEST && !holder.provides_latest)
            || self.iter().take_while(|other| !is_holder(other)).any(|other| other.tags().contains_key(tag))
    }

    /// Differs for every revision of the packages, and for every change of their order and rights.
    pub fn write_revision_id(&self, out: &mut String) {
        self.first.package.write_revision_id(out);
        if self.others.is_empty() && self.first.provides_latest {
            return;
        }
        let mut hash = Xxh3::new();
        for holder in self.iter() {
            let mut id = holder.package.revision_id();
            let _ = writeln!(id, "/{}", holder.provides_latest);
            hash.update(id.as_bytes());
        }
        // Writing to a `String` does not fail.
        let _ = write!(out, ".{:016x}", hash.digest());
    }

    pub fn created(&self) -> Timestamp {
        self.others.iter().fold(self.first.package.created, |least, holder| least.min(holder.package.created))
    }

    pub fn modified(&self) -> Timestamp {
        self.others.iter().fold(self.first.package.modified, |most, holder| most.max(holder.package.modified))
    }

    /// At most how many versions metadata lists.
    pub fn listed(&self) -> u64 {
        self.iter().map(|holder| holder.package.listed()).sum()
    }

    /// The upload with the package-level fields.
    pub fn latest_upload(&self) -> Option<&str> {
        self.provider(LATEST).unwrap_or(&self.first).package.latest_upload.as_deref()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::package::RunRef;
    use crate::version::Version;
    use directory::namespace::{Details, Namespace, NamespaceKind, Visibility};
    use directory::project::{FeatureAccess, Incarnation, JobTokenScope};

    /// A package of some project, whose `latest` counts.
    pub fn holder(package: Package) -> Holder {
        let namespace = Namespace {
            id: 10,
            incarnation: Incarnation::default(),
            name: "acme".into(),
            path: "acme".into(),
            kind: NamespaceKind::Group,
            visibility: Visibility::Public,
            shares: Vec::new(),
            details: Details::default(),
            parent: None,
        };
        let project = Project {
            id: 7,
            incarnation: Incarnation::default(),
            repository_incarnation: Incarnation::default(),
            name: "web".into(),
            path: "web".into(),
            namespace,
            visibility: Visibility::Public,
            registry: FeatureAccess::Enabled,
            issues: FeatureAccess::Enabled,
            repository: FeatureAccess::Enabled,
            merge_requests: FeatureAccess::Enabled,
            archived: false,
            default_branch: None,
            creator: None,
            shares: Vec::new(),
            job_tokens: JobTokenScope { restricted: true, projects: Vec::new(), groups: Vec::new() },
            job_token_incarnations: BTreeMap::new(),
            protected_branches: None,
            suggestion_commit_message: None,
            analytics: Default::default(),
            pages_unique_domain: None,
        };
        Holder { project: Rc::new(project), package: Rc::new(package), provides_latest: true }
    }

    fn package(time: i64, tags: &[(&str, &str)]) -> Package {
        let mut package = Package::new(Timestamp::from_millis(time));
        for (tag, version) in tags {
            let run = RunRef { id: (*version).into(), listed: 1, size: 1, checksums: None };
            let upload = format!("u{version}");
            let version = Version::parse(version).unwrap();
            package.publish(&version, tag, &upload, 0, run, Timestamp::from_millis(time)).unwrap();
        }
        package
    }

    #[test]
    fn tags_of_the_first_package_count_and_latest_only_where_it_may() {
        let owner = holder(package(5, &[("latest", "1.0.0"), ("beta", "1.1.0-b")]));
        let second = Holder {
            provides_latest: false,
            ..holder(package(3, &[("latest", "9.0.0"), ("beta", "9.1.0"), ("next", "9.2.0")]))
        };
        let merged = MergedPackage::merge(vec![owner.clone(), second.clone()]).unwrap();
        let (owner, second) = (merged.first(), merged.iter().nth(1).unwrap());
        assert_eq!(merged.tags(), BTreeMap::from([("latest", "1.0.0"), ("beta", "1.1.0-b"), ("next", "9.2.0")]));
        assert_eq!((merged.latest_upload(), merged.listed()), (Some("u1.0.0"), 5));
        assert_eq!((merged.created().millis(), merged.modified().millis()), (3, 5));
        let hides = |holder: &Holder| ["latest", "beta", "next", "x"].map(|tag| merged.hides_tag(holder, tag));
        assert_eq!((hides(owner), hides(second)), ([false; 4], [true, true, false, false]));
        assert!(merged.provider("none").is_none());
        let alone = MergedPackage::of(second.clone());
        assert_eq!(alone.tags(), BTreeMap::from([("beta", "9.1.0"), ("next", "9.2.0")]));
        assert_eq!(alone.latest_upload(), Some("u9.0.0"), "its readme is shown");
        assert!(MergedPackage::merge(Vec::new()).is_none());
    }
}
