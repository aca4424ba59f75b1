//! One consistent snapshot of all namespaces and projects, for lists, searches and counts.
//!
//! The records of single namespaces, projects and memberships are the truth; the catalog is made
//! of them ([`change`]) in the same request that changes them. An instance keeps the tables that it
//! has read and reads again only the parts that changed; a question costs one read.
//!
//! ```ignore
//! let catalog = catalog::read(env)?;
//! let group = catalog.namespace(group_id);
//! let projects = group.projects_below().map(|project| project.id());
//! let snapshot = catalog.access_snapshot(env, &caller)?;
//! let mine = catalog.projects().filter(|project| snapshot.may_read(*project));
//! ```
//!
//! [`Catalog::revision`] changes whenever a namespace, a project, a membership or what a user may
//! do changes, so whatever is made of a revision can be kept under it, for a [`access_snapshot::AccessSnapshot`]
//! together with the user's id and until [`access_snapshot::AccessSnapshot::valid_until`].
//!
//! Everything here is about what is there: what is below a deleted namespace is not.

use super::columns::Texts;
use super::manifest::Manifest;
use super::table;
use super::{row, tree::Tree};
use crate::member::Share;
use crate::namespace::{Details, Visibility};
use crate::project::FeatureAccess;
use std::rc::Rc;

/// A snapshot. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    pub(super) revision: Rc<str>,
    pub(super) manifest: Rc<Manifest>,
    pub(super) namespaces: Rc<table::Namespaces>,
    pub(super) projects: Rc<table::Projects>,
    pub(super) tree: Rc<Tree>,
}

impl Catalog {
    /// Empty before the first import.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The same for every revision with the same namespaces and projects; memberships may differ.
    pub fn tree_version(&self) -> TreeVersion {
        TreeVersion(self.tree.clone())
    }

    /// All namespaces, by id.
    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = Namespace<'_>> + DoubleEndedIterator + Clone {
        self.tree.namespaces().iter().map(|at| self.namespace_at(*at))
    }

    /// The `n`th of [`Catalog::namespaces`].
    pub fn nth_namespace(&self, n: usize) -> Option<Namespace<'_>> {
        self.tree.namespaces().get(n).map(|at| self.namespace_at(*at))
    }

    pub fn namespace(&self, id: u64) -> Option<Namespace<'_>> {
        let at = self.namespaces.ids.binary_search(&id).ok()? as u32;
        self.tree.position(at).map(|_| self.namespace_at(at))
    }

    /// The personal namespace of a user.
    pub fn namespace_of_user(&self, user_id: u64) -> Option<Namespace<'_>> {
        self.tree.personal(user_id).map(|at| self.namespace_at(at))
    }

    /// All projects, by id.
    pub fn projects(&self) -> impl Iterator<Item = Project<'_>> {
        let all = 0..self.projects.ids.len() as u32;
        all.filter(|at| self.tree.namespace_of(*at).is_some()).map(|at| self.project_at(at))
    }

    pub fn project(&self, id: u64) -> Option<Project<'_>> {
        let at = self.projects.ids.binary_search(&id).ok()? as u32;
        self.tree.namespace_of(at).map(|_| self.project_at(at))
    }

    /// The projects that have a domain of their own for their pages, with it.
    pub fn pages_domains(&self) -> impl Iterator<Item = (Project<'_>, &str)> {
        let alive = self.projects.pages_domains.iter().filter(|(at, _)| self.tree.namespace_of(*at).is_some());
        alive.map(|(at, domain)| (self.project_at(*at), domain.as_str()))
    }

    /// The columns of texts, where [`Namespace::row`] is a namespace's place. They also have the
    /// texts of namespaces that are not there, below a deleted one.
    pub fn columns(&self) -> Columns<'_> {
        Columns { paths: &self.namespaces.paths, names: &self.namespaces.names, rows: self.namespaces.ids.len() }
    }

    /// The namespace in a row of [`Catalog::columns`]; `None` if it is not there.
    pub fn namespace_in_row(&self, row: usize) -> Option<Namespace<'_>> {
        let at = u32::try_from(row).ok()?;
        self.tree.position(at).map(|_| self.namespace_at(at))
    }

    /// The rows of all namespaces with those of their parents, parents first.
    pub fn top_down(&self) -> impl Iterator<Item = (usize, Option<usize>)> {
        let order = self.tree.order().iter();
        order.map(|row| (*row as usize, self.tree.parent(*row).map(|parent| parent as usize)))
    }

    fn namespace_at(&self, at: u32) -> Namespace<'_> {
        Namespace { catalog: self, at }
    }

    fn project_at(&self, at: u32) -> Project<'_> {
        Project { catalog: self, at }
    }
}

/// What a catalog's namespaces and projects are, to compare with another catalog's.
#[derive(Clone)]
pub struct TreeVersion(Rc<Tree>);

impl PartialEq for TreeVersion {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// Texts of all namespaces.
pub struct Columns<'a> {
    pub paths: &'a Texts,
    pub names: &'a Texts,
    pub rows: usize,
}

/// A group or a personal namespace.
#[derive(Clone, Copy)]
pub struct Namespace<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) at: u32,
}

