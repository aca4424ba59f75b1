//! A snapshot of all namespaces and projects, and views of single ones.
//!
//! The tree of namespaces. Positions number the namespaces depth first, so a subtree is a range of positions. Projects
//! are sorted by their namespaces' positions, so the projects below a namespace are also a range. The tree omits
//! namespaces below a deleted one.

use crate::access::{self, Role};
use crate::caller::{Caller, Session};
use crate::catalog::manifest::{Manifest, Part, decode, manifest, read_latest};
use crate::catalog::row;
use crate::catalog::table::{self, BANNED, Namespaces, Projects, Table, Texts, partition};
use crate::member::{Memberships, Share, Source, is_current};
use crate::namespace::{Details, Visibility};
use crate::project::FeatureAccess;
use crate::store::ShareRecord;
use crate::user::{UserKey, UserState};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
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
        let details = table::sparse(&self.table().details, self.row);
        details.and_then(|json| serde_json::from_str(&json.0).ok()).unwrap_or_default()
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
        table::sparse(&self.table().issues_incarnations, self.row).map(String::as_str)
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

/// The catalog. 1 read, and 1 for each part that changed since this instance last read it.
pub fn read(env: &Env) -> Result<Rc<Catalog>, StoreError> {
    let cached = env.instance_cache.get::<Catalog>();
    read_latest(env, |revision| {
        if let Some(cached) = cached.as_ref().filter(|cached| *cached.revision == *revision) {
            return Ok(cached.clone());
        }
        let catalog = Rc::new(load(env, revision, cached.as_deref())?);
        env.instance_cache.put(catalog.clone());
        Ok(catalog)
    })
}

fn load(env: &Env, revision: &str, cached: Option<&Catalog>) -> Result<Catalog, StoreError> {
    let manifest = manifest(env, revision)?;
    let cached = cached.map(|cached| (cached, &*cached.manifest));
    let namespaces: Rc<Namespaces> =
        load_table(env, &manifest.namespaces, cached.map(|(cached, of)| (&cached.namespaces, &of.namespaces)))?;
    let projects: Rc<Projects> =
        load_table(env, &manifest.projects, cached.map(|(cached, of)| (&cached.projects, &of.projects)))?;
    let same = cached
        .filter(|(cached, _)| Rc::ptr_eq(&cached.namespaces, &namespaces) && Rc::ptr_eq(&cached.projects, &projects));
    let tree = match same {
        Some((cached, _)) => cached.tree.clone(),
        None => Rc::new(Tree::of(&namespaces, &projects)),
    };
    Ok(Catalog { revision: revision.into(), manifest: Rc::new(manifest), namespaces, projects, tree })
}

/// The table of these parts. Parts of the cached table are copied.
fn load_table<T: Table>(env: &Env, parts: &[Part], cached: Option<(&Rc<T>, &Vec<Part>)>) -> Result<Rc<T>, StoreError> {
    if let Some((cached, of)) = cached
        && of == parts
    {
        return Ok(cached.clone());
    }
    let mut table = T::default();
    for part in parts {
        let mut start = 0;
        let copied = cached.and_then(|(cached, of)| {
            let found = of.iter().find(|old| {
                let found = old.blob == part.blob;
                start += if found { 0 } else { old.rows };
                found
            })?;
            Some((cached, start..start + found.rows))
        });
        match copied {
            Some((cached, rows)) => table.copy(cached, rows),
            None => {
                decode(env, part, |blob| table.append(blob))?;
            }
        }
    }
    Ok(Rc::new(table))
}

/// A caller's roles in all namespaces and projects.
pub struct AccessSnapshot {
    /// An administrator owns everything.
    is_admin: bool,
    sees_internal: bool,
    /// The role in each namespace, by position in the tree; empty if the caller has no role in any.
    namespace_roles: Vec<Role>,
    /// The role in projects with direct members or invited groups, by row.
    project_roles: HashMap<u32, Role>,
    valid_until: Option<Timestamp>,
}

