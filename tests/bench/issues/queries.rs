//! The queries, each as a request and as SQL.

pub struct Caller {
    pub name: &'static str,
    pub token: &'static str,
    id: u64,
}

/// User 17 is a member of a group and of some projects, user 14 of nothing.
pub const CALLERS: [Caller; 3] = [
    Caller { name: "admin", token: "glpat-admin-0000000000000001", id: 1 },
    Caller { name: "member", token: "glpat-user-0000000000000017", id: 17 },
    Caller { name: "outsider", token: "glpat-user-0000000000000014", id: 14 },
];

pub struct Query {
    pub path: &'static str,
    /// The condition on an issue `i`; `ME` is the caller.
    condition: &'static str,
}

const GROUP: &str = "i.project_id IN (WITH RECURSIVE b(id) AS (SELECT 1 UNION ALL SELECT n.id FROM namespaces n \
    JOIN b ON n.parent_id = b.id) SELECT p.id FROM projects p JOIN b ON p.namespace_id = b.id)";

macro_rules! labelled {
    ($label:literal) => {
        concat!("EXISTS (SELECT 1 FROM issue_labels l WHERE l.issue_id = i.id AND l.label = '", $label, "')")
    };
}

macro_rules! contains {
    ($text:literal) => {
        concat!("(i.title ILIKE '%", $text, "%' OR i.description ILIKE '%", $text, "%')")
    };
}

impl Query {
    pub fn sql(&self, caller: &Caller) -> String {
        let condition = self.condition.replace("GROUP", GROUP).replace("ME", &caller.id.to_string());
        let visible = match caller.id {
            1 => String::new(),
            id => format!(
                " AND i.project_id IN (SELECT p.id FROM projects p WHERE p.visibility IN ('public', 'internal') OR \
                 EXISTS (SELECT 1 FROM authorizations a WHERE a.user_id = {id} AND a.project_id = p.id)) \
                 AND (NOT i.confidential OR i.author_id = {id} \
                 OR EXISTS (SELECT 1 FROM issue_assignees s WHERE s.issue_id = i.id AND s.user_id = {id}) \
                 OR EXISTS (SELECT 1 FROM authorizations a WHERE a.user_id = {id} AND a.project_id = i.project_id \
                 AND a.access_level >= 15))"
            ),
        };
        format!("SELECT i.state, count(*) FROM issues i WHERE {condition}{visible} GROUP BY i.state")
    }
}

pub fn all() -> Vec<Query> {
    let query = |(path, condition)| Query { path, condition };
    [
        ("issues_statistics?scope=all", "true"),
        ("issues_statistics", "i.author_id = ME"),
        (
            "issues_statistics?scope=assigned_to_me",
            "EXISTS (SELECT 1 FROM issue_assignees s WHERE s.issue_id = i.id AND s.user_id = ME)",
        ),
        ("groups/1/issues_statistics", "GROUP"),
        ("projects/8/issues_statistics", "i.project_id = 8"),
        ("projects/8/issues_statistics?labels=bug", concat!("i.project_id = 8 AND ", labelled!("bug"))),
        (
            "groups/1/issues_statistics?labels=bug,backend",
            concat!("GROUP AND ", labelled!("bug"), " AND ", labelled!("backend")),
        ),
        ("issues_statistics?scope=all&labels=bug", labelled!("bug")),
        (
            "issues_statistics?scope=all&labels=None",
            "NOT EXISTS (SELECT 1 FROM issue_labels l WHERE l.issue_id = i.id)",
        ),
        (
            "issues_statistics?scope=all&labels=bug&not[labels]=ux",
            concat!(labelled!("bug"), " AND NOT ", labelled!("ux")),
        ),
        ("issues_statistics?scope=all&milestone=12.3", "i.milestone = '12.3'"),
        ("issues_statistics?scope=all&not[milestone]=12.3", "i.milestone IS DISTINCT FROM '12.3'"),
        ("issues_statistics?scope=all&author_id=77", "i.author_id = 77"),
        (
            "issues_statistics?scope=all&author_username=user78",
            "i.author_id = (SELECT id FROM users WHERE lower(username) = 'user78')",
        ),
        (
            "issues_statistics?scope=all&assignee_id=55",
            "EXISTS (SELECT 1 FROM issue_assignees s WHERE s.issue_id = i.id AND s.user_id = 55)",
        ),
        (
            "issues_statistics?scope=all&assignee_id=None",
            "NOT EXISTS (SELECT 1 FROM issue_assignees s WHERE s.issue_id = i.id)",
        ),
        (
            "issues_statistics?scope=all&my_reaction_emoji=Any",
            "EXISTS (SELECT 1 FROM reactions r WHERE r.issue_id = i.id AND r.user_id = ME)",
        ),
        ("issues_statistics?scope=all&iids[]=5&iids[]=600", "i.iid IN (5, 600)"),
        ("issues_statistics?scope=all&epic_id=42", "i.epic_id = 42"),
        ("issues_statistics?scope=all&confidential=true", "i.confidential"),
        (
            "issues_statistics?scope=all&created_after=2024-03-01&created_before=2024-06-01",
            "i.created_at BETWEEN '2024-03-01Z' AND '2024-06-01Z'",
        ),
        (
            "groups/1/issues_statistics?updated_after=2025-01-01&labels=security",
            concat!("GROUP AND i.updated_at >= '2025-01-01Z' AND ", labelled!("security")),
        ),
        ("issues_statistics?scope=all&search=pipeline", contains!("pipeline")),
        ("issues_statistics?scope=all&search=error+crash", concat!(contains!("error"), " AND ", contains!("crash"))),
        ("issues_statistics?scope=all&search=%22login+timeout%22", contains!("login timeout")),
        ("issues_statistics?scope=all&search=%22n+e%22", contains!("n e")),
        ("issues_statistics?scope=all&search=%22ing+ba%22", contains!("ing ba")),
        ("issues_statistics?scope=all&search=%22r+cache+t%22", contains!("r cache t")),
        ("issues_statistics?scope=all&search=ing", contains!("ing")),
        ("issues_statistics?scope=all&search=e1f9", contains!("e1f9")),
        ("groups/1/issues_statistics?search=token&in=title", "GROUP AND i.title ILIKE '%token%'"),
    ]
    .map(query)
    .into()
}
