//! The JSON form of a group, and the filters of lists of groups.

use crate::query::Query;
use crate::web_url;
use directory::access::Role;
use directory::catalog::{AccessSnapshot, Catalog, NamespaceView};
use directory::member::{Memberships, Share, Source};
use directory::namespace::Visibility;
use kit::Timestamp;
use kit::keyset::SortKey;
use kit::params::{Params, Validation};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The filters of a list.
#[derive(Debug, Default)]
pub struct GroupFilter {
    pub query: Option<Query>,
    /// The ids of groups that the list omits.
    skipped: HashSet<u64>,
    /// Whether the list has groups in which the caller is no member. `None` means true for administrators and anonymous
    /// callers only.
    pub all_available: Option<bool>,
    pub owned: bool,
    pub min_role: Option<Role>,
    pub top_level_only: bool,
    pub visibility: Option<Visibility>,
    /// Whether a filter asks for a property that no group has here.
    matches_nothing: bool,
    order: Order,
    is_descending: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum Order {
    #[default]
    Name,
    Path,
    Id,
}

impl GroupFilter {
    /// The names of the parameters, for the links to other pages.
    pub const PARAMETERS: [&str; 14] = [
        "active",
        "all_available",
        "archived",
        "marked_for_deletion_on",
        "min_access_level",
        "order_by",
        "owned",
        "pagination",
        "repository_storage",
        "search",
        "skip_groups",
        "sort",
        "top_level_only",
        "visibility",
    ];

    pub fn check(params: &Params, checks: &Validation) -> Self {
        // These parameters are validated and ignored: no group has such fields.
        let _ = ["statistics", "with_custom_attributes"].map(|name| checks.boolean(name));
        GroupFilter {
            query: checks.text("search").and_then(Query::parse),
            skipped: ids(checks, "skip_groups").unwrap_or_default(),
            all_available: checks.boolean("all_available"),
            owned: checks.boolean("owned") == Some(true),
            min_role: min_role(params, checks),
            top_level_only: checks.boolean("top_level_only") == Some(true),
            visibility: visibility(checks),
            matches_nothing: matches_nothing(params, checks),
            order: match checks.one_of("order_by", &["name", "path", "id", "similarity"]) {
                Some("path") => Order::Path,
                Some("id") => Order::Id,
                _ => Order::Name,
            },
            is_descending: checks.one_of("sort", &["asc", "desc"]) == Some("desc"),
        }
    }

    /// Whether the list has this group, which the caller may read.
    pub fn matches(&self, group: NamespaceView, reader: &GroupReader) -> bool {
        let asks_for_role = self.owned || self.min_role.is_some();
        let role = if asks_for_role { reader.membership_role(group) } else { Role::None };
        !self.matches_nothing
            && (self.all_available.unwrap_or(reader.sees_all_by_default) || reader.is_member(group))
            && (!self.owned || role == Role::Owner)
            && self.min_role.is_none_or(|least| role >= least)
            && (!self.top_level_only || group.parent().is_none())
            && self.visibility.is_none_or(|visibility| group.visibility() == visibility)
            && !self.skipped.contains(&group.id())
    }

    pub fn is_by_name(&self) -> bool {
        matches!(self.order, Order::Name) && !self.is_descending
    }

    /// The sort key of a group in a list by name.
    pub fn name_sort_key(group: NamespaceView) -> SortKey {
        SortKey { text: group.name().to_lowercase(), id: group.id() }
    }

