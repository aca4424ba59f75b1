//! The JSON of discussions.

use super::access::ReadableMergeRequest;
use super::applicability::assess;
use super::context::RequestContext;
use super::file_cache::FileCache;
use super::source_branch::SourceBranch;
use super::text_budget::TextBudget;
use crate::discussion::{DiffPosition, Discussion};
use directory::user::{self, User};
use kit::Error;
use kit::store::StoreError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Renders discussions of one merge request. Reads, for each discussion with suggestions, its file, and 1
/// for each author and for each suggestion.
pub struct DiscussionRenderer<'a> {
    context: &'a RequestContext,
    readable: &'a ReadableMergeRequest,
    branch: SourceBranch,
    files: FileCache<'a>,
    /// The JSON of users, by id.
    users: BTreeMap<u64, Value>,
    budget: TextBudget,
}

impl<'a> DiscussionRenderer<'a> {
    pub fn new(
        context: &'a RequestContext,
        readable: &'a ReadableMergeRequest,
        discussions: &[Discussion],
    ) -> Result<Self, Error> {
        let env = &context.env;
        let branch = SourceBranch::load_for_discussions(env, &readable.merge_request, discussions)?;
        let (files, users, budget) = (FileCache::new(env), BTreeMap::new(), TextBudget::new());
        Ok(DiscussionRenderer { context, readable, branch, files, users, budget })
    }

    pub fn render(&mut self, discussion: &Discussion) -> Result<Value, Error> {
        let ReadableMergeRequest { project, merge_request, .. } = self.readable;
        let mut suggestions = Vec::new();
        if let Some(file) = &discussion.file {
            for suggestion in &discussion.suggestions {
                let (env, files, branch) = (&self.context.env, &self.files, &self.branch);
                let applicability = assess(env, files, branch, merge_request, file, suggestion, true)?;
                self.budget.spend(applicability.from_content.len() + suggestion.to_content.len())?;
                suggestions.push(applicability.render(suggestion));
            }
        }
        let created = discussion.created.to_iso();
        let mut note = json!({
            "id": discussion.note_id,
            "type": if discussion.position.is_some() { "DiffNote" } else { "DiscussionNote" },
            "body": discussion.body,
            "author": self.render_user(discussion.author_id)?,
            "created_at": created,
            "updated_at": created,
            "system": false,
            "noteable_id": merge_request.id,
            "noteable_type": "MergeRequest",
            "project_id": project.id,
            "commit_id": null,
            "resolvable": true,
            "resolved": false,
            "resolved_by": null,
            "resolved_at": null,
            "suggestions": suggestions,
            "confidential": false,
            "internal": false,
            "noteable_iid": discussion.merge_request_iid,
            "commands_changes": {},
        });
        if let (Some(position), Some(fields)) = (&discussion.position, note.as_object_mut()) {
            fields.insert("position".into(), position_json(position));
        }
        Ok(json!({"id": discussion.id, "individual_note": false, "notes": [note]}))
    }

    /// The JSON of a user; null if there is no such user.
    fn render_user(&mut self, id: u64) -> Result<Value, StoreError> {
        if let Some(json) = self.users.get(&id) {
            return Ok(json.clone());
        }
        let user = match self.context.caller.user() {
            Some(user) if user.id == id => Some(user.clone()),
            _ => user::by_id(&self.context.env, id)?,
        };
        let json = user.map_or(Value::Null, |user| user_json(&user, &self.context.url));
        self.users.insert(id, json.clone());
        Ok(json)
    }
}

fn user_json(user: &User, url: &str) -> Value {
    json!({
        "id": user.id,
        "username": user.username,
        "name": user.name,
        "state": user.state.as_str(),
        "avatar_url": null,
        "web_url": format!("{url}/{}", user.username),
    })
}

fn position_json(position: &DiffPosition) -> Value {
    json!({
        "base_sha": position.base_sha,
        "start_sha": position.start_sha,
        "head_sha": position.head_sha,
        "old_path": position.old_path,
        "new_path": position.new_path,
        "position_type": position.kind,
        "old_line": position.old_line,
        "new_line": position.new_line,
        "line_range": null,
    })
}
