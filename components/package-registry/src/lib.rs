//! The package registry: one area of the forge's HTTP API, as a component.
//!
//! # Endpoints
//!
//! `<prefix>` is `/api/v4/projects/:id/packages/npm`, `/api/v4/groups/:id/-/packages/npm` or
//! `/api/v4/packages/npm`; `pkgreg` is an alias of `npm`. URLs in responses repeat the prefix of the
//! request. A name is `lib`, `@scope/lib` or `@scope%2flib`.
//!
//! | method and path | purpose | file |
//! |---|---|---|
//! | `GET <prefix>/:name` | metadata, full or abbreviated | `api/metadata.rs` |
//! | `GET <prefix>/:name/:version_or_tag` | the record of one version | `api/metadata.rs` |
//! | `GET <prefix>/:name/-/:file` | the file of a version | `api/download.rs` |
//! | `PUT projects/:id/packages/npm/:name` | publish (with an attachment), deprecate (without) | `api/publish.rs`, `api/deprecate.rs` |
//! | `GET <prefix>/-/npm/v1/attestations/:name@:version` | provenance of a version | `api/attestation.rs` |
//! | `GET <prefix>/-/package/:name/dist-tags` | tags | `api/tag.rs` |
//! | `PUT`, `DELETE <prefix>/-/package/:name/dist-tags/:tag` | set, remove a tag | `api/tag.rs` |
//! | `PUT` of only `maintainers` or `users` to `…/:name` or `…/-rev/:revision` | refused with the reason | `api/noop_update.rs` |
//! | `GET <prefix>/-/user/org.couchdb.user:NAME` | whether the user exists | `api/user.rs` |
//! | `PUT <prefix>/-/user/org.couchdb.user:NAME` | `npm login` with a personal token as the password | `api/account.rs` |
//! | `GET <prefix>/-/npm/v1/user` | `npm profile get` | `api/account.rs` |
//! | `PUT`, `DELETE projects/:id/packages/npm/:name/-rev/:revision` | unpublish versions, or all | `api/unpublish.rs` |
//! | `DELETE projects/:id/packages/npm/:name/-/:file/-rev/:revision` | sent by clients after unpublishing; the file is already removed | `api/unpublish.rs` |
//! | `GET <prefix>/-/ping`, `-/whoami` | liveness, the caller's username | `api.rs`, `api/user.rs` |
//! | `GET <prefix>/-/v1/search` | packages that the caller may read, by text, `scope:` and `keywords:` | `api/search.rs` |
//! | `GET projects/:id/packages`, `groups/:id/packages` | versions of packages that the caller may read, in pages | `api/list.rs` |
//! | `GET`, `DELETE projects/:id/packages/:package_id` | one version by its numeric id | `api/package_by_id.rs` |
//! | `GET …/:package_id/package_files`, `…/pipelines` | its file; no pipelines | `api/package_by_id.rs` |
//! | `DELETE …/:package_id/package_files/:file_id` | unpublishes the version | `api/package_by_id.rs` |
//! | `GET`, `POST projects/:id/packages/protection/rules` | protection rules of the project | `api/protection_rules.rs` |
//! | `PATCH`, `DELETE …/rules/:rule_id` | change, remove a rule | `api/protection_rules.rs` |
//! | `GET <prefix>/-/package/:name/files/:version` | the files in the tarball of a version | `api/file_list.rs` |
//! | `GET <prefix>/-/package/:name/collaborators` | members of the project | `api/organization.rs` |
//! | `GET <prefix>/-/org/:group/package`, `…/user`, `…/team` | packages and members of a group; no teams | `api/organization.rs` |
//! | `GET <prefix>/-/npm/v1/hooks` | none | `api/organization.rs` |
//! | `<prefix>/-/team/…`, `…/-/npm/v1/hooks/hook`, `…/-/user/:name/package` | refused with what to do instead | `api/refusals.rs` |
//! | `GET <prefix>/-/package/:name/visibility` | whether anyone may read the package | `api/visibility.rs` |
//! | `GET <prefix>/-/package/:name/access`, `…/owners` | the visibility and the maintainers, in pnpm's form | `api/visibility.rs`, `api/owners.rs` |
//! | `PUT <prefix>/-/package/:name/owners`, `DELETE …/owners/:user` | refused with the reason | `api/refusals.rs` |
//! | `POST <prefix>/-/npm/v1/security/advisories/bulk`, `…/audits/quick`, `…/audits` | refused, or 307 to the registry in `registry_forward_url` | `api/audit.rs` |
//! | `PUT` of any other package document at group or instance level | 405 with the project's address | `api/publish_above_project.rs` |
//! | `GET <prefix>/-/_view/starredByUser` | no stars | `api/stars.rs` |
//! | `GET`, `PUT`, `DELETE <prefix>/-/package_name_owners/:name` | whose a name is; transfer, release | `api/name_owners.rs` |
//! | `POST …/projects`, `DELETE …/projects/:project_id` | allow, disallow a further project | `api/name_owners.rs` |
//! | `GET`, `POST <prefix>/-/package_name_reservations`, `DELETE …/:id` | reserve names by pattern | `api/name_reservations.rs` |
//!
//! A read of an absent name is redirected to the registry in `registry_forward_url` (`api/forward.rs`).
//!
//! Administrators only, below `/api/v4/maintenance/package-registry`:
//!
//! | method and path | purpose | file |
//! |---|---|---|
//! | `POST gc` | a step of removing unreachable blobs, and of recording the owners of names and the ids of versions | `api/maintenance.rs` |
//! | `POST fsck` | a step of checking all packages | `api/maintenance/check.rs` |
//!
//! # Keys
//!
//! Below `package-registry/v1/`. `<project>` is an id; if a deleted project had the id before, also the incarnation
//! ([`directory::project::ProjectKey`]). Blobs are written once. Only roots are replaced, by compare-and-swap, and
//! always last. Uploads and version runs have time-ordered ids, so [`kit::gc`] reads the age of an unreachable blob
//! from its key.
//!
//! | key | kind | contents |
//! |---|---|---|
//! | `package/<project>/<name>` | root | a package: tags, version runs with a checksum of each blob, revision ([`package`]) |
//! | `name/<name>` | root | projects that may have a package of this name, the last publisher at the end |
//! | `version/<name>/<version>` | root | projects that may have this version of a scoped name, and which of them claimed it last |
//! | `claim/<root>/<name>/<version>` | root | the same below one top-level namespace, for other names of several projects |
//! | `owner/<root>/<name>` | root | the owner of a name below a top-level namespace, further projects, events ([`name_owner`]) |
//! | `id/<number>` | entry | the version with a numeric id, which is written in 14 hexadecimal digits (`store/version_ids.rs`). It is written before its package, and never changed unless maintenance finds two versions with one id |
//! | `protection/<project>` | root | protection rules of a project |
//! | `reserved/<root>` | root | reservations of names below a top-level namespace |
//! | `project/<project>` | root | names of the packages that a project may have ([`kit::list`], `store/package_names.rs`) |
//! | `projects` | root | projects that may have packages, with incarnations, by id ([`kit::list`]) |
//! | `segment/<id>/index` | blob | sorted lines: version, upload, time, state ([`version_run::Index`]) |
//! | `segment/<id>/full`, `segment/<id>/abbreviated` | blob | records and times in the form of metadata ([`version_run::FormRecords`]) |
//! | `upload/<id>` | blob | a file's size, digests, publisher with incarnation, and a checksum for each chunk |
//! | `upload/<id>/about` | blob | package-level fields: readme, description and other members that full metadata shows while the version is the latest |
//! | `upload/<id>/attestations` | blob | provenance as it is served; optional |
//! | `gc/<run>/…` | blob | the marks of a run of [`kit::gc`] |
//! | `rate/caller/<slot>`, `rate/address/<slot>` | root | counted requests, if a limit is set ([`kit::rate_limit`]) |
//! | `rate/lookup/<slot>`, `rate/search/<slot>` | root | counted requests, for limits that are on by default |
//! | `upload/<id>/<n>` | blob | chunk `n` of the file, 1 MiB each but the last |
//!
//! The pages of `projects` and `project/<project>` are blobs below `package-registry/v3/projects/` and
//! `package-registry/v3/names/`; `package-registry/v3/format` is there as soon as one may have the form. If a store has
//! such keys, a host refuses a component that reads earlier formats only.
//! Builds before format 3 had one record for `projects`, and trees of records for names, with keys
//! `package-registry/v2/project/<project>/<digits>`. Both are read, and rewritten at the next project or name.
//!
//! # Cost
//!
//! Besides the caller and the project, a request reads the token and the catalog's root; if the root has changed, also
//! the directory's records (`directory::record_cache`). A write reads them again after its body. An instance caches
//! blobs, which saves most of their reads. It also caches rendered metadata, plain and in gzip, so that a repeated
//! request is as cheap as a 304 (`api/metadata.rs`). *k* is the number of version runs. It is about 4 at most for
//! every fourfold growth of the metadata from 16 KiB to 1 MiB. Above, it is 1 for each MiB or more.
//!
//! An index or a form is compared with its checksum when it is read from the store. All blobs of a run are compared
//! before the run is merged or changed.
//!
//! | request | operations |
//! |---|---|
//! | metadata known to the client (304) | get package |
//! | metadata | get package, *k* forms, and for the full form the package-level fields |
//! | one version | get package, up to *k* indexes, one form |
//! | file | get package, up to *k* indexes, upload, each chunk; of files up to 8 MiB, an instance keeps 8 MiB of chunks that it has read twice |
//! | tags | get package |
//! | attestations | get package, up to *k* indexes, the attestations |
//! | set, remove a tag | get settings, get `protection`, get package, up to *k* indexes; swap package |
//! | publish a new version | get settings, get `protection`, get and set `id`, get `owner`, get `name`, get package, *k* indexes, the merged runs, once each run without checksums; set each chunk, upload, package-level fields, attestations if there are any, 3 blobs of a run; swap package. Of a scoped name: one counter and swap for the list of projects with the version; and if the scope is the top-level namespace's path, the packages of the other projects in it. On a store where this takes more than half a second, the list is swapped again at the end |
//! | publish a new package | as for a new version; before the package also get `reserved` and `name`, swap `owner`, `projects` and `project`, each with two pages or three if it is long, and `name`; one counter for each root that is created |
//! | deprecate | get settings, get `protection`, get package, *k* indexes, the changed runs; set these; swap package |
//! | unpublish | get settings, get `protection`, get package, all runs; set the changed runs; swap package; delete chunks |
//! | one version by its id | get `id`, get package, up to *k* indexes, the full form, the upload; without an entry, as a list |
//! | search | get the list of `project`, up to 4,000 packages, and the package-level fields that the instance has not cached; for a name of several projects, and for each result, get `owner`; at group and instance level before that `projects`, and `project` of up to 20,000; for each result upload, publisher and the maintainers that are not cached |
//! | list | get the list of `project`, up to 20,000 packages, and up to 64 MiB of their indexes; by status also their abbreviated forms; for each version that is shown a form, the upload and the publisher; at group level before that as a search |
//! | audit that may be forwarded | for each scope the entry of its path; at project level get `project`; at group level `projects`, and up to 4,000 of `project` or `name`; if names have owners, the same of the top-level namespace at both, and up to 20,000 of `owner`; at instance level up to 4,000 of `name`; for each found project a package |
//! | a step of gc | 200 packages and their indexes, of which about 1,000 versions of deleted projects are removed from lists; or 524,288 marks of the run, to sort them; or 5,000 keys, a page of sorted marks or two for each batch of them, and the removed blobs |
//! | a step of fsck | up to 200 packages with all of their blobs and `id`s, and 256 MiB of files |
//! | at group or instance level | before that, get `owner`, and the package of each project that may publish the name. Without an owner's record also get `name`, and up to 100 packages. If names are shared, get `name`; for a list of an earlier build also each package that it names |
//!
//! # Life of a publication
//!
//! `api/access.rs` checks the caller's rights before the body is read, and again when it has been read. While the body
//! arrives, [`document`] separates the file from the rest. [`base64_decoder`], [`integrity`] and [`tarball`] decode,
//! hash and inspect the file, and [`store::Staging`] writes it in chunks. Then [`submission`] and [`manifest`] check
//! the rest against the file's [`install_fields`], and render the records. [`version_run`] merges them with older
//! records, and [`package`] adds the version. One swap makes it visible (`api/publish.rs`).

pub mod api;
mod base64_decoder;
mod byte_range;
mod checksum;
mod consistency;
mod document;
#[cfg(target_family = "wasm")]
mod entry;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod install_fields;
mod integrity;
mod json;
mod manifest;
mod merged;
mod metadata;
mod name;
mod name_owner;
mod negotiation;
mod package;
mod package_list;
mod provenance;
mod publisher;
mod route;
mod search;
mod store;
mod submission;
mod tarball;
mod version;
mod version_range;
mod version_run;
