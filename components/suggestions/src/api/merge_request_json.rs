//! The JSON of merge requests.

use super::access::ReadableMergeRequest;
use super::context::RequestContext;
use super::history::{self, MergeBase};
use crate::api::render::UserRenderer;
use crate::git::ObjectId;
use crate::merge_request::{End, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::discussions::{self, CountBudget};
use crate::store::history::History;
use crate::store::refs;
use kit::Env;
use kit::store::StoreError;
use serde_json::{Value, json};

/// The commits that comments on lines name.
pub struct DiffRefs {
    /// The merge base; without one, `start`. `None` if the walk would read too many commits.
    pub base: Option<ObjectId>,
    pub head: ObjectId,
    /// The head of the target branch.
    pub start: ObjectId,
}

/// The head of a branch of a merge request.
pub struct Head {
    pub commit: ObjectId,
    /// The repository whose branch points to the commit. `None` if the merge request recorded the commit, which may be
    /// gone.
    repository: Option<RepositoryId>,
}

impl Head {
    fn recorded(commit: ObjectId) -> Self {
        Head { commit, repository: None }
    }

    /// 1 read.
    fn of_branch(env: &Env, repository: RepositoryId, branch: &str) -> Result<Option<Self>, StoreError> {
        let head = refs::read(env, repository, &format!("heads/{branch}"))?;
        Ok(head.map(|head| Head { commit: head.commit, repository: Some(repository) }))
    }
}

/// Renders merge requests. Reads the head of the source branch of each, and the users that it names.
pub struct MergeRequestRenderer<'a> {
    context: &'a RequestContext,
    users: UserRenderer<'a>,
    counts: CountBudget,
}

impl<'a> MergeRequestRenderer<'a> {
    pub fn new(context: &'a RequestContext) -> Self {
        MergeRequestRenderer { context, users: UserRenderer::new(context), counts: CountBudget::new() }
    }

    /// The fields that lists have.
    pub fn render(&mut self, readable: &ReadableMergeRequest) -> Result<Value, StoreError> {
        let head = self.head(readable)?;
        self.render_at(readable, head)
    }

    /// With `diff_refs`: the commits that comments on lines name.
    pub fn render_whole(&mut self, readable: &ReadableMergeRequest) -> Result<Value, StoreError> {
        let refs = self.diff_refs(readable)?;
        self.render_with(readable, refs.as_ref())
    }

    /// As [`Self::render_whole`] with these `diff_refs`, which are `null` if one of the commits is unknown.
    pub fn render_with(
        &mut self,
        readable: &ReadableMergeRequest,
        refs: Option<&DiffRefs>,
    ) -> Result<Value, StoreError> {
        let diff_refs = refs.and_then(|DiffRefs { base, head, start }| {
            Some(json!({
                "base_sha": (*base)?.to_string(),
                "head_sha": head.to_string(),
                "start_sha": start.to_string(),
            }))
        });
        let mut json = self.render(readable)?;
        if let Some(fields) = json.as_object_mut() {
            fields.insert("diff_refs".into(), diff_refs.unwrap_or_default());
        }
        Ok(json)
    }

    /// The commits that the difference is between; `None` if a branch was deleted.
    pub fn diff_refs(&self, readable: &ReadableMergeRequest) -> Result<Option<DiffRefs>, StoreError> {
        let mut history = self.history(readable);
        let Some((head, start)) = self.ends(readable, &mut history)? else { return Ok(None) };
        let base = match history::merge_base(&mut history, head, start)? {
            MergeBase::Commit(base) => Some(base),
            MergeBase::Unrelated => Some(start),
            MergeBase::Unknown => None,
        };
        Ok(Some(DiffRefs { base, head, start }))
    }

