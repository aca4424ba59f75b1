//! A snapshot of all namespaces and projects, and views of single ones.

use super::columns::Texts;
use super::manifest::Manifest;
use super::table;
use super::{row, tree::Tree};
use crate::member::Share;
use crate::namespace::{Details, Visibility};
use crate::project::FeatureAccess;
use crate::store::ShareRecord;
use crate::user::UserKey;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A snapshot of all namespaces and projects. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    pub(super) revision: Rc<str>,
    pub(super) manifest: Rc<Manifest>,
    pub(super) namespaces: Rc<table::Namespaces>,
    pub(super) projects: Rc<table::Projects>,
    pub(super) tree: Rc<Tree>,
}

impl Catalog {
    /// The id of the catalog's revision; empty before the first import.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Equal for revisions with the same namespaces and projects. Memberships may differ.
    pub fn tree_version(&self) -> TreeVersion {
        TreeVersion(self.tree.clone())
    }

    /// All namespaces, by id.
    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = NamespaceView<'_>> + DoubleEndedIterator + Clone {
        self.tree.namespaces().iter().map(|row| self.namespace_at(*row))
    }

    /// The `n`th of [`Catalog::namespaces`].
    pub fn nth_namespace(&self, n: usize) -> Option<NamespaceView<'_>> {
        self.tree.namespaces().get(n).map(|row| self.namespace_at(*row))
    }

    pub fn namespace(&self, id: u64) -> Option<NamespaceView<'_>> {
        let row = self.namespaces.ids.binary_search(&id).ok()? as u32;
        self.tree.position(row).map(|_| self.namespace_at(row))
    }

    /// The personal namespace of a user.
    pub fn namespace_of_user(&self, user_id: u64) -> Option<NamespaceView<'_>> {
        self.tree.personal(user_id).map(|row| self.namespace_at(row))
    }

    /// The banned users, by id. A user whom an earlier build banned has the first incarnation here, even if it is a
    /// later one. The `Rc` is the same for one [`Catalog::tree_version`].
    pub fn banned_users(&self) -> &Rc<[UserKey]> {
        self.tree.banned()
    }

    /// All projects, by id.
    pub fn projects(&self) -> impl Iterator<Item = ProjectView<'_>> {
        let rows = 0..self.projects.ids.len() as u32;
        rows.filter(|row| self.tree.namespace_of(*row).is_some()).map(|row| self.project_at(row))
    }

    pub fn project(&self, id: u64) -> Option<ProjectView<'_>> {
        let row = self.projects.ids.binary_search(&id).ok()? as u32;
        self.tree.namespace_of(row).map(|_| self.project_at(row))
    }

    /// The projects with a unique pages domain, and the domain.
    pub fn pages_domains(&self) -> impl Iterator<Item = (ProjectView<'_>, &str)> {
        let present = self.projects.pages_domains.iter().filter(|(row, _)| self.tree.namespace_of(*row).is_some());
        present.map(|(row, domain)| (self.project_at(*row), domain.as_str()))
    }

    /// The groups and the projects into which a group is invited.
    pub(crate) fn inviting(&self, group_id: u64) -> (Vec<u64>, Vec<u64>) {
        let rows = |shares: &[(u32, Vec<ShareRecord>)], ids: &[u64]| {
            let inviting = shares.iter().filter(|(_, shares)| shares.iter().any(|share| share.group_id == group_id));
            inviting.map(|(row, _)| cell(ids, *row)).collect()
        };
        (rows(&self.namespaces.shares, &self.namespaces.ids), rows(&self.projects.shares, &self.projects.ids))
    }

    /// The groups and projects directly below these namespaces, even deleted ones.
    pub(crate) fn right_below(&self, parents: &BTreeSet<u64>) -> (Vec<u64>, Vec<u64>) {
        let below = |ids: &[u64], parent_ids: &[u64]| {
            let rows = ids.iter().zip(parent_ids).filter(|(_, parent)| parents.contains(parent));
            rows.map(|(id, _)| *id).collect()
        };
        let (namespaces, projects) = (&self.namespaces, &self.projects);
        (below(&namespaces.ids, &namespaces.parent_ids), below(&projects.ids, &projects.namespace_ids))
    }

    /// The columns of texts, by [`Namespace::row`]. They also have the rows of namespaces below a deleted one.
    pub fn columns(&self) -> CatalogColumns<'_> {
        CatalogColumns { paths: &self.namespaces.paths, names: &self.namespaces.names, rows: self.namespaces.ids.len() }
    }

    /// The namespace in a row of [`Catalog::columns`]; `None` if it is below a deleted one.
    pub fn namespace_in_row(&self, row: usize) -> Option<NamespaceView<'_>> {
        let row = u32::try_from(row).ok()?;
        self.tree.position(row).map(|_| self.namespace_at(row))
    }

    /// The rows of all namespaces with the rows of their parents, parents first.
    pub fn top_down(&self) -> impl Iterator<Item = (usize, Option<usize>)> {
        let order = self.tree.order().iter();
        order.map(|row| (*row as usize, self.tree.parent(*row).map(|parent| parent as usize)))
    }

    fn namespace_at(&self, row: u32) -> NamespaceView<'_> {
        NamespaceView { catalog: self, row }
    }

    fn project_at(&self, row: u32) -> ProjectView<'_> {
        ProjectView { catalog: self, row }
    }
}