impl Catalog {
    /// The access of `caller`. 1 read, and time linear in the namespaces below the caller's groups.
    ///
    /// A deploy token or job sees only public projects in lists, not its own project or group. A job also sees internal
    /// projects if its user does.
    pub fn access_snapshot(&self, env: &Env, caller: &Caller) -> Result<AccessSnapshot, StoreError> {
        let mut snapshot = AccessSnapshot {
            is_admin: false,
            sees_internal: access::is_open(caller, Visibility::Internal),
            namespace_roles: Vec::new(),
            project_roles: HashMap::new(),
            valid_until: None,
        };
        let Caller::User(session) = caller else { return Ok(snapshot) };
        if session.user.state != UserState::Active {
            return Ok(snapshot);
        }
        if session.user.is_admin {
            snapshot.is_admin = true;
            return Ok(snapshot);
        }
        snapshot.add_roles(self, session, session.memberships(env)?, env.now);
        Ok(snapshot)
    }
}

impl AccessSnapshot {
    fn add_roles(&mut self, catalog: &Catalog, session: &Session, memberships: &Memberships, now: Timestamp) {
        let personal = catalog.namespace_of_user(session.user.id);
        if memberships.0.is_empty() && personal.is_none() {
            return;
        }
        let tree = &catalog.tree;
        let mut roles = vec![Role::None; tree.namespaces().len()];
        let mut expiry = Expiry { now, first: None };
        let raise = |roles: &mut Vec<Role>, namespace: u32, role: Role| {
            for held in roles.get_mut(tree.range(namespace)).unwrap_or_default() {
                *held = role.max(*held);
            }
        };
        let mut in_some_group = false;
        for (source, membership) in &memberships.0 {
            in_some_group |= matches!(source, Source::Group(_));
            if !expiry.is_current(membership.expires_at) {
                continue;
            }
            match *source {
                Source::Group(id) => {
                    if let Some(group) = catalog.namespace(id) {
                        raise(&mut roles, group.row, membership.role);
                    }
                }
                Source::Project(id) => {
                    if let Some(project) = catalog.project(id) {
                        self.project_roles.insert(project.row, membership.role);
                    }
                }
            }
        }
        if in_some_group {
            // An invitation passes on the roles in the invited group, except roles by other invitations.
            let own = roles.clone();
            let mut role_by_share = |share: &ShareRecord| {
                let share = Share::from(share.clone());
                let group = catalog.namespace(share.group_id)?;
                let held = tree.position(group.row).and_then(|position| own.get(position as usize)).copied()?;
                let role = held.min(share.role);
                (role > Role::None && expiry.is_current(share.expires_at)).then_some(role)
            };
            for (namespace, shares) in &catalog.namespaces.shares {
                if let Some(role) = shares.iter().filter_map(&mut role_by_share).max() {
                    raise(&mut roles, *namespace, role);
                }
            }
            for (project, shares) in &catalog.projects.shares {
                if let Some(role) = shares.iter().filter_map(&mut role_by_share).max() {
                    let held = self.project_roles.entry(*project).or_insert(Role::None);
                    *held = role.max(*held);
                }
            }
        }
        if let Some(personal) = personal {
            raise(&mut roles, personal.row, Role::Owner);
        }
        self.namespace_roles = roles;
        self.valid_until = expiry.first;
    }

    /// The moment at which the first role ends. The snapshot is invalid from then on.
    pub fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    pub fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// As [`access::namespace_role`].
    pub fn namespace_role(&self, namespace: NamespaceView) -> Role {
        if self.is_admin {
            return Role::Owner;
        }
        let position = namespace.catalog.tree.position(namespace.row);
        position.and_then(|position| self.namespace_roles.get(position as usize)).copied().unwrap_or(Role::None)
    }

    /// As [`access::project_role`].
    pub fn project_role(&self, project: ProjectView) -> Role {
        let inherited = self.namespace_role(project.namespace());
        self.project_roles.get(&project.row).copied().unwrap_or(Role::None).max(inherited)
    }

    /// As [`access::may_read_project`].
    pub fn may_read(&self, project: ProjectView) -> bool {
        let is_open = match project.visibility() {
            Visibility::Public => true,
            Visibility::Internal => self.sees_internal,
            Visibility::Private => false,
        };
        is_open || self.project_role(project) >= Role::Guest
    }

