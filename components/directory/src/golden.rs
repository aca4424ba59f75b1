//! Stored records of format 1, as they were first written. Every build must read them and write the same bytes.

mod catalog;

use crate::access::Role;
use crate::demo::DemoRecord;
use crate::feature;
use crate::member::{self, Source};
use crate::project::{self, ProjectLookup};
use crate::setting::{self, License};
use crate::store::{self, Key};
use crate::token::{self, Fingerprint, Subject};
use crate::{namespace, user};
use kit::store::Store;
use kit::testing::{MemoryStore, env};
use kit::{Env, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1")
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap().trim_end().to_owned()
}

/// The key of each file.
const KEYS: [(&str, &str); 29] = [
    ("demo", "directory/v1/demo"),
    ("user", "directory/v1/user/2"),
    ("deleted", "directory/v1/user/3"),
    // SHA-256 of `1`, `2`, `3` and `4`.
    ("personal-token", "directory/v1/token/6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"),
    ("group-deploy-token", "directory/v1/token/d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"),
    ("project-deploy-token", "directory/v1/token/4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce"),
    ("job-token", "directory/v1/token/4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a"),
    // SHA-256 of `5`.
    ("rotated-token", "directory/v1/token/ef2d127de37b942baad06145e54b0c619a1f22327b2ebbcfbec78f5564afe39d"),
    ("user-tokens", "directory/v1/tokens/2"),
    ("token-migration", "directory/v1/tokens/migration"),
    ("token-use", "token-use/v1/6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"),
    ("personal-namespace", "directory/v1/namespace/4000000002"),
    ("top-group", "directory/v1/namespace/10"),
    ("subgroup", "directory/v1/namespace/11"),
    ("project", "directory/v1/project/100"),
    ("project-levels", "directory/v1/project/104"),
    ("path-of-namespace", "directory/v1/path/10/core"),
    ("path-of-project", "directory/v1/path/11/site"),
    ("access", "directory/v1/access/2"),
    ("settings", "directory/v1/settings"),
    ("features", "directory/v1/features"),
    ("user-with-a-used-id", "directory/v1/user/9"),
    // SHA-256 of `6`.
    ("token-with-a-used-id", "directory/v1/token/e7f6c011776e8db7cd330b54174fd76f7d0216b612387a5ffcfb81e6f0919683"),
    ("project-with-a-used-id", "directory/v1/project/109"),
    ("project-in-place-of-a-deleted-one", "directory/v1/project/110"),
    ("project-with-a-repository-of-its-own", "directory/v1/project/111"),
    ("project-of-a-creator-with-a-used-id", "directory/v1/project/112"),
    ("challenged-path", "directory/v1/path/0/guild"),
    ("path-of-a-used-id", "directory/v1/path/11/former"),
];

