//! Which users a list has.

use crate::query::Query;
use crate::user_search::UserSearch;
use directory::catalog::Namespace;
use kit::params::{Params, Validation};

/// The filters of a list of users, each of which leaves some out.
pub struct UserFilter {
    pub username: Option<String>,
    pub search: Option<UserSearch>,
    /// Only administrators may know which users are administrators.
    pub is_of_administrators: bool,
    /// Of the users that are not active, only blocked ones: their records say which these are.
    pub is_of_blocked: bool,
    /// Only users who have a role in no project.
    pub is_without_projects: bool,
    is_of_active: bool,
    is_of_external: bool,
    excludes_active: bool,
    excludes_external: bool,
    excludes_bots: bool,
    excludes_humans: bool,
    /// A filter is given that no user passes.
    is_of_absent: bool,
}

impl UserFilter {
    /// The names of the parameters, for the links to other pages. A list that no user passes has no other pages.
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

    /// `is_admin`: of the caller. As in the reference service, some filters are those of administrators, and the same
    /// parameters of other callers are validated and leave out no user.
    pub fn check(params: &Params, checks: &Validation, is_admin: bool) -> Self {
        let flag = |name: &str| checks.boolean(name) == Some(true);
        // They are validated and leave out no user: there are no internal ones, and none from a directory service.
        let _ = (flag("exclude_internal"), flag("skip_ldap"));
        // The catalog does not say which bots are those of projects.
        let (humans, without_project_bots) = (flag("humans"), flag("without_project_bots"));
        UserFilter {
            username: checks.text("username").map(str::to_owned),
            search: checks.text("search").and_then(|text| UserSearch::parse(text, Query::parse)),
            is_of_administrators: flag("admins"),
            is_of_blocked: flag("blocked"),
            is_without_projects: flag("without_projects") && is_admin,
            is_of_active: flag("active"),
            is_of_external: flag("external"),
            excludes_active: flag("exclude_active"),
            excludes_external: flag("exclude_external"),
            excludes_bots: humans || without_project_bots,
            excludes_humans: flag("exclude_humans"),
            is_of_absent: is_of_absent(params, checks, is_admin),
        }
    }

    /// Whether the list has the owner of this namespace, as far as the catalog knows.
    pub fn covers(&self, namespace: Namespace) -> bool {
        let (is_active, is_bot) = (namespace.has_active_owner(), namespace.has_bot_owner());
        let is_external = namespace.has_external_owner();
        let excluded = [
            self.is_of_absent,
            self.is_of_active && !is_active,
            (self.is_of_blocked || self.excludes_active) && is_active,
            self.is_of_external && !is_external,
            self.excludes_external && is_external,
            self.excludes_bots && is_bot,
            self.excludes_humans && !is_bot,
            self.is_of_administrators && !namespace.has_admin_owner(),
        ];
        !excluded.contains(&true)
            && self.username.as_ref().is_none_or(|name| namespace.path().eq_ignore_ascii_case(name))
    }
}

/// Whether one of the filters is given that no user passes: by a property that no user has, or that is not known.
fn is_of_absent(params: &Params, checks: &Validation, is_admin: bool) -> bool {
    // Each of them is validated.
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
