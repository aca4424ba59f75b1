//! The JSON form of a project, and the filters of lists of projects.

use crate::query::{Query, lower};
use crate::{group, route, web_url};
use directory::access::Role;
use directory::catalog::{AccessSnapshot, NamespaceView, ProjectView};
use directory::member::{Memberships, Source};
use directory::namespace::Visibility;
use directory::project::FeatureAccess;
use kit::Timestamp;
use kit::params::{Params, Validation};
use serde_json::{Map, Value, json};

/// The filters of a list.
#[derive(Debug, Default)]
pub struct ProjectFilter {
    query: Option<Query>,
    /// Whether the query also applies to full paths.
    search_namespaces: bool,
    archived: Option<bool>,
    /// Active means not archived. Projects scheduled for deletion would be inactive, too, but no project is.
    is_active: Option<bool>,
    with_issues: bool,
    /// Whether the list has only projects whose merge requests the caller may read. Their records decide that.
    pub with_merge_requests: bool,
    visibility: Option<Visibility>,
    membership: bool,
    owned: bool,
    min_role: Option<Role>,
    id_after: Option<i64>,
    id_before: Option<i64>,
    /// Whether a filter asks for a property that no project has here, such as a star, a topic, or a time of its last
    /// activity.
    matches_nothing: bool,
    /// Whether to omit fields that depend on the caller or that few clients need.
    pub is_simple: bool,
    /// In a list of a group, whether to include projects of its subgroups.
    pub include_subgroups: bool,
    /// In a list of a group, whether to include projects of the groups above it.
    pub include_ancestor_groups: bool,
    /// In a list of a group, whether to include projects to which the group is invited.
    pub with_shared: bool,
    order: Order,
    is_ascending: bool,
    /// Whether the request has `order_by=id`.
    pub is_by_id: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum Order {
    #[default]
    Id,
    Name,
    Path,
}

/// The values of `order_by`. Most sort by times, stars or sizes, which are unknown here. Then lists are sorted by id;
/// the highest id is the youngest.
const ORDERS: [&str; 12] = [
    "id",
    "name",
    "path",
    "created_at",
    "updated_at",
    "last_activity_at",
    "similarity",
    "star_count",
    "storage_size",
    "repository_size",
    "wiki_size",
    "packages_size",
];

/// Parameters that ask for further fields, or for projects hidden from other callers.
const FIELDS: [&str; 4] = ["include_hidden", "include_pending_delete", "statistics", "with_custom_attributes"];

impl ProjectFilter {
    /// The names of the parameters, for the links to other pages.
    pub const PARAMETERS: [&str; 33] = [
        "active",
        "archived",
        "id_after",
        "id_before",
        "imported",
        "include_ancestor_groups",
        "include_subgroups",
        "last_activity_after",
        "last_activity_before",
        "marked_for_deletion_on",
        "membership",
        "min_access_level",
        "order_by",
        "owned",
        "pagination",
        "repository_checksum_failed",
        "repository_storage",
        "search",
        "search_namespaces",
        "simple",
        "sort",
        "starred",
        "topic",
        "topic_id",
        "updated_after",
        "updated_before",
        "visibility",
        "wiki_checksum_failed",
        "with_issues_enabled",
        "with_merge_requests_enabled",
        "with_programming_language",
        "with_security_reports",
        "with_shared",
    ];

    pub fn check(params: &Params, checks: &Validation) -> Self {
        let flag = |name: &str| checks.boolean(name) == Some(true);
        // These parameters are validated and ignored: no project has such fields or is hidden.
        let _ = FIELDS.map(flag);
        ProjectFilter {
            query: checks.text("search").and_then(Query::parse),
            search_namespaces: flag("search_namespaces"),
            archived: checks.boolean("archived"),
            is_active: checks.boolean("active"),
            with_issues: flag("with_issues_enabled"),
            with_merge_requests: flag("with_merge_requests_enabled"),
            visibility: group::visibility(checks),
            membership: flag("membership"),
            owned: flag("owned"),
            min_role: group::min_role(params, checks),
            id_after: checks.integer("id_after"),
            id_before: checks.integer("id_before"),
            matches_nothing: matches_nothing(params, checks),
            is_simple: flag("simple"),
            include_subgroups: flag("include_subgroups"),
            include_ancestor_groups: flag("include_ancestor_groups"),
            with_shared: checks.boolean("with_shared") != Some(false),
            order: match checks.one_of("order_by", &ORDERS) {
                Some("name") => Order::Name,
                Some("path") => Order::Path,
                _ => Order::Id,
            },
            is_ascending: checks.one_of("sort", &["asc", "desc"]) == Some("asc"),
            is_by_id: checks.text("order_by") == Some("id"),
        }
    }