fn forge() -> Env {
    let store = MemoryStore::default();
    KEYS.iter().for_each(|(name, key)| store.set(key, golden(name).as_bytes()).unwrap());
    store.set("directory/v1/path/0/acme", br#"{"namespace":10}"#).unwrap();
    store.set("directory/v1/path/0/alice", br#"{"namespace":4000000002}"#).unwrap();
    env(store, &[])
}

#[test]
fn each_file_has_a_key() {
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut named = KEYS.map(|(name, _)| name.to_owned()).to_vec();
    named.sort();
    assert_eq!(files, named);
}

#[test]
fn every_record_is_written_as_it_was() {
    fn check<R: Serialize + DeserializeOwned>(names: &[&str]) {
        for name in names {
            let record: Option<R> = serde_json::from_str(&golden(name)).unwrap();
            assert_eq!(serde_json::to_string(&record).unwrap(), golden(name), "{name}");
        }
    }
    check::<crate::user::User>(&["user", "deleted", "user-with-a-used-id"]);
    check::<store::TokenRecord>(&["personal-token", "group-deploy-token", "project-deploy-token", "job-token"]);
    check::<store::TokenRecord>(&["rotated-token", "token-with-a-used-id"]);
    check::<store::UserTokensRecord>(&["user-tokens"]);
    check::<store::TokenMigrationRecord>(&["token-migration"]);
    check::<store::NamespaceRecord>(&["personal-namespace", "top-group", "subgroup"]);
    check::<store::ProjectRecord>(&["project", "project-levels", "project-with-a-used-id"]);
    check::<store::ProjectRecord>(&["project-in-place-of-a-deleted-one", "project-with-a-repository-of-its-own"]);
    check::<store::ProjectRecord>(&["project-of-a-creator-with-a-used-id"]);
    check::<store::PathRecord>(&["path-of-namespace", "path-of-project", "challenged-path", "path-of-a-used-id"]);
    check::<store::MembershipsRecord>(&["access"]);
    check::<DemoRecord>(&["demo"]);
    check::<crate::feature::Features>(&["features"]);
    check::<serde_json::Map<String, serde_json::Value>>(&["settings"]);
}

#[test]
fn a_field_of_a_later_build_is_ignored() {
    let with_more = golden("user").replacen('{', r#"{"later":{"x":[1]},"#, 1);
    let env = forge();
    env.store.set(&Key::User(2).to_string(), with_more.as_bytes()).unwrap();
    assert!(user::by_id(&env, 2).unwrap().is_some());
}

#[test]
fn users_are_read() {
    let env = forge();
    let user = user::find(&env, "alice").unwrap().unwrap();
    assert_eq!((user.id, user.username.as_str(), user.name.as_str()), (2, "Alice", "Alice Liddell"));
    assert_eq!((user.state, user.is_admin, user.external, user.bot), (user::UserState::Active, true, true, true));
    assert_eq!(user::by_id(&env, 3).unwrap(), None);
}

#[test]
fn records_whose_id_another_one_had_are_read() {
    let env = forge();
    let second = |incarnation: &project::Incarnation| incarnation.to_string() == "-01a0c4e1a80000000000000000000009";
    assert!(second(&user::by_id(&env, 9).unwrap().unwrap().incarnation));
    assert!(second(&token::find_issued(&env, &Fingerprint::of(b"6")).unwrap().unwrap().incarnation));
    assert!(second(&project::by_id(&env, 109).unwrap().unwrap().incarnation));
    assert!(project::issues_incarnation(&env, 109).unwrap().is_first(), "of a build whose issues had none");
    assert!(second(&project::issues_incarnation(&env, 110).unwrap()));
    let repository = |id: u64| project::by_id(&env, id).unwrap().unwrap().repository_incarnation;
    assert!(repository(109).is_first() && repository(110).is_first(), "of builds whose repositories had none");
    assert!(second(&repository(111)));
    assert!(second(&project::by_id(&env, 112).unwrap().unwrap().creator.unwrap().incarnation));
    assert!(user::by_id(&env, 2).unwrap().unwrap().incarnation.is_first());
}

#[test]
fn tokens_are_read() {
    let env = forge();
    let token = |text: &[u8]| token::find(&env, &Fingerprint::of(text)).unwrap().unwrap();
    assert_eq!(token(b"1").subject, Subject::User(2));
    assert_eq!((token(b"1").revoked, token(b"1").scopes), (true, vec!["api".to_owned(), "sudo".to_owned()]));
    assert_eq!(token(b"1").expires_at, Some(Timestamp::from_millis(1_800_000_000_000)));
    assert_eq!(token(b"2").subject, Subject::Deployment(Source::Group(10)));
    assert_eq!(token(b"3").subject, Subject::Deployment(Source::Project(100)));
    assert_eq!(token(b"4").subject, Subject::Job { user_id: 2, project_id: 100, running: true });
}

#[test]
fn the_tokens_of_a_user_are_read() {
    let env = forge();
    let tokens = token::of_user(&env, 2).unwrap();
    let [token] = tokens.as_slice() else { panic!("{} tokens", tokens.len()) };
    assert_eq!((token.id.get(), token.description.as_str()), ((2 << 20) + 1, "of the laptop"));
    assert_eq!(token.created_at, Some(Timestamp::from_millis(1_790_000_000_000)));
    let last_used_at = token::by_id(&env, token.id).unwrap().unwrap().last_used_at;
    assert_eq!(last_used_at, Some(Timestamp::from_millis(1_790_000_600_000)));
    assert!(token::find(&env, &Fingerprint::of(b"5")).unwrap().unwrap().revoked);
}

#[test]
fn projects_and_groups_are_read() {
    let env = forge();
    let ProjectLookup::Found(project) = project::find(&env, "acme/core/site").unwrap() else { panic!("found") };
    assert_eq!((project.id, project.full_path()), (100, "Acme/core/site".to_owned()));
    assert_eq!(project.visibility, namespace::Visibility::Public);
    assert_eq!(project.registry, project::FeatureAccess::Disabled);
    assert_eq!(project.issues, project::FeatureAccess::Private);
    let enabled = project::FeatureAccess::Enabled;
    assert_eq!((project.repository, project.merge_requests, &project.protected_branches), (enabled, enabled, &None));
    assert_eq!(
        (project.archived, project.default_branch.as_deref(), &project.creator),
        (true, Some("main"), &Some(user::UserKey::first(2)))
    );
    assert_eq!(project.shares.first().map(|share| (share.group_id, share.role)), Some((12, Role::Planner)));
    assert_eq!(project.job_tokens, project::JobTokenScope { restricted: true, projects: vec![101], groups: vec![10] });
    assert_eq!(project.analytics.base_url.as_deref(), Some("https://cube.example/"));
    assert_eq!(project.analytics.key.as_deref(), Some("hush"));
    assert_eq!(project.namespace.shares.len(), 2);
    assert_eq!(project.root_namespace().visibility, namespace::Visibility::Internal);
}

#[test]
fn access_levels_and_removed_protections_are_read() {
    let project = project::by_id(&forge(), 104).unwrap().unwrap();
    assert_eq!(project.repository, project::FeatureAccess::Private);
    assert_eq!(project.merge_requests, project::FeatureAccess::Disabled);
    assert_eq!(project.protected_branches, Some(vec![]));
}

#[test]
fn memberships_are_read() {
    let memberships = member::of_user(&forge(), 2).unwrap();
    let role = |source, millis| memberships.role(source, Timestamp::from_millis(millis));
    assert_eq!(role(Source::Group(10), i64::MAX), Role::Developer);
    assert_eq!(role(Source::Project(100), 0), Role::Owner);
    assert_eq!(role(Source::Group(11), 1_799_999_999_999), Role::MinimalAccess);
    assert_eq!(role(Source::Group(11), 1_800_000_000_000), Role::None);
}

#[test]
fn settings_and_features_are_read() {
    let env = forge();
    let settings = setting::read(&env).unwrap();
    assert_eq!((settings.license(), settings.hosted()), (License::Premium, false));
    assert_eq!(settings.operator_group(), Some("acme"));
    let features = feature::all(&env).unwrap();
    assert_eq!(features["a"].state(), feature::FeatureState::On);
    assert_eq!((features["b"].percentage_of_actors, features["b"].percentage_of_time), (25, 50));
    assert_eq!(features["c"].state(), feature::FeatureState::Off);
}
