//! The tree of paths that users, groups and projects share.
//!
//! A path is resolved one segment at a time: the entry of a segment below a namespace names who
//! lives there by id. Nothing stores a full path, so renaming a group is one write however much is
//! below it. An entry is the present address only if the record that it leads to says so too; else
//! it is an old one, which leads on until somebody claims it. Resolving costs two reads a segment.

use crate::namespace::{self, Namespace};
use crate::project::{self, Lookup};
use crate::save_error::{Rejection, SaveError};
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;

/// The longest segment, as in the reference service.
const MAX_SEGMENT: usize = 255;

/// Who lives at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOwner {
    Namespace(u64),
    Project(u64),
}

/// What a client calls a namespace, project or user by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// All digits: always an id, also where there is a path of digits.
    Id(u64),
    Path(&'a str),
    /// Nothing can have it; storage is not asked.
    Impossible,
}

impl<'a> Identifier<'a> {
    pub fn parse(text: &'a str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number that does not fit is the id of nothing.
            return text.parse().map_or(Identifier::Impossible, Identifier::Id);
        }
        let possible = text.split('/').all(is_segment) && text.split('/').count() <= namespace::MAX_DEPTH + 1;
        if possible { Identifier::Path(text) } else { Identifier::Impossible }
    }
}

/// Whether `text` can be one segment of a path: letters, digits, `_`, `-` and `.` of ASCII, not
/// starting with a dash, not ending in a dot, `.git` or `.atom`.
pub fn is_segment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    (1..=MAX_SEGMENT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && !text.starts_with('-')
        && ![".", ".git", ".atom"].iter().any(|end| lower.ends_with(end))
}

/// The namespace whose present address is `path`.
pub(crate) fn namespace(env: &Env, path: &str) -> Result<Option<Namespace>, StoreError> {
    let mut place = Place::default();
    for segment in path.split('/') {
        match place.entry(env, segment)? {
            Some(PathOwner::Namespace(id)) if place.enter(env, id, segment)? && !place.moved => {}
            _ => return Ok(None),
        }
    }
    Ok(place.namespace)
}

