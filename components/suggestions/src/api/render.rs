//! The JSON of discussions and notes.

use super::access::ReadableMergeRequest;
use super::applicability::assess;
use super::context::RequestContext;
use super::file_cache::FileCache;
use super::source_branch::SourceBranch;
use super::text_budget::TextBudget;
use super::users::UserRenderer;
use crate::discussion::{DiffPosition, Discussion, Note, RangeEnd};
use kit::Error;
use kit::store::StoreError;
use serde_json::{Value, json};

/// Renders discussions of one merge request. Reads, for each discussion on a line, its file, and 1
/// for each author and for each suggestion.
pub struct DiscussionRenderer<'a> {
    readable: &'a ReadableMergeRequest,
    context: &'a RequestContext,
    branch: SourceBranch,
    files: FileCache<'a>,
    users: UserRenderer<'a>,
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
        let (files, users, budget) = (FileCache::new(env), UserRenderer::new(context), TextBudget::new());
        Ok(DiscussionRenderer { readable, context, branch, files, users, budget })
    }

    pub fn render(&mut self, discussion: &Discussion) -> Result<Value, Error> {
        let notes = discussion.notes.iter().map(|note| self.render_note(discussion, note));
        let notes = notes.collect::<Result<Vec<Value>, Error>>()?;
        Ok(json!({"id": discussion.id, "individual_note": discussion.is_individual, "notes": notes}))
    }

    pub fn render_note(&mut self, discussion: &Discussion, note: &Note) -> Result<Value, Error> {
        let ReadableMergeRequest { project, merge_request, .. } = self.readable;
        let mut suggestions = Vec::new();
        if let Some(file) = &discussion.file {
            for suggestion in &note.suggestions {
                let (env, files, branch) = (&self.context.env, &self.files, &self.branch);
                let applicability = assess(env, files, branch, merge_request, file, suggestion, true)?;
                self.budget.spend(applicability.from_content.len() + suggestion.to_content.len())?;
                suggestions.push(applicability.render(suggestion));
            }
        }
        let is_resolvable = !note.is_system && !discussion.is_individual;
        let resolution = discussion.resolution.as_ref().filter(|_| is_resolvable);
        let resolved_by = self.users.render_if_known(resolution.map(|resolution| &resolution.user))?;
        let kind = match &discussion.position {
            Some(_) => Some("DiffNote"),
            None => (!discussion.is_individual).then_some("DiscussionNote"),
        };
        let mut json = json!({
            "id": note.id,
            "type": kind,
            "body": note.body,
            "author": self.users.render(&note.author)?,
            "created_at": note.created.to_iso(),
            "updated_at": note.updated.to_iso(),
            "system": note.is_system,
            "noteable_id": merge_request.id,
            "noteable_type": "MergeRequest",
            "project_id": project.id,
            "commit_id": null,
            "resolvable": is_resolvable,
            "resolved": resolution.is_some(),
            "resolved_by": resolved_by,
            "resolved_at": resolution.map(|resolution| resolution.at.to_iso()),
            "suggestions": suggestions,
            "confidential": discussion.is_internal(),
            "internal": discussion.is_internal(),
            "noteable_iid": discussion.merge_request_iid,
            "commands_changes": {},
        });
        if let (Some(position), Some(fields)) = (&discussion.position, json.as_object_mut()) {
            let present = self.present_position(discussion, position)?;
            fields.insert("position".into(), position_json(&present));
            fields.insert("original_position".into(), position_json(position));
        }
        Ok(json)
    }

    /// The position of the commented line at the head of the branch; the original position if that line was changed.
    fn present_position(&self, discussion: &Discussion, made: &DiffPosition) -> Result<DiffPosition, StoreError> {
        let (Some(file), Some(head), Some(line)) = (&discussion.file, &self.branch.head, made.new_line) else {
            return Ok(made.clone());
        };
        let Some((path, blob)) = head.find(file) else { return Ok(made.clone()) };
        let followed = self.files.follow(file, &(line..=line), (head.repository, blob))?;
        Ok(followed.map_or_else(
            || made.clone(),
            |lines| DiffPosition {
                head_sha: head.value.commit.to_string(),
                new_path: Some(path.to_owned()),
                new_line: Some(*lines.start()),
                // The lines of the range were not followed.
                line_range: made.line_range.clone().filter(|_| *lines.start() == line && *path == file.path),
                ..made.clone()
            },
        ))
    }
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
        "line_range": position.line_range.as_ref().map(|[start, end]| json!({
            "start": range_end_json(start),
            "end": range_end_json(end),
        })),
    })
}

fn range_end_json(end: &RangeEnd) -> Value {
    json!({"line_code": end.line_code, "type": end.kind, "old_line": end.old_line, "new_line": end.new_line})
}
