//! The message of a commit of applied suggestions.

use crate::git::strip_crud;

/// The template of last resort.
const DEFAULT_TEMPLATE: &str =
    "Apply %{suggestions_count} suggestion(s) to %{files_count} file(s)\n\n%{co_authored_by}";

/// The values of a template's placeholders, each of which is named `%{like_this}`.
#[derive(Debug, Clone, Default)]
pub struct PlaceholderValues<'a> {
    pub branch_name: &'a str,
    /// Without duplicates.
    pub file_paths: Vec<&'a str>,
    pub project_name: &'a str,
    /// The last segment of the target project's path.
    pub project_path: &'a str,
    /// Of the user who applies the suggestions.
    pub user_full_name: &'a str,
    pub username: &'a str,
    pub suggestions_count: usize,
    /// Name and e-mail address of each author of a suggestion who is not that user.
    pub co_authors: Vec<(String, String)>,
}

/// The longest message, in bytes. A template of this length may name long values again and again.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The longest name of a placeholder, in bytes. The search for its end stops there, because a template may have half a
/// million beginnings.
const MAX_NAME: usize = "suggestions_count".len();

/// Renders the first of these templates that is not blank, or else the default. Unknown placeholders are
/// kept as they are. `None` if the message would be longer than [`MAX_MESSAGE`].
pub fn render(requested: Option<&str>, project: Option<&str>, values: &PlaceholderValues) -> Option<String> {
    let template = [requested, project].into_iter().flatten().find(|template| !template.trim().is_empty());
    let mut message = String::new();
    let mut rest = template.unwrap_or(DEFAULT_TEMPLATE);
    while let Some((before, after)) = rest.split_once("%{") {
        message.push_str(before);
        let end = after.bytes().take(MAX_NAME + 1).position(|byte| byte == b'}');
        let named = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        let known = named.and_then(|(name, after)| Some((values.get(name)?, after)));
        match known {
            Some((value, after)) => {
                message.push_str(&value);
                rest = after;
            }
            None => {
                message.push_str("%{");
                rest = after;
            }
        }
        if message.len() > MAX_MESSAGE {
            return None;
        }
    }
    message.push_str(rest);
    message.truncate(message.trim_end().len());
    Some(message).filter(|message| message.len() <= MAX_MESSAGE)
}

impl PlaceholderValues<'_> {
    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "branch_name" => self.branch_name.to_owned(),
            "files_count" => self.file_paths.len().to_string(),
            "file_paths" => {
                let mut paths = self.file_paths.clone();
                paths.sort_unstable();
                paths.join(", ")
            }
            "project_name" => self.project_name.to_owned(),
            "project_path" => self.project_path.to_owned(),
            "user_full_name" => self.user_full_name.to_owned(),
            "username" => self.username.to_owned(),
            "suggestions_count" => self.suggestions_count.to_string(),
            "co_authored_by" => {
                let line = |(name, email): &(String, String)| {
                    format!("Co-authored-by: {} <{}>", strip_crud(name), strip_crud(email))
                };
                self.co_authors.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(requested: Option<&str>, project: Option<&str>, values: &PlaceholderValues) -> String {
        render(requested, project, values).unwrap()
    }

    fn values() -> PlaceholderValues<'static> {
        PlaceholderValues {
            branch_name: "topic",
            file_paths: vec!["b.rs", "a.rs"],
            project_name: "My Site",
            project_path: "site",
            user_full_name: "Mia M",
            username: "mia",
            suggestions_count: 3,
            co_authors: vec![("Dev".into(), "d@x".into()), ("E <v>il\n".into(), "e@x".into())],
        }
    }

    #[test]
    fn the_default_names_the_other_authors() {
        let expected = "Apply 3 suggestion(s) to 2 file(s)\n\nCo-authored-by: Dev <d@x>\nCo-authored-by: E vil <e@x>";
        assert_eq!(rendered(None, None, &values()), expected);
        let alone = PlaceholderValues { co_authors: vec![], ..values() };
        assert_eq!(rendered(Some(" \n"), Some(""), &alone), "Apply 3 suggestion(s) to 2 file(s)");
    }

    #[test]
    fn placeholders_are_replaced_in_every_template() {
        let all = "%{branch_name}|%{files_count}|%{file_paths}|%{project_name}|%{project_path}|%{user_full_name}|%{username}|%{suggestions_count}";
        let expected = "topic|2|a.rs, b.rs|My Site|site|Mia M|mia|3";
        assert_eq!(rendered(Some(all), Some("other"), &values()), expected);
        assert_eq!(rendered(None, Some(all), &values()), expected);
    }

    #[test]
    fn unknown_placeholders_are_kept() {
        for typed in ["%{unknown}", "%{", "%{branch_name", "100% {x}", "%%{", "{branch_name}"] {
            assert_eq!(rendered(Some(typed), None, &values()), typed);
        }
        // A placeholder within a value is not replaced.
        let nested = PlaceholderValues { branch_name: "%{username}", ..values() };
        assert_eq!(rendered(Some("%{branch_name}"), None, &nested), "%{username}");
    }

    /// Quadratic time would take minutes.
    #[test]
    fn a_template_of_beginnings_alone_is_read_once() {
        let template = format!("{}}}", "%{".repeat(MAX_MESSAGE / 2 - 1));
        assert_eq!(rendered(Some(&template), None, &values()), template);
    }

    #[test]
    fn a_message_has_a_bound_whatever_its_template_names() {
        let values = PlaceholderValues { file_paths: vec!["x"; 1000], ..values() };
        assert!(render(Some(&"%{file_paths} ".repeat(340)), None, &values).is_some());
        assert!(render(Some(&"%{file_paths} ".repeat(70_000)), None, &values).is_none());
    }
}
