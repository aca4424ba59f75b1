//! Filters of lists of merge requests.

use super::context::RequestContext;
use crate::merge_request::{End, MergeRequest, MergeRequestState};
use directory::user::{self, User, UserKey};
use kit::Error;
use kit::Timestamp;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use std::collections::BTreeSet;

/// The parameters that filter a list.
const FILTERS: [&str; 22] = [
    "state",
    "scope",
    "iids",
    "source_branch",
    "source_project_id",
    "target_branch",
    "author_id",
    "author_username",
    "not[author_id]",
    "not[author_username]",
    "merge_user_id",
    "merge_user_username",
    "search",
    "in",
    "wip",
    "draft",
    "created_after",
    "created_before",
    "updated_after",
    "updated_before",
    "merged_after",
    "merged_before",
];

/// Filters by fields that no merge request has here. The value `None` finds all merge requests, any other value finds
/// none. Their negations, `not[…]`, filter out nothing.
const ABSENT_FIELDS: [&str; 13] = [
    "assignee_id",
    "assignee_username",
    "reviewer_id",
    "reviewer_username",
    "labels",
    "milestone",
    "my_reaction_emoji",
    "approved_by_ids",
    "approved_by_usernames",
    "approver_ids",
    "environment",
    "deployed_after",
    "deployed_before",
];

/// The values of `scope`. A scope of assignees or reviewers finds nothing, because merge requests have none.
const SCOPES: [&str; 6] =
    ["created_by_me", "created-by-me", "assigned_to_me", "assigned-to-me", "reviews_for_me", "all"];

/// Whether a parameter is one of these filters, also in the form of a list.
pub fn is_filter(name: &str) -> bool {
    let name = name.trim_end_matches("[]");
    FILTERS.contains(&name) || ABSENT_FIELDS.contains(&name)
}

/// Whose merge requests a list has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    CreatedByMe,
    /// Merge requests of which the caller is an assignee or a reviewer: none.
    Nothing,
}

/// Which merge requests a list has.
pub struct MergeRequestFilter {
    /// `None`: all.
    state: Option<MergeRequestState>,
    iids: Option<BTreeSet<u64>>,
    source_branch: Option<String>,
    source_project_id: Option<u64>,
    target_branch: Option<String>,
    author: Option<UserParam>,
    not_author: Option<UserParam>,
    merge_user: Option<UserParam>,
    pub scope: Scope,
    search: Option<Search>,
    is_draft: Option<bool>,
    created: TimeRange,
    updated: TimeRange,
    merged: TimeRange,
    /// Whether the parameters ask for a value of one of [`ABSENT_FIELDS`].
    pub matches_none: bool,
}

/// A user, as a parameter names them.
enum UserParam {
    Id(u64),
    Username(String),
}

/// The present users with the ids or names of a filter. If there is no such user, a user with the id 0, which no author
/// has.
pub struct FilterUsers {
    author: Option<UserKey>,
    not_author: Option<UserKey>,
    merge_user: Option<UserKey>,
}

struct Search {
    /// In lower case.
    text: String,
    in_title: bool,
    in_description: bool,
}

/// A range that includes both ends.
struct TimeRange {
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl TimeRange {
    fn read(checks: &Validation, after: &str, before: &str) -> Self {
        TimeRange { after: checks.datetime(after), before: checks.datetime(before) }
    }

    /// An unknown time is in no range that has an end.
    fn has(&self, time: Option<Timestamp>) -> bool {
        self.after.is_none_or(|after| time.is_some_and(|time| time >= after))
            && self.before.is_none_or(|before| time.is_some_and(|time| time <= before))
    }
}

impl MergeRequestFilter {
    /// The filter of the parameters, with the scope `default` if they have none.
    pub fn read(params: &Params, default: Scope) -> Result<Self, Error> {
        let checks = Validation::new(params);
        let text = |name: &str| checks.text(name).map(str::to_owned);
        let state = checks.one_of("state", &["opened", "closed", "locked", "merged", "all"]);
        let scope = checks.one_of("scope", &SCOPES);
        let id = |name: &str| checks.integer(name).map(|id| u64::try_from(id).unwrap_or(0));
        let user_param = |by_id: &str, by_name: &str| {
            checks.exclusive(&[by_id, by_name]);
            id(by_id).map(UserParam::Id).or_else(|| text(by_name).map(UserParam::Username))
        };
        let author = user_param("author_id", "author_username");
        let not_author = user_param("not[author_id]", "not[author_username]");
        let merge_user = user_param("merge_user_id", "merge_user_username");
        let source_project_id = id("source_project_id");
        let wip = checks.one_of("wip", &["yes", "no"]).map(|wip| wip == "yes");
        let is_draft = checks.boolean("draft").or(wip);
        checks.exclusive(&["draft", "wip"]);
        let is_approved = checks.one_of("approved", &["yes", "no"]) == Some("yes");
        let created = TimeRange::read(&checks, "created_after", "created_before");
        let updated = TimeRange::read(&checks, "updated_after", "updated_before");
        let merged = TimeRange::read(&checks, "merged_after", "merged_before");
        let is_none = |value: &&str| value.eq_ignore_ascii_case("none");
        let absent = ABSENT_FIELDS.map(|name| checks.list(name).unwrap_or_default());
        let is_any_absent = !absent.iter().flatten().all(is_none);
        let (iids, search) = (checks.list("iids"), Search::read(&checks));
        let (source_branch, target_branch) = (text("source_branch"), text("target_branch"));
        if params.list("not").is_some_and(|values| !values.is_empty()) {
            checks.reject("not is invalid");
        }
        checks.finish()?;
        Ok(MergeRequestFilter {
            state: state.and_then(MergeRequestState::parse),
            iids: iids.map(|iids| iids.iter().map(|iid| iid.parse().unwrap_or(0)).collect()),
            source_branch,
            source_project_id,
            target_branch,
            author,
            not_author,
            merge_user,
            scope: match scope {
                None => default,
                Some("all") => Scope::All,
                Some("created_by_me" | "created-by-me") => Scope::CreatedByMe,
                Some(_) => Scope::Nothing,
            },
            search,
            is_draft,
            created,
            updated,
            merged,
            matches_none: is_any_absent || is_approved,
        })
    }

