//! Code suggestions of merge requests: one area of the forge's HTTP interface, as a component.
//!
//! # Endpoints
//!
//! Below `/api/v4`.
//!
//! | method and path | what | file |
//! |---|---|---|
//! | `PUT /suggestions/:id/apply` | a commit with one suggestion | `api/apply.rs` |
//! | `PUT /suggestions/batch_apply` | a commit with several | `api/apply.rs` |
//! | `GET /suggestions/:id` | a suggestion as it is now | `api/show.rs` |
//! | `POST /projects/:id/merge_requests/:iid/discussions` | comment, and so suggest | `api/create_discussion.rs` |
//! | `GET /projects/:id/merge_requests/:iid/discussions[/:discussion_id]` | comments with their suggestions | `api/show.rs` |
//! | `GET /projects/:id/repository.git/…` | the repository, to `git clone` and `git fetch` | `api/repository.rs` |
//! | `POST /import/suggestions` | merge requests, one a line | `api/import.rs` |
//! | `POST /import/suggestions/:project/objects` | objects, as `git cat-file --batch` prints them | `api/import.rs` |
//! | `POST /import/suggestions/:project/refs` | where branches and tags stand | `api/import.rs` |
//! | `POST /maintenance/suggestions/gc`, `…/fsck` | a step of removing garbage, or of checking everything | `store/reachability.rs` |
//!
//! # Keys
//!
//! Below `suggestions/v1/`. Blobs are written once; only the roots are ever replaced, by
//! compare-and-swap, and always last.
//!
//! | key | kind | what |
//! |---|---|---|
//! | `object/<project id>/<SHA-1>` | blob | an object as git stores a loose one; if it is large, which chunks it is in |
//! | `chunk/<id>/<n>` | blob | 1 MiB of such an object |
//! | `object2/…`, `chunk2/…` | blob | the same in the second space (`store/semispace.rs`) |
//! | `space` | root | which of the two spaces new objects go to |
//! | `reflog/<id>` | blob | where a branch stood that was moved or deleted, for a day |
//! | `gc/<run>/…` | blob | what a run of [`kit::gc`] or [`kit::fsck`] has marked, while it goes on |
//! | `ref/<project id>/<name, encoded>` | root | where `heads/<branch>` or `tags/<tag>` stands ([`store::Head`]) |
//! | `branches/<project id>` | root | the names of those |
//! | `merge_request/<project id>/<iid>` | root | a merge request, as it was imported |
//! | `discussions/<project id>/<iid>` | root | its discussions, oldest first |
//! | `page/<id>` | blob | 100 of those |
//! | `discussion/<id>` | blob | a comment and its suggestions |
//! | `suggestion/<id>` | blob | in which discussion it is |
//! | `applied/<suggestion id>` | blob | in which commit it is |
//! | `counter/note`, `counter/suggestion` | counter | ids |
//!
//! # Cost
//!
//! Beside the caller and the projects (see `directory`). *d* is the number of folders on the way to
//! the files, the top one included, *f* that of files, *s* that of suggestions.
//!
//! | request | operations |
//! |---|---|
//! | apply | get *s* × (suggestion, discussion, applied), merge request twice, branch, space, commit, *d* trees, *f* blobs, each co-author; set *f* blobs, *d* trees, commit, *s* applied; swap branch |
//! | comment with suggestions | get merge request, commit, *d* trees, blob, space, branch; 2 counters; set discussion, *s* suggestions; swap list |
//! | object of the repository | get it, in one space or both |
//!
//! So a commit costs what is on the way to the files that it changes, however many others there
//! are, and however long the history is. An instance keeps blobs across requests, so that most of
//! these reads do not happen.
//!
//! # Life of a suggestion
//!
//! [`suggestion_block`] finds it in a comment, [`suggestion`] says which lines it replaces and, whenever it is
//! shown or applied, whether it still can be. [`lines`] edits the file, [`sparse_tree`] the folders
//! above it, [`git`] gives each its id, [`commit_message`] words the commit, and one swap of the branch
//! makes it and the fact that the suggestion is applied visible together (`store/refs.rs`).

pub mod api;
mod applicability;
mod commit_message;
mod discussion;
#[cfg(target_family = "wasm")]
mod entry;
mod git;
mod lines;
mod merge_request;
mod route;
mod sparse_tree;
mod store;
mod suggestion;
mod suggestion_block;
