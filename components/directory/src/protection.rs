//! Protected package names: the access that their change requires beyond the project's roles. The rules are a setting
//! of the service, with the fields of the reference service's package protection rules.

use crate::glob;
use crate::model::membership::Role;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// The setting with the list of rules, for example `[{"project_id": 7, "package_name_pattern": "@acme/*",
/// "minimum_access_level_for_push": "maintainer"}]`.
pub const SETTING: &str = "package_protection_rules";

const TYPE: &str = "npm";

#[derive(Debug, Deserialize)]
pub struct Rule {
    /// If absent, the rule applies to every project.
    project_id: Option<u64>,
    /// A name in which `*` stands for any text.
    package_name_pattern: String,
    /// If absent, the rule applies to every kind of package.
    package_type: Option<String>,
    /// The access for every change. If absent, the rule is only about removals.
    minimum_access_level_for_push: Option<RequiredAccess>,
    /// The access for removals, in addition.
    minimum_access_level_for_delete: Option<RequiredAccess>,
    /// Fields that have no meaning here.
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

impl Rule {
    /// The reason why a rule does not protect the packages that its writer meant. Earlier builds stored such rules.
    pub fn problem(&self) -> Option<String> {
        // The reference service numbers its rules.
        if let Some(name) = self.others.keys().find(|name| *name != "id") {
            return Some(format!("a rule has the unknown field `{name}`"));
        }
        if self.package_name_pattern.trim().is_empty() {
            return Some("a rule has an empty package_name_pattern".into());
        }
        if let Some(kind) = self.package_type.as_deref().filter(|kind| *kind != TYPE) {
            return Some(format!("a rule is for packages of the type `{kind}`, and all are of the type `{TYPE}`"));
        }
        let has_level = self.minimum_access_level_for_push.is_some() || self.minimum_access_level_for_delete.is_some();
        (!has_level).then(|| "a rule requires no access level".into())
    }
}

/// The least access that a rule requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequiredAccess {
    Maintainer,
    Owner,
    Admin,
}

impl RequiredAccess {
    /// Whether a caller has this access. Administrators are above every role, and a deploy token has no role.
    pub fn allows(self, role: Option<Role>, is_admin: bool) -> bool {
        let least = match self {
            RequiredAccess::Maintainer => Some(Role::Maintainer),
            RequiredAccess::Owner => Some(Role::Owner),
            RequiredAccess::Admin => None,
        };
        is_admin || role.zip(least).is_some_and(|(role, least)| role >= least)
    }
}

/// The rules in a setting. A rule that does not parse is an error: skipping it would open protected names.
pub fn parse_rules(setting: Option<&Value>) -> Result<Vec<Rule>, serde_json::Error> {
    setting.map_or_else(|| Ok(Vec::new()), Vec::<Rule>::deserialize)
}

/// The access that a change of this package name in a project requires: the highest of all rules. With `removes`, the
/// change unpublishes.
pub fn required_access(rules: &[Rule], project: u64, name: &str, removes: bool) -> Option<RequiredAccess> {
    let applies = |rule: &&Rule| {
        rule.project_id.is_none_or(|id| id == project)
            && rule.package_type.as_deref().is_none_or(|kind| kind == TYPE)
            && matches(&rule.package_name_pattern, name)
    };
    let level = |rule: &Rule| {
        let for_delete = rule.minimum_access_level_for_delete.filter(|_| removes);
        rule.minimum_access_level_for_push.max(for_delete)
    };
    rules.iter().filter(applies).filter_map(level).max()
}