    /// Whether the caller may read the project and use its issues, which may be for members only.
    pub fn may_read_issues(&self, project: ProjectView) -> bool {
        match project.issues() {
            FeatureAccess::Disabled => false,
            FeatureAccess::Private => self.project_role(project) >= Role::Guest,
            FeatureAccess::Enabled | FeatureAccess::Public => self.may_read(project),
        }
    }
}

/// The earliest future expiry.
struct Expiry {
    now: Timestamp,
    first: Option<Timestamp>,
}

impl Expiry {
    fn is_current(&mut self, end: Option<Timestamp>) -> bool {
        let current = is_current(end, self.now);
        if let Some(end) = end.filter(|_| current) {
            self.first = Some(self.first.map_or(end, |first| first.min(end)));
        }
        current
    }
}

/// No row.
const NONE: u32 = u32::MAX;

pub struct Tree {
    /// The rows of the namespaces in the tree, by id.
    namespaces: Vec<u32>,
    /// By namespace row: the row of the parent.
    parents: Vec<u32>,
    /// By namespace row: the position; `NONE` if the namespace is not in the tree.
    positions: Vec<u32>,
    /// By position: the namespace's row.
    order: Vec<u32>,
    /// By position: the position after its subtree.
    ends: Vec<u32>,
    /// By project row: the namespace's row; `NONE` if the namespace is not in the tree.
    project_namespaces: Vec<u32>,
    /// The rows of all projects, by their namespaces' positions, then by id.
    projects: Vec<u32>,
    /// By position, and one more: the index in `projects` of the first project.
    first_projects: Vec<u32>,
    /// Users and the rows of their personal namespaces, by user.
    personal: Vec<(u64, u32)>,
    /// The banned users, by id.
    banned: Rc<[UserKey]>,
}

impl Tree {
    pub fn of(namespaces: &Namespaces, projects: &Projects) -> Self {
        let parents = parents(namespaces);
        let (order, ends) = depth_first(&parents);
        let mut positions = vec![NONE; parents.len()];
        for (position, row) in order.iter().enumerate() {
            put(&mut positions, *row, position as u32);
        }
        let present: Vec<u32> = (0..parents.len() as u32).filter(|row| get(&positions, *row) != NONE).collect();
        let found = rows_of(&namespaces.ids, projects.namespace_ids.iter().copied());
        let of_projects: Vec<u32> = found.map(|row| if get(&positions, row) == NONE { NONE } else { row }).collect();
        let (by_namespace, first_projects) =
            grouped(order.len(), of_projects.iter().map(|namespace| get(&positions, *namespace)));
        let owners =
            namespaces.owner_ids.iter().zip(0..).filter(|(owner, row)| **owner != 0 && get(&positions, *row) != NONE);
        let mut personal: Vec<(u64, u32)> = owners.map(|(owner, row)| (*owner, row)).collect();
        personal.sort_unstable();
        let is_banned = |row: u32| namespaces.owner_flags.get(row as usize).is_some_and(|flags| flags & BANNED != 0);
        let owner = |(id, row): &(u64, u32)| UserKey { id: *id, incarnation: namespaces.owner_incarnation(*row) };
        let banned = personal.iter().filter(|(_, row)| is_banned(*row)).map(owner).collect();
        Tree {
            namespaces: present,
            parents,
            positions,
            order,
            ends,
            project_namespaces: of_projects,
            projects: by_namespace,
            first_projects,
            personal,
            banned,
        }
    }

    pub fn namespaces(&self) -> &[u32] {
        &self.namespaces
    }

