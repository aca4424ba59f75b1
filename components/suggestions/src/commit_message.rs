//! The message of a commit of applied suggestions.

use crate::git::clean;

/// What a message is made of if neither the request nor the project says otherwise.
const DEFAULT: &str = "Apply %{suggestions_count} suggestion(s) to %{files_count} file(s)\n\n%{co_authored_by}";

/// What the placeholders stand for.
#[derive(Debug, Clone, Default)]
pub struct Facts<'a> {
    pub branch_name: &'a str,
    /// Each once.
    pub file_paths: Vec<&'a str>,
    pub project_name: &'a str,
    /// The last segment of the target project's path.
    pub project_path: &'a str,
    /// Of the one who applies.
    pub user_full_name: &'a str,
    pub username: &'a str,
    pub suggestions_count: usize,
    /// Name and address of each other author.
    pub co_authors: Vec<(String, String)>,
}

/// The message: of the first of these templates that is not blank, or else the default.
pub fn message(requested: Option<&str>, project: Option<&str>, facts: &Facts) -> String {
    let template = [requested, project].into_iter().flatten().find(|template| !template.trim().is_empty());
    let mut message = String::new();
    let mut rest = template.unwrap_or(DEFAULT);
    while let Some((before, after)) = rest.split_once("%{") {
        message.push_str(before);
        let known = after.split_once('}').and_then(|(name, after)| Some((facts.value(name)?, after)));
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
    }
    message.push_str(rest);
    message.truncate(message.trim_end().len());
    message
}

impl Facts<'_> {
    fn value(&self, name: &str) -> Option<String> {
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
                let line =
                    |(name, email): &(String, String)| format!("Co-authored-by: {} <{}>", clean(name), clean(email));
                self.co_authors.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts<'static> {
        Facts {
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
        assert_eq!(message(None, None, &facts()), expected);
        let alone = Facts { co_authors: vec![], ..facts() };
        assert_eq!(message(Some(" \n"), Some(""), &alone), "Apply 3 suggestion(s) to 2 file(s)");
    }

    #[test]
    fn placeholders_are_replaced_in_every_template() {
        let all = "%{branch_name}|%{files_count}|%{file_paths}|%{project_name}|%{project_path}|%{user_full_name}|%{username}|%{suggestions_count}";
        let expected = "topic|2|a.rs, b.rs|My Site|site|Mia M|mia|3";
        assert_eq!(message(Some(all), Some("other"), &facts()), expected);
        assert_eq!(message(None, Some(all), &facts()), expected);
    }

    #[test]
    fn what_is_no_placeholder_stays_as_typed() {
        for typed in ["%{unknown}", "%{", "%{branch_name", "100% {x}", "%%{", "{branch_name}"] {
            assert_eq!(message(Some(typed), None, &facts()), typed);
        }
        // What a value says is not replaced again.
        let nested = Facts { branch_name: "%{username}", ..facts() };
        assert_eq!(message(Some("%{branch_name}"), None, &nested), "%{username}");
    }
}