/// A version of a catalog's namespaces and projects, for comparison with another catalog's.
#[derive(Clone)]
pub struct TreeVersion(Rc<Tree>);

impl PartialEq for TreeVersion {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

/// The texts of all namespaces.
pub struct CatalogColumns<'a> {
    pub paths: &'a Texts,
    pub names: &'a Texts,
    pub rows: usize,
}

/// A group or a personal namespace.
#[derive(Clone, Copy)]
pub struct NamespaceView<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) row: u32,
}

impl<'a> NamespaceView<'a> {
    fn table(self) -> &'a table::Namespaces {
        &self.catalog.namespaces
    }

    /// The row in [`Catalog::columns`]. Rows are in the order of ids.
    pub fn row(self) -> usize {
        self.row as usize
    }

    pub fn id(self) -> u64 {
        cell(&self.table().ids, self.row)
    }

    /// The last segment of the full path.
    pub fn path(self) -> &'a str {
        self.table().paths.get(self.row())
    }

    pub fn name(self) -> &'a str {
        self.table().names.get(self.row())
    }

    pub fn visibility(self) -> Visibility {
        row::visibility(cell(&self.table().visibilities, self.row))
    }

    /// The user whose personal namespace this is.
    pub fn owner(self) -> Option<u64> {
        Some(cell(&self.table().owner_ids, self.row)).filter(|owner| *owner != 0)
    }

    pub fn is_group(self) -> bool {
        self.owner().is_none()
    }

    /// Whether the owner of this personal namespace is active, and no bot.
    pub fn has_active_human_owner(self) -> bool {
        self.has_active_owner() && !self.has_bot_owner()
    }

    /// Whether the owner of this personal namespace is active.
    pub fn has_active_owner(self) -> bool {
        self.has_owner_flag(table::ACTIVE)
    }

    /// Whether the owner of this personal namespace is a bot.
    pub fn has_bot_owner(self) -> bool {
        self.has_owner_flag(table::BOT)
    }

    /// Whether the owner of this personal namespace is an external user.
    pub fn has_external_owner(self) -> bool {
        self.has_owner_flag(table::EXTERNAL)
    }

    /// Whether the owner of this personal namespace is an administrator.
    pub fn has_admin_owner(self) -> bool {
        self.has_owner_flag(table::ADMIN)
    }

    fn has_owner_flag(self, flag: u8) -> bool {
        cell(&self.table().owner_flags, self.row) & flag != 0
    }

    /// The invited groups, whose members have a role here.
    pub fn shares(self) -> Vec<Share> {
        row::shares(&self.table().shares, self.row)
    }

    /// Avatar, plan, trial, subscription, limits.
    pub fn details(self) -> Details {
        let details = &self.table().details;
        let found = details.binary_search_by_key(&self.row, |(row, _)| *row).ok().and_then(|found| details.get(found));
        found.and_then(|(_, json)| serde_json::from_str(json).ok()).unwrap_or_default()
    }

    pub fn parent(self) -> Option<NamespaceView<'a>> {
        self.catalog.tree.parent(self.row).map(|parent| self.catalog.namespace_at(parent))
    }

    /// This namespace, its parent, and so on up to the top level.
    pub fn lineage(self) -> impl Iterator<Item = NamespaceView<'a>> {
        std::iter::successors(Some(self), |namespace| namespace.parent())
    }

    pub fn full_path(self) -> String {
        self.joined("/", NamespaceView::path)
    }

    /// The names from the top level down, with ` / ` between them.
    pub fn full_name(self) -> String {
        self.joined(" / ", NamespaceView::name)
    }

    fn joined(self, separator: &str, text: fn(NamespaceView<'a>) -> &'a str) -> String {
        let mut texts: Vec<&str> = self.lineage().map(text).collect();
        texts.reverse();
        texts.join(separator)
    }

    /// This namespace and all below it, parents before their children.
    pub fn descendants(self) -> impl ExactSizeIterator<Item = NamespaceView<'a>> {
        self.catalog.tree.below(self.row).iter().map(move |row| self.catalog.namespace_at(*row))
    }

    /// The namespaces directly below this one, by id.
    pub fn children(self) -> impl Iterator<Item = NamespaceView<'a>> {
        self.descendants().filter(move |below| below.parent().is_some_and(|parent| parent.row == self.row))
    }

    /// The projects in this namespace and in all below it.
    pub fn projects_below(self) -> impl ExactSizeIterator<Item = ProjectView<'a>> {
        self.catalog.tree.projects_below(self.row).iter().map(move |row| self.catalog.project_at(*row))
    }

    /// The projects directly in this namespace, by id.
    pub fn projects(self) -> impl ExactSizeIterator<Item = ProjectView<'a>> {
        self.catalog.tree.projects_in(self.row).iter().map(move |row| self.catalog.project_at(*row))
    }
}

