//! Code suggestions of merge requests: one area of the forge's HTTP API, as a component.
//!
//! # Endpoints
//!
//! Below `/api/v4`.
//!
//! | method and path | what it does | file |
//! |---|---|---|
//! | `PUT /suggestions/:id/apply` | makes a commit of one suggestion | `api/apply.rs` |
//! | `PUT /suggestions/batch_apply` | makes a commit of several suggestions | `api/apply.rs` |
//! | `GET /suggestions/:id` | shows a suggestion in its present state | `api/show.rs` |
//! | `GET, POST /projects/:id/merge_requests`, `GET, PUT …/:iid` | lists, makes, shows and changes merge requests | `api/merge_request_list.rs`, `api/merge_requests.rs` |
//! | `GET /merge_requests`, `/groups/:id/merge_requests` | lists the merge requests of all projects, or of a group | `api/merge_request_list.rs` |
//! | `GET /projects/:id/merge_requests/:iid/changes`, `…/diffs` | shows its difference | `api/merge_request_diffs.rs` |
//! | `GET /projects/:id/merge_requests/:iid/commits` | lists its commits | `api/merge_request_commits.rs` |
//! | `POST /projects/:id/merge_requests/:iid/discussions` | adds a comment, with its suggestions | `api/create_discussion.rs` |
//! | `GET /projects/:id/merge_requests/:iid/discussions[/:discussion_id]` | shows comments with their suggestions | `api/show.rs` |
//! | `PUT …/discussions/:discussion_id`; `…/discussions/:discussion_id/notes[/:note_id]` | resolves; replies, edits, deletes | `api/notes.rs` |
//! | `…/merge_requests/:iid/notes[/:note_id]` | all notes; a comment on the whole | `api/notes.rs` |
//! | `/projects/:id/repository.git/…`, `/<full path>.git/…` | `git clone`, `git fetch`, `git push` | `api/repository.rs` |
//! | `POST /import/suggestions` | imports merge requests (NDJSON) | `api/import/merge_requests.rs` |
//! | `POST /import/suggestions/:project/objects` | imports objects (`git cat-file --batch`), as earlier programs sent them | `api/import/objects.rs` |
//! | `POST /import/suggestions/:project/pack`, `…/known` | imports a pack; says which commits need not be sent | `api/import/packs.rs` |
//! | `POST /import/suggestions/:project/refs` | updates branches and tags | `api/import/refs.rs` |
//! | `POST /maintenance/suggestions/gc`, `…/fsck` | a step of garbage collection, or of a check of everything | `store/reachability.rs` |
//!
//! # Keys
//!
//! Below `suggestions/v1/`. Blobs are written once. Roots are replaced by compare-and-swap, after the blobs that they
//! name were written. `<project>` is an id, with the incarnation if a deleted project had the same id; `<repository>`
//! has the same form ([`repository_id`]).
//!
//! | key | kind | value |
//! |---|---|---|
//! | `packs/<repository>` | root | the repository's packs ([`store::packs`]) |
//! | `pack/<id>/<n>` | blob | 256 KiB of a pack |
//! | `pack_index/<id>/<n>`, `…/directory`, `…/tips` | blob | a page of a pack's index; the first id of each page; its tips, if they are many |
//! | `replaced_packs/<id>` | blob | packs that were joined, and are kept for six hours |
//! | `object/<repository>/<SHA-1>` | blob | an object as git stores a loose one; for a large one, the list of its chunks |
//! | `chunk/<id>/<n>` | blob | 1 MiB of a large object |
//! | `object2/…`, `chunk2/…` | blob | objects and chunks in the second semispace (`store/semispace.rs`) |
//! | `space` | root | which semispace is current |
//! | `reflog/<id>` | blob | a former value of a branch or tag, kept for a day |
//! | `gc/<run>/…` | blob | the marks of a run of [`kit::gc`] or [`kit::fsck`], while it lasts |
//! | `ref/<repository>/<name, encoded>` | root | the value of `heads/<branch>` or `tags/<tag>` ([`store::refs::RefValue`]) |
//! | `ref_transaction/<id>` | root | how an update of several refs ended, as long as one of them names it (`store/ref_value.rs`) |
//! | `branches/<repository>` | root | the names of branches and tags ([`kit::list`]), and of those that are being created ([`store::ref_names`]) |
//! | `merge_request/<project>/<iid>` | root | a merge request |
//! | `merge_requests/<project>` | root | the iids of a project's merge requests, and the branches that open ones claim (`store/merge_requests/claims.rs`) |
//! | `discussions/<project>/<iid>` | root | the list of its discussions, oldest first |
//! | `page/<id>` | blob | 100 entries of such a list |
//! | `discussion/<id>` | blob | `DiscussionInitial`: a comment and its suggestions, as they were made; none for an internal one |
//! | `thread/<discussion id>` | root | `DiscussionState`: the present notes of a discussion that was changed or is internal |
//! | `suggestion/<id>` | blob | the discussion that a suggestion is in |
//! | `applied/<suggestion id>` | blob | the commit that applied a suggestion |
//! | `counter/merge_request`, `counter/note`, `counter/suggestion` | counter | the last id; an instance takes 64 ids of notes at once |
//!
//! The pages of names are blobs below `suggestions/v2/names/`; `suggestions/v2/format` is there as soon as a root may have
//! the form of format 2. If a store has such keys, a host refuses a component that reads format 1 only. Builds before
//! format 2 had all names in `branches`; they are read, and rewritten when the next ref is created or deleted.
//!
//! # Cost
//!
//! Beside the caller and the projects (see `directory`). *t* is the number of trees on the paths to the
//! files, the root tree included, *f* that of files, *s* that of suggestions.
//!
//! If a request's body is streamed, the caller is read twice, before and after it; for a push and an import of a pack
//! or of objects, the project too. An import of merge requests reads the caller for each 100 of them.
//!
//! | request | operations |
//! |---|---|
//! | apply | get *s* × (suggestion, discussion, its state, applied), merge request, default branch, branch, packs, commit, *t* trees, *f* blobs, each co-author; set a pack and its index (more if it is joined with others), *s* applied; swap packs, branch, each discussion's state; rarely a counter |
//! | comment on a line | get merge request, 2 commits, their *t* trees and blobs, semispace roles, branch; 2 counters; set discussion, *s* suggestions; swap list |
//! | clone | get packs, names of refs, each ref, 256 KiB of a pack at a time |
//! | push | set 256 KiB of the pack at a time, its index; get what it builds on; swap packs, each ref; if it creates refs, swap their names before and after, with two or three pages, if it deletes some, after; get the list of merge requests |
//!
//! Following lines reads the blob that was commented on and the blob at the head, unless their difference is cached.
//! Finding a renamed file reads the trees that differ between its commit and the head.
//!
//! So the cost of a commit depends on the paths to the files that it changes, and not on the size of the repository or
//! the length of its history. An instance caches blobs across requests, which saves most of these reads.
//!
//! # Life of a suggestion
//!
//! [`suggestion_block`] finds it in a comment, and [`suggestion`] determines which lines it replaces. Whenever it is
//! shown or applied, [`line_diff`] follows these lines to the head of the branch, and [`applicability`] decides whether
//! it can be applied. [`lines`] edits the file, [`sparse_tree`] the trees above it, [`git`] computes the ids, and
//! [`commit_message`] renders the message. One swap of the ref then makes the commit, and the fact that the suggestion
//! is applied, visible together (`store/refs.rs`).

pub mod api;
mod discussion;
#[cfg(target_family = "wasm")]
mod entry;
mod git;
mod line_diff;
mod lines;
mod merge_request;
mod repository_id;
mod route;
mod sparse_tree;
mod store;
mod suggestion;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../host/testing/src/wait.rs"]
mod wait;