/// The id of the namespace whose present address is `segment` below `parent_id`. 2 reads.
pub(crate) fn child(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<Option<u64>, StoreError> {
    if !is_segment(segment) {
        return Ok(None);
    }
    match store::read::<store::Entry>(env, &Key::entry(parent_id, segment))?.map(PathOwner::from) {
        Some(found @ PathOwner::Namespace(id)) if lives_at(env, found, parent_id, segment)? => Ok(Some(id)),
        _ => Ok(None),
    }
}

/// The project whose present or former address is `path`.
pub(crate) fn project(env: &Env, path: &str) -> Result<Lookup, StoreError> {
    let Some((above, name)) = path.rsplit_once('/') else {
        return Ok(Lookup::Missing);
    };
    let mut place = Place::default();
    for segment in above.split('/') {
        match place.entry(env, segment)? {
            Some(PathOwner::Namespace(id)) if place.enter(env, id, segment)? => {}
            _ => return Ok(Lookup::Missing),
        }
    }
    let (Some(PathOwner::Project(id)), Some(namespace)) = (place.entry(env, name)?, place.namespace) else {
        return Ok(Lookup::Missing);
    };
    let Some(record) = store::read::<store::Project>(env, &Key::Project(id))? else {
        return Ok(Lookup::Missing);
    };
    if record.namespace_id == namespace.id && record.path.eq_ignore_ascii_case(name) {
        let project = record.into_project(id, namespace);
        return Ok(if place.moved { Lookup::Moved(project) } else { Lookup::Found(project) });
    }
    Ok(project::by_id(env, id)?.map_or(Lookup::Missing, Lookup::Moved))
}

/// Where the resolution of a path has come to.
#[derive(Default)]
struct Place {
    /// None at the top.
    namespace: Option<Namespace>,
    /// Whether an old address was passed.
    moved: bool,
}

impl Place {
    fn entry(&self, env: &Env, segment: &str) -> Result<Option<PathOwner>, StoreError> {
        let parent_id = self.namespace.as_ref().map(|namespace| namespace.id);
        Ok(store::read::<store::Entry>(env, &Key::entry(parent_id, segment))?.map(PathOwner::from))
    }

    /// Goes on into the namespace that the entry of `segment` names; false if it is gone.
    fn enter(&mut self, env: &Env, id: u64, segment: &str) -> Result<bool, StoreError> {
        let Some(record) = store::read::<store::Namespace>(env, &Key::Namespace(id))? else {
            return Ok(false);
        };
        let here = self.namespace.as_ref().map(|namespace| namespace.id);
        if record.parent_id == here && record.path.eq_ignore_ascii_case(segment) {
            self.namespace = Some(record.into_namespace(id, self.namespace.take()));
        } else {
            self.moved = true;
            self.namespace = namespace::by_id(env, id)?;
        }
        Ok(self.namespace.is_some())
    }
}

/// Makes `resident` the one whom `segment` below the namespace `parent_id` names. Refused while
/// somebody else lives there.
///
/// Claim first and write the record after: between the two the entry looks like an old address,
/// and repeating both completes them.
pub(crate) fn claim(env: &Env, parent_id: Option<u64>, segment: &str, resident: PathOwner) -> Result<(), SaveError> {
    if !is_segment(segment) {
        return Err(Rejection::BadPath(segment.to_owned()).into());
    }
    let key = Key::entry(parent_id, segment);
    store::try_update(env, &key, |current: Option<store::Entry>| match current.map(PathOwner::from) {
        Some(other) if other != resident && lives_at(env, other, parent_id, segment)? => {
            Err(Rejection::Taken { path: segment.to_owned(), by: other }.into())
        }
        _ => Ok(store::Entry::from(resident)),
    })
}

/// Whether the record of `resident` says that this is its address.
fn lives_at(env: &Env, resident: PathOwner, parent_id: Option<u64>, segment: &str) -> Result<bool, StoreError> {
    let (parent, path) = match resident {
        PathOwner::Namespace(id) => match store::read::<store::Namespace>(env, &Key::Namespace(id))? {
            Some(record) => (record.parent_id, record.path),
            None => return Ok(false),
        },
        PathOwner::Project(id) => match store::read::<store::Project>(env, &Key::Project(id))? {
            Some(record) => (Some(record.namespace_id), record.path),
            None => return Ok(false),
        },
    };
    Ok(parent == parent_id && path.eq_ignore_ascii_case(segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{NewGroup, Visibility};
    use crate::project::NewProject;
    use crate::testing::{forge, new_group, new_project, new_user};
    use crate::user;
    use kit::testing::{LostReplyStore, MemoryStore};

    fn namespace_id(env: &Env, path: &str) -> Option<u64> {
        namespace::find(env, path).unwrap().map(|found| found.id)
    }

    /// `found`, `moved` or `missing`, with the full path of today.
    fn project_at(env: &Env, path: &str) -> String {
        match project::find(env, path).unwrap() {
            Lookup::Found(project) => format!("found {}", project.full_path()),
            Lookup::Moved(project) => format!("moved {}", project.full_path()),
            Lookup::Missing => "missing".into(),
        }
    }

    fn save_group(env: &Env, id: u64, path: &str, parent_id: Option<u64>) -> Result<(), SaveError> {
        namespace::save_group(env, NewGroup { visibility: Visibility::Public, ..new_group(id, path, parent_id) })
    }

    #[test]
    fn ids_and_paths_in_any_case_find_the_same() {
        let env = forge();
        for name in ["101", "Acme/core/Engine", "acme/CORE/engine", "000101"] {
            assert_eq!(project_at(&env, name), "found Acme/core/Engine", "{name}");
        }
        assert_eq!(project_at(&env, "BOB/notes"), "found bob/notes");
        assert_eq!(namespace_id(&env, "acme/core"), Some(11));
        assert_eq!(namespace_id(&env, "alice"), Some(4_000_000_002));
        assert_eq!(user::find(&env, "ALICE").unwrap().map(|user| user.id), Some(2));
    }

    #[test]
    fn each_kind_is_found_as_what_it_is() {
        let env = forge();
        assert_eq!(project_at(&env, "acme/core"), "missing", "a group is no project");
        assert_eq!(namespace_id(&env, "acme/site"), None, "a project is no namespace");
        assert_eq!(namespace::find_group(&env, "bob").unwrap(), None, "a user is no group");
        assert_eq!(user::find(&env, "acme").unwrap(), None, "a group is no user");
        assert_eq!(project_at(&env, "site"), "missing", "a project has no path of one segment");
        assert_eq!(project_at(&env, "acme/site/site"), "missing", "nothing is in a project");
    }

    #[test]
    fn what_cannot_exist_is_missing_without_asking_storage() {
        let env = kit::testing::env(kit::testing::FailingStore::after(0, MemoryStore::default()), &[]);
        let long = "a".repeat(256);
        let deep = vec!["a"; 22].join("/");
        for name in [
            "",
            "/",
            "a//b",
            "/a/b",
            "a/b/",
            "..",
            "a/..",
            "-a/b",
            "a/b.git",
            "a/b.Atom",
            "a b/c",
            "ä/b",
            "a%2Fb",
            "99999999999999999999",
            &long,
            &deep,
        ] {
            assert_eq!(project_at(&env, name), "missing", "{name}");
        }
        assert!(project::find(&env, "a/b").is_err(), "a possible path is asked for");
    }

    #[test]
    fn a_renamed_project_leaves_its_old_path_leading_to_it() {
        let env = forge();
        project::save(&env, new_project(101, "motor", 11)).unwrap();
        assert_eq!(project_at(&env, "acme/core/motor"), "found Acme/core/motor");
        assert_eq!(project_at(&env, "acme/core/engine"), "moved Acme/core/motor");
        // Back again: the first path is the present one once more.
        project::save(&env, new_project(101, "engine", 11)).unwrap();
        assert_eq!(project_at(&env, "acme/core/engine"), "found Acme/core/engine");
        assert_eq!(project_at(&env, "acme/core/motor"), "moved Acme/core/engine");
    }

    #[test]
    fn a_transferred_project_is_found_at_both_ends() {
        let env = forge();
        project::save(&env, new_project(101, "engine", 12)).unwrap();
        assert_eq!(project_at(&env, "guild/engine"), "found guild/engine");
        assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/engine");
    }

    #[test]
    fn renaming_or_moving_a_group_moves_everything_below_it() {
        let env = forge();
        save_group(&env, 11, "kernel", Some(10)).unwrap();
        assert_eq!(project_at(&env, "acme/kernel/engine"), "found Acme/kernel/Engine");
        assert_eq!(project_at(&env, "acme/core/engine"), "moved Acme/kernel/Engine");
        save_group(&env, 11, "kernel", Some(12)).unwrap();
        assert_eq!(project_at(&env, "guild/kernel/engine"), "found guild/kernel/Engine");
        assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/kernel/Engine");
        assert_eq!(namespace_id(&env, "guild/kernel"), Some(11));
        assert_eq!(namespace_id(&env, "acme/kernel"), None, "groups do not follow redirects");
        save_group(&env, 12, "order", None).unwrap();
        assert_eq!(namespace_id(&env, "guild/kernel"), None, "nor below an old path");
        assert_eq!(project_at(&env, "guild/kernel/engine"), "moved order/kernel/Engine");
    }

    #[test]
    fn an_old_path_can_be_claimed_and_a_present_one_cannot() {
        let env = forge();
        let taken = project::save(&env, new_project(200, "SITE", 10)).unwrap_err();
        assert_eq!(taken, Rejection::Taken { path: "SITE".into(), by: PathOwner::Project(100) }.into());
        assert_eq!(project::by_id(&env, 200).unwrap(), None, "nothing of it was saved");
        assert!(save_group(&env, 20, "bob", None).is_err(), "users and groups share one name space");
        assert!(save_group(&env, 20, "tools", Some(10)).is_err(), "and so do groups and projects");
        assert!(user::save(&env, new_user(20, "guild")).is_err());

        project::save(&env, new_project(100, "page", 10)).unwrap();
        project::save(&env, new_project(200, "site", 10)).unwrap();
        assert_eq!(project_at(&env, "acme/site"), "found Acme/site");
        assert_eq!(project_at(&env, "acme/page"), "found Acme/page");
    }

    #[test]
    fn what_is_deleted_is_gone_with_all_below_and_frees_its_path() {
        let env = forge();
        namespace::delete_group(&env, 10).unwrap();
        for name in ["100", "101", "acme/site", "acme/core/engine"] {
            assert_eq!(project_at(&env, name), "missing", "{name}");
        }
        assert_eq!((namespace_id(&env, "acme"), namespace_id(&env, "11")), (None, None));
        save_group(&env, 30, "acme", None).unwrap();
        assert_eq!(namespace_id(&env, "acme"), Some(30));

        user::delete(&env, 3).unwrap();
        assert_eq!((project_at(&env, "103"), namespace_id(&env, "bob")), ("missing".into(), None));
        user::save(&env, new_user(3, "bob")).unwrap();
        assert_eq!(project_at(&env, "bob/notes"), "found bob/notes");
    }

    #[test]
    fn a_renamed_user_takes_their_projects_along() {
        let env = forge();
        user::save(&env, new_user(3, "robert")).unwrap();
        assert_eq!(project_at(&env, "robert/notes"), "found robert/notes");
        assert_eq!(project_at(&env, "bob/notes"), "moved robert/notes");
        assert_eq!(user::find(&env, "bob").unwrap(), None);
    }

    #[test]
    fn groups_do_not_nest_in_themselves_nor_without_end() {
        let env = forge();
        assert_eq!(save_group(&env, 10, "acme", Some(11)), Err(Rejection::OwnAncestor(10).into()));
        assert_eq!(save_group(&env, 10, "acme", Some(10)), Err(Rejection::OwnAncestor(10).into()));
        assert_eq!(save_group(&env, 20, "x", Some(4_000_000_003)), Err(Rejection::NotAGroup(4_000_000_003).into()));
        assert_eq!(save_group(&env, 20, "x", Some(99)), Err(Rejection::NoNamespace(99).into()));
        let mut parent = None;
        for id in 1000..1020 {
            save_group(&env, id, "level", parent).unwrap();
            parent = Some(id);
        }
        assert_eq!(save_group(&env, 1020, "level", parent), Err(Rejection::TooDeep.into()));
        project::save(&env, new_project(300, "deep", 1019)).unwrap();
        let path = format!("{}deep", "level/".repeat(20));
        assert_eq!(project_at(&env, &path), format!("found {path}"));
    }

    #[test]
    fn a_stored_circle_is_an_error_and_not_an_endless_walk() {
        let env = forge();
        store::write(&env, &Key::Namespace(10), Some(store::Namespace::group(new_group(10, "acme", Some(11)))))
            .unwrap();
        assert!(matches!(project::by_id(&env, 101), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn a_namespace_id_stays_with_its_owner() {
        let env = forge();
        assert_eq!(save_group(&env, 4_000_000_003, "x", None), Err(Rejection::NamespaceInUse(4_000_000_003).into()));
        let thief = user::NewUser { namespace_id: Some(10), ..new_user(5, "mallory") };
        assert_eq!(user::save(&env, thief), Err(Rejection::NamespaceInUse(10).into()));
        project::save(&env, new_project(100, "site", 10)).unwrap();
        assert_eq!(project_at(&env, "mallory/site"), "missing", "what is refused claims no path");
        // A namespace id that was given once is kept when it is not given again.
        user::save(&env, user::NewUser { namespace_id: Some(77), ..new_user(6, "frank") }).unwrap();
        user::save(&env, new_user(6, "frank")).unwrap();
        assert_eq!(namespace_id(&env, "frank"), Some(77));
    }

    #[test]
    fn saving_again_writes_nothing_and_lost_answers_do_no_harm() {
        let store = MemoryStore::default();
        let env = kit::testing::env(LostReplyStore::over(store.clone()), &[]);
        crate::testing::fill(&env);
        let before = store.snapshot().keys();
        crate::testing::fill(&env);
        assert_eq!(store.keys(), before);
        assert_eq!(project_at(&env, "acme/core/engine"), "found Acme/core/Engine");
    }

    #[test]
    fn an_interrupted_save_is_completed_by_repeating_it() {
        let rename = |env: &Env| project::save(env, NewProject { ..new_project(101, "motor", 12) });
        let mut operations = 0;
        loop {
            let store = MemoryStore::default();
            crate::testing::fill(&kit::testing::env(store.clone(), &[]));
            let failing = kit::testing::FailingStore::after(operations, store.clone());
            let outcome = rename(&kit::testing::env(failing.clone(), &[]));
            let env = kit::testing::env(store, &[]);
            // Whatever was interrupted, the project is found, and where it says that it is.
            let Some(now) = project::by_id(&env, 101).unwrap() else { panic!("lost after {operations}") };
            assert!(["Acme/core/Engine", "guild/motor"].contains(&now.full_path().as_str()));
            assert_eq!(project_at(&env, &now.full_path()), format!("found {}", now.full_path()));
            rename(&env).unwrap();
            assert_eq!(project_at(&env, "guild/motor"), "found guild/motor");
            assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/motor");
            if !failing.failed() {
                outcome.unwrap();
                break;
            }
            assert!(outcome.is_err());
            operations += 1;
        }
        assert!(operations > 4, "every operation was made to fail once");
    }
}