impl<'a> Namespace<'a> {
    fn table(self) -> &'a table::Namespaces {
        &self.catalog.namespaces
    }

    /// Its place in [`Catalog::columns`], by id.
    pub fn row(self) -> usize {
        self.at as usize
    }

    pub fn id(self) -> u64 {
        at(&self.table().ids, self.at)
    }

    /// The last segment of its full path.
    pub fn path(self) -> &'a str {
        self.table().paths.get(self.row())
    }

    pub fn name(self) -> &'a str {
        self.table().names.get(self.row())
    }

    pub fn visibility(self) -> Visibility {
        row::visibility(at(&self.table().visibilities, self.at))
    }

    /// The user whose personal namespace this is.
    pub fn owner(self) -> Option<u64> {
        Some(at(&self.table().owner_ids, self.at)).filter(|owner| *owner != 0)
    }

    pub fn is_group(self) -> bool {
        self.owner().is_none()
    }

    /// Whether the owner of this personal namespace is active, and no bot.
    pub fn has_active_human_owner(self) -> bool {
        at(&self.table().owner_flags, self.at) & (table::ACTIVE | table::BOT) == table::ACTIVE
    }

    /// Whether the owner of this personal namespace is active.
    pub fn has_active_owner(self) -> bool {
        at(&self.table().owner_flags, self.at) & table::ACTIVE != 0
    }

    /// Groups whose members have a role here.
    pub fn shares(self) -> Vec<Share> {
        row::shares(&self.table().shares, self.at)
    }

    /// What is known beside.
    pub fn details(self) -> Details {
        let details = &self.table().details;
        let found = details.binary_search_by_key(&self.at, |(row, _)| *row).ok().and_then(|found| details.get(found));
        found.and_then(|(_, json)| serde_json::from_str(json).ok()).unwrap_or_default()
    }

    pub fn parent(self) -> Option<Namespace<'a>> {
        self.catalog.tree.parent(self.at).map(|parent| self.catalog.namespace_at(parent))
    }

    /// This namespace, its parent, and so on up to the top level.
    pub fn lineage(self) -> impl Iterator<Item = Namespace<'a>> {
        std::iter::successors(Some(self), |namespace| namespace.parent())
    }

    pub fn full_path(self) -> String {
        self.joined("/", Namespace::path)
    }

    /// The names from the top level down, with ` / ` between them.
    pub fn full_name(self) -> String {
        self.joined(" / ", Namespace::name)
    }

    fn joined(self, separator: &str, text: fn(Namespace<'a>) -> &'a str) -> String {
        let mut texts: Vec<&str> = self.lineage().map(text).collect();
        texts.reverse();
        texts.join(separator)
    }

    /// This namespace and all below it, parents before what is in them.
    pub fn descendants(self) -> impl ExactSizeIterator<Item = Namespace<'a>> {
        self.catalog.tree.below(self.at).iter().map(move |at| self.catalog.namespace_at(*at))
    }

    /// The namespaces right below this one, by id.
    pub fn children(self) -> impl Iterator<Item = Namespace<'a>> {
        self.descendants().filter(move |below| below.parent().is_some_and(|parent| parent.at == self.at))
    }

    /// The projects in this namespace and in all below it.
    pub fn projects_below(self) -> impl ExactSizeIterator<Item = Project<'a>> {
        self.catalog.tree.projects_below(self.at).iter().map(move |at| self.catalog.project_at(*at))
    }

    /// The projects right in this namespace, by id.
    pub fn projects(self) -> impl ExactSizeIterator<Item = Project<'a>> {
        self.catalog.tree.projects_in(self.at).iter().map(move |at| self.catalog.project_at(*at))
    }
}

#[derive(Clone, Copy)]
pub struct Project<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) at: u32,
}

impl<'a> Project<'a> {
    fn table(self) -> &'a table::Projects {
        &self.catalog.projects
    }

    pub fn id(self) -> u64 {
        at(&self.table().ids, self.at)
    }

    /// The last segment of its full path.
    pub fn path(self) -> &'a str {
        self.table().paths.get(self.at as usize)
    }

    pub fn name(self) -> &'a str {
        self.table().names.get(self.at as usize)
    }

    pub fn visibility(self) -> Visibility {
        row::visibility(at(&self.table().visibilities, self.at))
    }

    /// Who may use its issues.
    pub fn issues(self) -> FeatureAccess {
        row::feature_access(at(&self.table().issues, self.at))
    }

    pub fn archived(self) -> bool {
        at(&self.table().archived, self.at) != 0
    }

    /// Groups whose members have a role here.
    pub fn shares(self) -> Vec<Share> {
        row::shares(&self.table().shares, self.at)
    }

    pub fn namespace(self) -> Namespace<'a> {
        // A project of the catalog has one.
        let at = self.catalog.tree.namespace_of(self.at).unwrap_or_default();
        self.catalog.namespace_at(at)
    }

    pub fn full_path(self) -> String {
        format!("{}/{}", self.namespace().full_path(), self.path())
    }
}

fn at<T: Copy + Default>(column: &[T], row: u32) -> T {
    column.get(row as usize).copied().unwrap_or_default()
}