    pub fn sort(&self, groups: &mut [NamespaceView]) {
        match self.order {
            Order::Name => groups.sort_by_cached_key(|group| GroupFilter::name_sort_key(*group)),
            Order::Path => groups.sort_by_cached_key(|group| (group.path().to_lowercase(), group.id())),
            Order::Id => groups.sort_unstable_by_key(|group| group.id()),
        }
        if self.is_descending {
            groups.reverse();
        }
    }
}

/// Whether a filter asks for a property that no group has: no group is archived or scheduled for deletion.
fn matches_nothing(params: &Params, checks: &Validation) -> bool {
    // The array validates every parameter.
    let given = [
        params.has("custom_attributes"),
        checks.boolean("archived") == Some(true),
        checks.boolean("active") == Some(false),
        checks.datetime("marked_for_deletion_on").is_some(),
        checks.text("repository_storage").is_some(),
    ];
    given.contains(&true)
}

/// The role of a caller in a namespace by membership. The rights of an administrator do not count.
pub fn membership_role(
    snapshot: &AccessSnapshot,
    memberships: &Memberships,
    namespace: NamespaceView,
    now: Timestamp,
) -> Role {
    if snapshot.is_admin() { inherited_role(memberships, namespace, now) } else { snapshot.namespace_role(namespace) }
}

/// The highest role in a namespace and the namespaces above it.
pub fn inherited_role(memberships: &Memberships, namespace: NamespaceView, now: Timestamp) -> Role {
    let roles = namespace.lineage().map(|above| memberships.role(Source::Group(above.id()), now));
    roles.max().unwrap_or(Role::None)
}

/// The parameter `min_access_level`.
pub fn min_role(params: &Params, checks: &Validation) -> Option<Role> {
    let level = checks.integer("min_access_level")?;
    let role = u64::try_from(level).ok().and_then(Role::from_level).filter(|role| *role > Role::None);
    if role.is_none() && params.has("min_access_level") {
        checks.reject("min_access_level does not have a valid value");
    }
    role
}

/// A list of ids. Text that is not a number becomes 0, which no record has as its id.
pub fn ids(checks: &Validation, name: &str) -> Option<HashSet<u64>> {
    let elements = checks.list(name)?;
    Some(elements.into_iter().map(|element| element.parse().unwrap_or(0)).collect())
}

/// The parameter `visibility`.
pub fn visibility(checks: &Validation) -> Option<Visibility> {
    checks.one_of("visibility", &["private", "internal", "public"]).and_then(Visibility::parse)
}

/// A caller who reads groups.
pub struct GroupReader {
    pub snapshot: AccessSnapshot,
    sees_internal: bool,
    sees_all_by_default: bool,
    /// The rows of all groups that contain a membership of the caller, directly or below.
    member_lineages: HashSet<usize>,
    memberships: Memberships,
    now: Timestamp,
}

impl GroupReader {
    /// `sees_internal` says whether the caller may read internal groups. `is_user` is false for anonymous callers.
    /// Anonymous callers and administrators list all readable groups by default.
    pub fn new(
        catalog: &Catalog,
        snapshot: AccessSnapshot,
        memberships: Memberships,
        sees_internal: bool,
        is_user: bool,
        now: Timestamp,
    ) -> Self {
        let current = memberships.0.keys().filter(|source| memberships.role(**source, now) >= Role::Guest);
        let namespaces = current.filter_map(|source| match *source {
            Source::Group(id) => catalog.namespace(id),
            Source::Project(id) => catalog.project(id).map(|project| project.namespace()),
        });
        let member_lineages = namespaces.flat_map(NamespaceView::lineage).map(NamespaceView::row).collect();
        let sees_all_by_default = snapshot.is_admin() || !is_user;
        GroupReader { snapshot, sees_internal, sees_all_by_default, member_lineages, memberships, now }
    }

    /// The role of the caller by membership, as in [`membership_role`].
    fn membership_role(&self, group: NamespaceView) -> Role {
        membership_role(&self.snapshot, &self.memberships, group, self.now)
    }

    /// Whether the caller is a member of the group, or of a group or project below it.
    fn is_member(&self, group: NamespaceView) -> bool {
        self.membership_role(group) >= Role::Guest || self.member_lineages.contains(&group.row())
    }

    /// The same, but administrators have a role in every group.
    fn has_role(&self, group: NamespaceView) -> bool {
        self.snapshot.namespace_role(group) >= Role::Guest || self.member_lineages.contains(&group.row())
    }

    /// Whether the caller, who may read the group, may list its members. The members of a private group are visible to
    /// callers with a role in it. A role in a group or project below it is not enough.
    pub fn may_list_members(&self, group: NamespaceView) -> bool {
        group.visibility() != Visibility::Private || self.snapshot.namespace_role(group) > Role::None
    }

    /// As [`directory::access::may_read_group`].
    pub fn may_read(&self, group: NamespaceView) -> bool {
        let is_open = match group.visibility() {
            Visibility::Public => true,
            Visibility::Internal => self.sees_internal,
            Visibility::Private => false,
        };
        group.is_group() && (is_open || self.has_role(group))
    }
}

/// The JSON of a group. `base` is the base URL of the service.
pub fn to_json(group: NamespaceView, base: &str) -> Value {
    let full_path = group.full_path();
    json!({
        "id": group.id(),
        "name": group.name(),
        "path": group.path(),
        "full_name": group.full_name(),
        "full_path": full_path,
        "parent_id": group.parent().map(NamespaceView::id),
        "visibility": group.visibility().as_str(),
        "avatar_url": group.details().avatar_url,
        "web_url": web_url::group(base, &full_path),
    })
}

/// The groups invited to a group or project, if the caller may read them.
pub fn shares_to_json(catalog: &Catalog, shares: &[Share], reader: &GroupReader) -> Value {
    let entry = |share: &Share| {
        let group = catalog.namespace(share.group_id).filter(|group| reader.may_read(*group))?;
        Some(json!({
            "group_id": share.group_id,
            "group_name": group.name(),
            "group_full_path": group.full_path(),
            "group_access_level": share.role.level(),
            "expires_at": share.expires_at.map(Timestamp::to_date),
        }))
    };
    shares.iter().filter_map(entry).collect()
}