    /// The parameter with the id after which the next page begins, in a list by id.
    pub fn next_page(&self) -> &'static str {
        if self.is_ascending { "id_after" } else { "id_before" }
    }

    /// Whether the list has this project, which the caller may read.
    pub fn matches(&self, project: ProjectView, reader: &ProjectReader) -> bool {
        let signed = i64::try_from(project.id()).unwrap_or(i64::MAX);
        let asks_for_role = self.membership || self.owned || self.min_role.is_some();
        let role = || reader.membership_role(project);
        !self.matches_nothing
            && self.archived.is_none_or(|archived| archived == project.archived())
            && self.is_active.is_none_or(|is_active| is_active != project.archived())
            && (!self.with_issues || reader.snapshot.may_read_issues(project))
            && self.visibility.is_none_or(|visibility| visibility == project.visibility())
            && self.id_after.is_none_or(|id| signed > id)
            && self.id_before.is_none_or(|id| signed < id)
            && (!asks_for_role || self.matches_role(role(), reader))
            && self.query.as_ref().is_none_or(|query| self.matches_text(project, query))
    }

    fn matches_role(&self, role: Role, reader: &ProjectReader) -> bool {
        // An anonymous caller has no memberships, so `membership` does not apply.
        (!self.membership || reader.is_anonymous || role >= Role::Guest)
            && (!self.owned || role == Role::Owner)
            && self.min_role.is_none_or(|least| role >= least)
    }

    fn matches_text(&self, project: ProjectView, query: &Query) -> bool {
        query.matches(&lower(project.name()))
            || query.matches(&lower(project.path()))
            || self.search_namespaces && query.matches(&lower(&project.full_path()))
    }

    pub fn sort(&self, projects: &mut [ProjectView]) {
        match self.order {
            Order::Id => projects.sort_unstable_by_key(|project| project.id()),
            Order::Name => projects.sort_by_cached_key(|project| (lower(project.name()), project.id())),
            Order::Path => projects.sort_by_cached_key(|project| (lower(project.path()), project.id())),
        }
        if !self.is_ascending {
            projects.reverse();
        }
    }
}

/// Whether a filter asks for a property that no project has.
fn matches_nothing(params: &Params, checks: &Validation) -> bool {
    // The array validates every parameter.
    let given = [
        params.has("custom_attributes"),
        checks.boolean("starred") == Some(true),
        checks.list("topic").is_some_and(|topics| !topics.is_empty()),
        checks.integer("topic_id").is_some(),
        checks.text("with_programming_language").is_some(),
        checks.datetime("last_activity_after").is_some(),
        checks.datetime("last_activity_before").is_some(),
        checks.datetime("updated_after").is_some(),
        checks.datetime("updated_before").is_some(),
        checks.datetime("marked_for_deletion_on").is_some(),
        checks.text("repository_storage").is_some(),
        checks.boolean("imported") == Some(true),
        checks.boolean("repository_checksum_failed") == Some(true),
        checks.boolean("wiki_checksum_failed") == Some(true),
        checks.boolean("with_security_reports") == Some(true),
    ];
    given.contains(&true)
}

/// A caller who reads projects.
pub struct ProjectReader {
    pub snapshot: AccessSnapshot,
    pub memberships: Memberships,
    pub user_id: Option<u64>,
    pub is_anonymous: bool,
    pub now: Timestamp,
}