    /// Looks up the users that the parameters name.
    pub fn find_users(&self, context: &RequestContext) -> Result<FilterUsers, StoreError> {
        let find = |user_param: &Option<UserParam>| match user_param {
            Some(UserParam::Id(id)) => user::key_of(&context.env, *id).map(Some),
            Some(UserParam::Username(name)) => {
                let user = user::by_username(&context.env, name)?;
                Ok::<_, StoreError>(Some(user.map_or(UserKey::first(0), |user| user.key())))
            }
            None => Ok(None),
        };
        let author = match self.scope {
            Scope::All => find(&self.author)?,
            Scope::CreatedByMe => Some(context.caller.user().map_or(UserKey::first(0), User::key)),
            Scope::Nothing => Some(UserKey::first(0)),
        };
        Ok(FilterUsers { author, not_author: find(&self.not_author)?, merge_user: find(&self.merge_user)? })
    }

    /// Whether only open merge requests are accepted.
    pub fn is_only_open(&self) -> bool {
        self.state == Some(MergeRequestState::Opened)
    }

    /// Whether a merge request with this iid need be read.
    pub fn may_accept(&self, iid: u64) -> bool {
        self.iids.as_ref().is_none_or(|iids| iids.contains(&iid))
    }

    pub fn accepts(&self, merge_request: &MergeRequest, users: &FilterUsers) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let author = merge_request.author.as_ref();
        let merged = merge_request.merged();
        let merge_user = merged.and_then(|end: &End| end.user.as_ref());
        self.state.is_none_or(|state| state == merge_request.state)
            && is(&self.source_branch, &merge_request.source_branch)
            && is(&self.target_branch, &merge_request.target_branch)
            && self.source_project_id.is_none_or(|id| merge_request.source.is_some_and(|source| source.project == id))
            && users.author.as_ref().is_none_or(|wanted| author == Some(wanted))
            && users.not_author.as_ref().is_none_or(|unwanted| author != Some(unwanted))
            && users.merge_user.as_ref().is_none_or(|wanted| merge_user == Some(wanted))
            && self.is_draft.is_none_or(|is_draft| is_draft == merge_request.is_draft())
            && self.search.as_ref().is_none_or(|search| search.finds(merge_request))
            && self.created.has(merge_request.created)
            && self.updated.has(merge_request.updated)
            && self.merged.has(merged.map(|end| end.at))
    }
}

impl Search {
    /// In titles and descriptions, unless `in` names one of them.
    fn read(checks: &Validation) -> Option<Self> {
        let fields = checks.list("in").unwrap_or_default();
        let text = checks.text("search")?.to_lowercase();
        let [in_title, in_description] = ["title", "description"].map(|field| fields.contains(&field));
        let is_in_none = !in_title && !in_description;
        Some(Search { text, in_title: in_title || is_in_none, in_description: in_description || is_in_none })
    }

    fn finds(&self, merge_request: &MergeRequest) -> bool {
        let title = Some(&merge_request.title).filter(|_| self.in_title);
        let description = merge_request.description.as_ref().filter(|_| self.in_description);
        [title, description].into_iter().flatten().any(|text| text.to_lowercase().contains(&self.text))
    }
}