    /// The history of the source and the target.
    pub fn history(&self, readable: &ReadableMergeRequest) -> History<'a> {
        History::new(&self.context.env, &[readable.source(), RepositoryId::of(&readable.project)])
    }

    /// The head and the start of the merge request's commits; `None` if a branch was deleted. Fails if the commit of a
    /// branch is lost. Reads both commits, which the history keeps.
    pub fn ends(
        &self,
        readable: &ReadableMergeRequest,
        history: &mut History,
    ) -> Result<Option<(ObjectId, ObjectId)>, StoreError> {
        let Some((head, start)) = self.head(readable)?.zip(self.start(readable)?) else { return Ok(None) };
        for end in [&head, &start] {
            end.repository.map_or(Ok(()), |repository| history.expect_head(repository, end.commit))?;
        }
        Ok(Some((head.commit, start.commit)))
    }

    /// The head of the target branch; of a merged merge request, the head before the merge.
    fn start(&self, readable: &ReadableMergeRequest) -> Result<Option<Head>, StoreError> {
        let merge_request = &readable.merge_request;
        if let Some(start) = merge_request.merged_into.filter(|_| merge_request.state == MergeRequestState::Merged) {
            return Ok(Some(Head::recorded(start)));
        }
        Head::of_branch(&self.context.env, RepositoryId::of(&readable.project), &merge_request.target_branch)
    }

    /// The head of the source branch; of a merged merge request, the one at the merge; of a deleted branch, its last.
    pub fn head(&self, readable: &ReadableMergeRequest) -> Result<Option<Head>, StoreError> {
        let merge_request = &readable.merge_request;
        let recorded = merge_request.sha.as_deref().and_then(ObjectId::parse).map(Head::recorded);
        if recorded.is_some() && merge_request.state == MergeRequestState::Merged {
            return Ok(recorded);
        }
        let Some(source) = merge_request.source else { return Ok(recorded) };
        Ok(Head::of_branch(&self.context.env, source, &merge_request.source_branch)?.or(recorded))
    }

    fn render_at(&mut self, readable: &ReadableMergeRequest, head: Option<Head>) -> Result<Value, StoreError> {
        let sha = head.map(|head| head.commit.to_string());
        let ReadableMergeRequest { project, iid, merge_request, sees_internal_notes } = readable;
        let merged = merge_request.merged();
        let closed = merge_request.ended.as_ref().filter(|_| merge_request.state == MergeRequestState::Closed);
        let ended_by = |end: Option<&'_ End>| end.and_then(|end| end.user.clone());
        let merged_by = self.users.render_if_known(ended_by(merged).as_ref())?;
        let closed_by = self.users.render_if_known(ended_by(closed).as_ref())?;
        let is_draft = merge_request.is_draft();
        let (status, detailed_status) = match merge_request.state {
            MergeRequestState::Opened if sha.is_none() => ("cannot_be_merged", "broken_status"),
            MergeRequestState::Opened if is_draft => ("unchecked", "draft_status"),
            MergeRequestState::Opened | MergeRequestState::Locked => ("unchecked", "unchecked"),
            MergeRequestState::Closed | MergeRequestState::Merged => ("unchecked", "not_open"),
        };
        let full_path = project.full_path();
        let (env, counts) = (&self.context.env, &mut self.counts);
        let notes = discussions::count_notes(env, &project.key(), *iid, *sees_internal_notes, counts)?;
        Ok(json!({
            "id": merge_request.id,
            "iid": iid,
            "project_id": project.id,
            "title": merge_request.title,
            "description": merge_request.description,
            "state": merge_request.state.as_str(),
            "created_at": merge_request.created.map(|at| at.to_iso()),
            "updated_at": merge_request.updated.map(|at| at.to_iso()),
            "merged_by": merged_by,
            "merge_user": merged_by,
            "merged_at": merged.map(|end| end.at.to_iso()),
            "closed_by": closed_by,
            "closed_at": closed.map(|end| end.at.to_iso()),
            "source_branch": merge_request.source_branch,
            "target_branch": merge_request.target_branch,
            "source_project_id": merge_request.source.map(|source| source.project),
            "target_project_id": project.id,
            "author": self.users.render_if_known(merge_request.author.as_ref())?,
            "assignee": null,
            "assignees": [],
            "reviewers": [],
            "labels": [],
            "milestone": null,
            "draft": is_draft,
            "work_in_progress": is_draft,
            "merge_status": status,
            "detailed_merge_status": detailed_status,
            "sha": sha,
            "merge_commit_sha": null,
            "squash_commit_sha": null,
            "user_notes_count": notes,
            "upvotes": 0,
            "downvotes": 0,
            "allow_collaboration": merge_request.allow_collaboration,
            "reference": format!("!{iid}"),
            "references": {
                "short": format!("!{iid}"),
                "relative": format!("!{iid}"),
                "full": format!("{full_path}!{iid}"),
            },
            "web_url": match directory::path::begins_like_page(&full_path) {
                true => format!("{}/merge_requests/{full_path}/{iid}", self.context.url),
                false => format!("{}/{full_path}/-/merge_requests/{iid}", self.context.url),
            },
        }))
    }
}