impl ProjectReader {
    /// The role of the caller by membership. The rights of an administrator do not count.
    fn membership_role(&self, project: ProjectView) -> Role {
        if !self.snapshot.is_admin() {
            return self.snapshot.project_role(project);
        }
        let is_owner = project.namespace().owner().is_some_and(|owner| Some(owner) == self.user_id);
        if is_owner { Role::Owner } else { self.direct_role(project).max(self.group_role(project)) }
    }

    fn direct_role(&self, project: ProjectView) -> Role {
        self.memberships.role(Source::Project(project.id()), self.now)
    }

    /// The highest role in a group above the project.
    fn group_role(&self, project: ProjectView) -> Role {
        group::inherited_role(&self.memberships, project.namespace(), self.now)
    }

    /// The field `permissions` of a project.
    fn permissions(&self, project: ProjectView) -> Value {
        let access = |role: Role| match role {
            Role::None => Value::Null,
            role => json!({"access_level": role.level()}),
        };
        json!({"project_access": access(self.direct_role(project)), "group_access": access(self.group_role(project))})
    }
}

/// Whether to show fields that depend on the caller or that few clients need.
pub fn shows_details(reader: &ProjectReader, is_simple: bool) -> bool {
    !(is_simple || reader.is_anonymous)
}

/// The JSON of a project. `record` is its own record, and `base` the base URL of the service. `creator_id` is `None`
/// for a deleted creator. `default_branch` comes from the repository.
pub fn to_json(
    project: ProjectView,
    record: &directory::project::Project,
    creator_id: Option<u64>,
    default_branch: Option<String>,
    reader: &ProjectReader,
    is_simple: bool,
    base: &str,
) -> Value {
    let (namespace, full_path) = (project.namespace(), project.full_path());
    let web_url = web_url::page(base, &full_path);
    let api = format!("{base}{}", route::project(project.id()));
    // If a console page has the path, git reads the repository by the project id.
    let repository = match directory::path::begins_like_page(&full_path) {
        true => format!("{api}/repository.git"),
        false => format!("{web_url}.git"),
    };
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    add("id", project.id().into());
    add("name", project.name().into());
    add("name_with_namespace", format!("{} / {}", namespace.full_name(), project.name()).into());
    add("path", project.path().into());
    add("path_with_namespace", full_path.into());
    add("default_branch", json!(default_branch));
    // The URL from which git reads the repository.
    add("http_url_to_repo", repository.into());
    add("web_url", web_url.into());
    add("visibility", project.visibility().as_str().into());
    add("namespace", namespace_to_json(namespace, base));
    if !shows_details(reader, is_simple) {
        return Value::Object(fields);
    }
    add("archived", project.archived().into());
    add("creator_id", json!(creator_id));
    add("issues_enabled", (record.issues != FeatureAccess::Disabled).into());
    add("issues_access_level", record.issues.as_str().into());
    add("repository_access_level", record.repository.as_str().into());
    add("merge_requests_enabled", (record.merge_requests != FeatureAccess::Disabled).into());
    add("merge_requests_access_level", record.merge_requests.as_str().into());
    add("packages_enabled", (record.registry != FeatureAccess::Disabled).into());
    add("package_registry_access_level", record.registry.as_str().into());
    add("suggestion_commit_message", json!(record.suggestion_commit_message));
    add("permissions", reader.permissions(project));
    add("_links", json!({"self": api}));
    Value::Object(fields)
}

fn namespace_to_json(namespace: NamespaceView, base: &str) -> Value {
    let full_path = namespace.full_path();
    let web_url = if namespace.is_group() { web_url::group(base, &full_path) } else { web_url::page(base, &full_path) };
    json!({
        "id": namespace.id(),
        "name": namespace.name(),
        "path": namespace.path(),
        "kind": if namespace.is_group() { "group" } else { "user" },
        "full_path": full_path,
        "parent_id": namespace.parent().map(NamespaceView::id),
        "avatar_url": namespace.details().avatar_url,
        "web_url": web_url,
    })
}