/// Matches in any letter case, as in the reference service, because names that differ only in it are easily confused.
fn matches(pattern: &str, name: &str) -> bool {
    glob::matches(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_stand_for_whole_names() {
        for (pattern, name) in [
            ("lib", "lib"),
            ("lib", "LIB"),
            ("*", "@acme/lib"),
            ("@acme/*", "@acme/lib"),
            ("@acme/*", "@acme/"),
            ("*-core", "@acme/x-core"),
            ("@a*/*b", "@acme/lib"),
            ("a*b*c*d", "abcbcd"),
            ("a**b", "ab"),
            ("***", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "lib"),
            ("lib", "libs"),
            ("li", "lib"),
            ("@acme/*", "@acme2/lib"),
            ("@acme/*", "x@acme/lib"),
            ("ab*ba", "aba"),
            ("a*bc*cd", "abcd"),
            ("l.b", "lib"),
            ("l_b", "lib"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn the_strictest_rule_that_applies_counts() {
        let rules = json!([
            {"project_id": 7, "package_name_pattern": "@acme/*", "minimum_access_level_for_push": "maintainer"},
            {"package_name_pattern": "@acme/core", "package_type": "npm", "minimum_access_level_for_push": "admin"},
            {"package_name_pattern": "*", "package_type": "maven", "minimum_access_level_for_push": "owner"},
            {"package_name_pattern": "*", "minimum_access_level_for_push": null},
        ]);
        let rules = parse_rules(Some(&rules)).unwrap();
        assert_eq!(required_access(&rules, 7, "@acme/lib", false), Some(RequiredAccess::Maintainer));
        assert_eq!(required_access(&rules, 7, "@acme/core", false), Some(RequiredAccess::Admin));
        assert_eq!(required_access(&rules, 8, "@acme/lib", false), None);
        assert_eq!(required_access(&rules, 8, "@acme/core", false), Some(RequiredAccess::Admin));
    }

    #[test]
    fn removals_may_require_more() {
        let rules = json!([
            {"package_name_pattern": "a*", "minimum_access_level_for_delete": "owner"},
            {"package_name_pattern": "ab", "minimum_access_level_for_push": "maintainer"},
            {"package_name_pattern": "*"},
        ]);
        let rules = parse_rules(Some(&rules)).unwrap();
        let required = |name: &str, removes| required_access(&rules, 7, name, removes);
        assert_eq!((required("a", false), required("a", true)), (None, Some(RequiredAccess::Owner)));
        assert_eq!(required("ab", false), Some(RequiredAccess::Maintainer));
        assert_eq!((required("ab", true), required("b", true)), (Some(RequiredAccess::Owner), None));
    }

    #[test]
    fn rules_that_protect_nothing_have_a_problem() {
        for (rule, expected) in [
            (json!({"package_name_pattern": "a*", "minimum_access_level_for_delete": "owner"}), None),
            (json!({"package_name_pattern": "*", "minimum_access_level_for_push": "admin", "project_id": 7}), None),
            (
                json!({"id": 1, "package_name_pattern": "*", "package_type": "npm", "minimum_access_level_for_push": "owner"}),
                None,
            ),
            (json!({"package_name_pattern": "*"}), Some("a rule requires no access level")),
            (
                json!({"package_name_pattern": "*", "minimum_access_level_for_push": "owner", "typo": 1}),
                Some("a rule has the unknown field `typo`"),
            ),
            (
                json!({"package_name_pattern": " ", "minimum_access_level_for_push": "owner"}),
                Some("a rule has an empty package_name_pattern"),
            ),
            (
                json!({"package_name_pattern": "*", "package_type": "maven", "minimum_access_level_for_push": "owner"}),
                Some("a rule is for packages of the type `maven`, and all are of the type `npm`"),
            ),
        ] {
            let rules = parse_rules(Some(&json!([rule]))).unwrap();
            assert_eq!(rules[0].problem().as_deref(), expected, "{rule}");
        }
    }

    #[test]
    fn required_access_is_met_by_its_role_and_above() {
        use RequiredAccess::{Admin, Maintainer, Owner};
        for (required, role, is_admin, allowed) in [
            (Maintainer, Some(Role::Maintainer), false, true),
            (Maintainer, Some(Role::Developer), false, false),
            (Maintainer, None, false, false),
            (Owner, Some(Role::Maintainer), false, false),
            (Owner, Some(Role::Owner), false, true),
            (Admin, Some(Role::Owner), false, false),
            (Admin, Some(Role::Owner), true, true),
            (Owner, None, true, true),
        ] {
            assert_eq!(required.allows(role, is_admin), allowed, "{required:?} {role:?} {is_admin}");
        }
    }

    #[test]
    fn rules_that_cannot_be_understood_are_an_error() {
        assert!(parse_rules(None).unwrap().is_empty());
        for setting in [
            json!("x"),
            json!({}),
            json!([{}]),
            json!([{"package_name_pattern": 7}]),
            json!([{"package_name_pattern": "*", "minimum_access_level_for_push": "nobody"}]),
        ] {
            assert!(parse_rules(Some(&setting)).is_err(), "{setting}");
        }
    }
}