    /// The rows of all namespaces in the tree, parents first.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    pub fn parent(&self, row: u32) -> Option<u32> {
        Some(get(&self.parents, row)).filter(|parent| *parent != NONE)
    }

    pub fn position(&self, row: u32) -> Option<u32> {
        Some(get(&self.positions, row)).filter(|position| *position != NONE)
    }

    /// The positions of a namespace and all below it.
    pub fn range(&self, row: u32) -> Range<usize> {
        match self.position(row) {
            Some(position) => position as usize..get(&self.ends, position) as usize,
            None => 0..0,
        }
    }

    pub fn below(&self, row: u32) -> &[u32] {
        self.order.get(self.range(row)).unwrap_or_default()
    }

    pub fn namespace_of(&self, project: u32) -> Option<u32> {
        Some(get(&self.project_namespaces, project)).filter(|row| *row != NONE)
    }

    pub fn projects_below(&self, row: u32) -> &[u32] {
        self.projects_of(self.range(row))
    }

    pub fn projects_in(&self, row: u32) -> &[u32] {
        let range = self.range(row);
        self.projects_of(range.start..range.end.min(range.start + 1))
    }

    fn projects_of(&self, positions: Range<usize>) -> &[u32] {
        let first = |position: usize| get(&self.first_projects, position as u32) as usize;
        if positions.is_empty() {
            return &[];
        }
        self.projects.get(first(positions.start)..first(positions.end)).unwrap_or_default()
    }

    pub fn personal(&self, user_id: u64) -> Option<u32> {
        let found = self.personal.binary_search_by_key(&user_id, |(user, _)| *user).ok()?;
        self.personal.get(found).map(|(_, row)| *row)
    }

    pub fn banned(&self) -> &Rc<[UserKey]> {
        &self.banned
    }
}

fn get(column: &[u32], row: u32) -> u32 {
    column.get(row as usize).copied().unwrap_or(NONE)
}

fn put(column: &mut [u32], row: u32, value: u32) {
    if let Some(cell) = column.get_mut(row as usize) {
        *cell = value;
    }
}

/// The rows of `wanted` ids in the ascending `ids`; `NONE` for an id without a row. The last row is tried first,
/// because neighbours mostly want the same id.
fn rows_of(ids: &[u64], wanted: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    let mut last = 0;
    wanted.map(move |id| {
        if ids.get(last) != Some(&id) {
            last = partition(ids.len(), |row| ids.get(row).is_some_and(|other| *other < id));
        }
        if ids.get(last) == Some(&id) { last as u32 } else { NONE }
    })
}

/// The parent row of each namespace. A namespace whose parent has no row becomes its own parent, which keeps it out of
/// the tree like every cycle.
fn parents(namespaces: &Namespaces) -> Vec<u32> {
    let wanted = namespaces.parent_ids.iter().copied();
    let mut last = (0, NONE);
    let mut parents = Vec::with_capacity(namespaces.ids.len());
    for (row, parent_id) in wanted.enumerate() {
        if parent_id != 0 && parent_id != last.0 {
            let found = namespaces.ids.binary_search(&parent_id);
            last = (parent_id, found.map_or(NONE, |found| found as u32));
        }
        parents.push(match (parent_id, last.1) {
            (0, _) => NONE,
            (_, NONE) => row as u32,
            (_, parent) => parent,
        });
    }
    parents
}

/// The rows that are reachable from the top level, parents before children and siblings by row. Also the end of each
/// subtree.
fn depth_first(parents: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (children, first) = grouped(parents.len(), parents.iter().copied());
    let children_of = |row: u32| {
        let range = get(&first, row) as usize..get(&first, row + 1) as usize;
        children.get(range).unwrap_or_default()
    };
    let (mut order, mut ends) = (Vec::with_capacity(parents.len()), vec![0; parents.len()]);
    // A row to enter, or a position whose subtree is complete.
    enum Step {
        Enter(u32),
        Leave(u32),
    }
    let mut steps = Vec::new();
    for root in (0..parents.len() as u32).filter(|row| get(parents, *row) == NONE) {
        steps.push(Step::Enter(root));
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(position) => put(&mut ends, position, order.len() as u32),
                Step::Enter(row) => {
                    steps.push(Step::Leave(order.len() as u32));
                    order.push(row);
                    steps.extend(children_of(row).iter().rev().map(|child| Step::Enter(*child)));
                }
            }
        }
    }
    ends.truncate(order.len());
    (order, ends)
}

/// The rows with a group below `count`, sorted by group, then by row. Also the start of each group, and the end of the
/// last group.
fn grouped(count: usize, groups: impl Iterator<Item = u32> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; count + 1];
    for group in groups.clone() {
        if let Some(next) = starts.get_mut((group as usize).saturating_add(1)) {
            *next += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut next = starts.clone();
    let mut rows = vec![0; total as usize];
    for (group, row) in groups.zip(0..) {
        if (group as usize) < count
            && let Some(index) = next.get_mut(group as usize)
        {
            put(&mut rows, *index, row);
            *index += 1;
        }
    }
    (rows, starts)
}
