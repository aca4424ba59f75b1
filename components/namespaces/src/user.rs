//! The JSON form of a user, by what a caller may see.

use crate::query::Query;
use crate::user_search::UserSearch;
use crate::web_url;
use directory::catalog::NamespaceView;
use directory::user::User;
use kit::params::{Params, Validation};
use serde_json::{Map, Value, json};

/// The set of fields that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserView {
    /// For users, in lists.
    Basic,
    /// For users, about one user.
    Profile,
    /// For the user.
    Own,
    /// For administrators.
    Admin,
}

/// `base` is the base URL of the service. The only known address is the one in commits.
pub fn to_json(user: &User, avatar_url: Option<String>, view: UserView, base: &str) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    add("id", user.id.into());
    add("username", user.username.clone().into());
    add("name", user.name.clone().into());
    add("state", user.state.as_str().into());
    add("locked", false.into());
    add("public_email", Value::Null);
    add("avatar_url", avatar_url.into());
    add("web_url", web_url::page(base, &user.username).into());
    if view >= UserView::Profile {
        add("bot", user.bot.into());
    }
    if view >= UserView::Own {
        add("email", json!(user.commit_email));
        add("commit_email", json!(user.commit_email));
        add("external", user.external.into());
    }
    if view == UserView::Admin {
        add("is_admin", user.is_admin.into());
        add("namespace_id", user.namespace_id.into());
    }
    Value::Object(fields)
}

/// The filters of a list of users. A user must pass all of them.
pub struct UserFilter {
    pub username: Option<String>,
    pub search: Option<UserSearch>,
    /// Only administrators. Only an administrator may use this filter.
    pub only_administrators: bool,
    /// Only blocked users. The catalog knows inactive users, and the records of these say who is blocked.
    pub only_blocked: bool,
    /// Only users without a role in any project.
    pub only_without_projects: bool,
    only_active: bool,
    only_external: bool,
    excludes_active: bool,
    excludes_external: bool,
    excludes_bots: bool,
    excludes_humans: bool,
    /// Whether a filter asks for a property that no user has here.
    matches_nothing: bool,
}

impl UserFilter {
    /// The names of the parameters, for the links to other pages. Filters that match nothing are absent: such a list
    /// has one page.
    pub const PARAMETERS: [&str; 16] = [
        "active",
        "admins",
        "blocked",
        "exclude_active",
        "exclude_external",
        "exclude_humans",
        "exclude_internal",
        "external",
        "humans",
        "order_by",
        "pagination",
        "search",
        "sort",
        "username",
        "without_project_bots",
        "without_projects",
    ];

    /// `is_admin` is about the caller. Some filters apply for administrators only, as in the reference service. For
    /// other callers these parameters are validated and exclude no user.
    pub fn check(params: &Params, checks: &Validation, is_admin: bool) -> Self {
        let flag = |name: &str| checks.boolean(name) == Some(true);
        // These parameters are validated and exclude no user: no user is internal or comes from a directory service.
        let _ = (flag("exclude_internal"), flag("skip_ldap"));
        // The catalog does not distinguish project bots from other bots.
        let (humans, without_project_bots) = (flag("humans"), flag("without_project_bots"));
        UserFilter {
            username: checks.text("username").map(str::to_owned),
            search: checks.text("search").and_then(|text| UserSearch::parse(text, Query::parse)),
            only_administrators: flag("admins"),
            only_blocked: flag("blocked"),
            only_without_projects: flag("without_projects") && is_admin,
            only_active: flag("active"),
            only_external: flag("external"),
            excludes_active: flag("exclude_active"),
            excludes_external: flag("exclude_external"),
            excludes_bots: humans || without_project_bots,
            excludes_humans: flag("exclude_humans"),
            matches_nothing: matches_nothing(params, checks, is_admin),
        }
    }

    /// Whether the list has the owner of this namespace, by what the catalog knows.
    pub fn matches(&self, namespace: NamespaceView) -> bool {
        let (is_active, is_bot) = (namespace.has_active_owner(), namespace.has_bot_owner());
        let is_external = namespace.has_external_owner();
        let excluded = [
            self.matches_nothing,
            self.only_active && !is_active,
            (self.only_blocked || self.excludes_active) && is_active,
            self.only_external && !is_external,
            self.excludes_external && is_external,
            self.excludes_bots && is_bot,
            self.excludes_humans && !is_bot,
            self.only_administrators && !namespace.has_admin_owner(),
        ];
        !excluded.contains(&true)
            && self.username.as_ref().is_none_or(|name| namespace.path().eq_ignore_ascii_case(name))
    }
}

/// Whether a filter asks for a property that no user has, or that is unknown.
fn matches_nothing(params: &Params, checks: &Validation, is_admin: bool) -> bool {
    // The array validates every parameter.
    let of_administrators = [
        checks.datetime("created_after").is_some(),
        checks.datetime("created_before").is_some(),
        checks.one_of("two_factor", &["enabled", "disabled"]) == Some("enabled"),
    ];
    let given = [
        checks.boolean("auditors") == Some(true),
        checks.text("extern_uid").is_some(),
        checks.text("provider").is_some(),
        checks.text("public_email").is_some(),
        checks.integer("saml_provider_id").is_some(),
        params.has("custom_attributes"),
    ];
    given.contains(&true) || (is_admin && of_administrators.contains(&true))
}