#[derive(Clone, Copy)]
pub struct ProjectView<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) row: u32,
}

impl<'a> ProjectView<'a> {
    fn table(self) -> &'a table::Projects {
        &self.catalog.projects
    }

    pub fn id(self) -> u64 {
        cell(&self.table().ids, self.row)
    }

    /// The last segment of the full path.
    pub fn path(self) -> &'a str {
        self.table().paths.get(self.row as usize)
    }

    pub fn name(self) -> &'a str {
        self.table().names.get(self.row as usize)
    }

    pub fn visibility(self) -> Visibility {
        row::visibility(cell(&self.table().visibilities, self.row))
    }

    /// The access to the project's issues.
    pub fn issues(self) -> FeatureAccess {
        row::feature_access(cell(&self.table().issues, self.row))
    }

    /// The id of the project's incarnation that its issues name; `None` for the first one.
    pub fn issues_incarnation(self) -> Option<&'a str> {
        let column = &self.table().issues_incarnations;
        let found = column.binary_search_by_key(&self.row, |(row, _)| *row).ok();
        found.and_then(|found| column.get(found)).map(|(_, id)| id.as_str())
    }

    pub fn archived(self) -> bool {
        cell(&self.table().archived, self.row) != 0
    }

    /// The invited groups, whose members have a role here.
    pub fn shares(self) -> Vec<Share> {
        row::shares(&self.table().shares, self.row)
    }

    pub fn namespace(self) -> NamespaceView<'a> {
        // Every project of the catalog is in a namespace of the catalog.
        let row = self.catalog.tree.namespace_of(self.row).unwrap_or_default();
        self.catalog.namespace_at(row)
    }

    pub fn full_path(self) -> String {
        format!("{}/{}", self.namespace().full_path(), self.path())
    }
}

fn cell<T: Copy + Default>(column: &[T], row: u32) -> T {
    column.get(row as usize).copied().unwrap_or_default()
}
