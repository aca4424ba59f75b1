use super::import_tree::with_token;
use super::*;
use bytes::Bytes;
use directory::access::Role;
use directory::member::Source;
use directory::namespace::Visibility;
use kit::Timestamp;
use kit::store::Store;
use kit::testing::{Behaviour, LostReplyStore, Simulation, WatchedStore};

#[test]
fn an_import_fills_an_empty_store() {
    let env = empty();
    let (status, report) = send_lines(&env, FORGE);
    let expected = json!({"imported": {"user": 2, "token": 5, "group": 3, "project": 3, "member": 3, "setting": 2, "feature": 2}, "failed": 0, "errors": []});
    assert_eq!((status, report), (200, expected));
    let alice = user::find(&env, "alice").unwrap().unwrap();
    assert_eq!((alice.id, alice.name.as_str(), alice.is_admin), (2, "Alice", false));
    let ProjectLookup::Found(engine) = project::find(&env, "acme/core/engine").unwrap() else { panic!("found") };
    assert_eq!((engine.id, engine.visibility), (101, Visibility::Private));
    assert_eq!(engine.registry, project::FeatureAccess::Public);
    assert_eq!(engine.issues, project::FeatureAccess::Disabled);
    assert_eq!(engine.namespace.shares[0].role, Role::Developer);
    assert!(matches!(project::find(&env, "alice/notes").unwrap(), ProjectLookup::Found(_)));
    let memberships = directory::member::of_user(&env, 2).unwrap();
    let roles = [Source::Project(101), Source::Group(12), Source::Group(10)].map(|s| memberships.role(s, env.now));
    assert_eq!(roles, [Role::Reporter, Role::Maintainer, Role::None]);
    assert!(!setting::read(&env).unwrap().hosted());
    assert!(feature::is_enabled(&env, "dark", Some(Actor::User(2))).unwrap());
}

#[test]
fn importing_again_changes_nothing() {
    let store = MemoryStore::default();
    let env = env(store.clone(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]);
    send_lines(&env, FORGE);
    // The catalog root names the last batch, and the batch may change fields that no table has.
    let records = |store: &MemoryStore| -> Vec<_> {
        let keys = store.keys().into_iter().filter(|key| key != "directory/v1/catalog");
        keys.map(|key| (store.get(&key).unwrap(), key)).collect()
    };
    let before = records(&store.snapshot());
    assert_eq!(send_lines(&env, FORGE).1["failed"], 0);
    assert_eq!(records(&store), before);
}

#[test]
fn chunks_may_end_anywhere() {
    for size in [1, 2, 7, 100] {
        let env = empty();
        let chunks: Vec<_> = FORGE.as_bytes().chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let (_, report) = send_lines(&env, Body::pull(chunks.into_iter()));
        assert_eq!((&report["imported"]["user"], &report["failed"]), (&json!(2), &json!(0)), "{size}");
    }
}

#[test]
fn tokens_and_memberships_that_expire_on_9999_12_31_are_imported() {
    let env = forge();
    let lines = [
        r#"{"kind":"token","token":"last","user_id":2,"name":"last","scopes":["api"],"expires_at":"9999-12-31"}"#,
        r#"{"kind":"member","source_type":"group","source_id":12,"user_id":2,"access_level":40,"expires_at":"9999-12-31"}"#,
    ];
    let (status, report) = send_lines(&env, lines.join("\n"));
    assert_eq!((status, report), (200, json!({"imported": {"member": 1, "token": 1}, "failed": 0, "errors": []})));
    let token = token::by_fingerprint(&env, &Fingerprint::of(b"last")).unwrap().unwrap().token;
    assert_eq!(token.expires_at.map(Timestamp::to_date).as_deref(), Some("9999-12-31"));
}

#[test]
fn deleted_records_are_gone() {
    let env = forge();
    let (_, report) = send_lines(
        &env,
        r#"{"kind":"user","id":2,"deleted":true}
{"kind":"token","token":"dep","deleted":true}
{"kind":"group","id":11,"deleted":true}
{"kind":"project","id":100,"deleted":true}
{"kind":"member","source_type":"group","source_id":12,"user_id":2,"deleted":true}
{"kind":"setting","name":"license","deleted":true}
{"kind":"feature","name":"dark","deleted":true}
{"kind":"project","id":999,"deleted":true}
"#,
    );
    assert_eq!(report["failed"], 0, "{report}");
    assert_eq!(user::find(&env, "alice").unwrap(), None);
    assert_eq!(token::find(&env, &Fingerprint::of(b"dep")).unwrap(), None);
    assert_eq!(project::find(&env, "100").unwrap(), ProjectLookup::Missing);
    assert_eq!(project::find(&env, "101").unwrap(), ProjectLookup::Missing, "it was in a group that is gone");
    assert_eq!(setting::read(&env).unwrap().license(), setting::License::Ultimate);
    assert!(!feature::all(&env).unwrap().contains_key("dark"));
}

#[test]
fn of_a_body_that_breaks_off_the_whole_lines_are_applied() {
    let env = empty();
    let text = r#"{"kind":"user","id":1,"username":"a"}
{"kind":"member","source_type":"group","source_id":5,"user_id":1,"access_level":10}
{"kind":"user","id":2"#;
    let chunks = [Ok(Bytes::from_static(text.as_bytes())), Err(kit::body::BodyError::Peer("reset".into()))];
    let (status, _) = send_lines(&env, Body::pull(chunks.into_iter()));
    assert_eq!(status, 400);
    assert!(user::by_id(&env, 1).unwrap().is_some() && user::by_id(&env, 2).unwrap().is_none());
    let memberships = directory::member::of_user(&env, 1).unwrap();
    assert_eq!(memberships.role(Source::Group(5), env.now), Role::Guest);
}

#[test]
fn the_last_of_several_lines_about_one_membership_counts() {
    let env = empty();
    let line = |level: &str| format!(r#"{{"kind":"member","source_type":"group","source_id":5,"user_id":1,{level}}}"#);
    let after = |levels: &[&str]| {
        let lines: Vec<String> = levels.iter().map(|level| line(level)).collect();
        assert_eq!(send_lines(&env, lines.join("\n")).1["failed"], 0);
        directory::member::of_user(&env, 1).unwrap().role(Source::Group(5), env.now)
    };
    assert_eq!(after(&[r#""access_level":10"#, r#""access_level":30"#]), Role::Developer);
    assert_eq!(after(&[r#""access_level":40"#, r#""deleted":true"#]), Role::None);
    assert_eq!(after(&[r#""deleted":true"#, r#""access_level":20"#]), Role::Reporter);
}

#[test]
fn an_import_that_storage_failed_can_be_repeated() {
    let whole = {
        let env = forge();
        project::find(&env, "acme/core/engine").unwrap()
    };
    let mut operations = 0;
    loop {
        let store = MemoryStore::default();
        let failing = FailingStore::after(operations, store.clone());
        let (status, _) = send_lines(&env(failing.clone(), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]), FORGE);
        let env = env(store, &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]);
        assert_eq!(send_lines(&env, FORGE).1["failed"], 0, "after {operations}");
        assert_eq!(project::find(&env, "acme/core/engine").unwrap(), whole, "after {operations}");
        if !failing.failed() {
            assert_eq!(status, 200);
            break;
        }
        assert_eq!(status, 500);
        operations += 1;
    }
    assert!(operations > 100, "every operation was made to fail once, {operations}");
}

#[test]
fn lost_replies_of_storage_do_no_harm() {
    let env = env(LostReplyStore::over(MemoryStore::default()), &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]);
    assert_eq!(send_lines(&env, FORGE).1["failed"], 0);
    assert!(matches!(project::find(&env, "acme/core/engine").unwrap(), ProjectLookup::Found(_)));
}

#[test]
fn a_project_can_have_an_analytics_engine_of_its_own() {
    let env = forge();
    let line = |more: &str| format!("{{\"kind\":\"project\",\"id\":100,\"path\":\"site\",\"namespace_id\":10{more}}}");
    let both = line(r#","cube_api_base_url":"https://cube.example/","analytics_api_key":"hush3""#);
    assert_eq!(send_lines(&env, both).1["failed"], 0);
    let ProjectLookup::Found(site) = project::find(&env, "100").unwrap() else { panic!("found") };
    assert_eq!(site.analytics.base_url.as_deref(), Some("https://cube.example/"));
    assert_eq!(site.analytics.key.as_deref(), Some("hush3"));
    assert!(!format!("{site:?}").contains("hush3"));
    let levels = line(r#","product_analytics_min_access_level":20,"product_analytics_token_min_access_level":null"#);
    assert_eq!(send_lines(&env, levels).1["failed"], 0);
    let ProjectLookup::Found(site) = project::find(&env, "100").unwrap() else { panic!("found") };
    assert_eq!((site.analytics.query_level, site.analytics.token_level), (Some(Role::Reporter), None));
    for (field, why) in [
        (r#","analytics_api_base_url":"file:///x""#, "analytics_api_base_url is not an http or https URL"),
        (r#","analytics_api_base_url":"http://u:123456@h/""#, "analytics_api_base_url is not an http or https URL"),
        (r#","analytics_api_key":123456"#, "a secret is no text"),
        (r#","product_analytics_min_access_level":25"#, "access level 25 is not known"),
    ] {
        let errors = send_lines(&env, line(field)).1["errors"].to_string();
        assert!(errors.contains(why) && !errors.contains("123456"), "{errors}");
    }
}

#[test]
fn access_levels_and_protections_of_a_project_are_kept() {
    use project::FeatureAccess::{Disabled, Enabled, Private, Public};
    let env = forge();
    let imported = |fields: &str| {
        let line = format!(r#"{{"kind":"project","id":100,"path_with_namespace":"acme/site"{fields}}}"#);
        assert_eq!(send_lines(&env, line).1["failed"], 0, "{fields}");
        let ProjectLookup::Found(site) = project::find(&env, "acme/site").unwrap() else { panic!("found") };
        (site.repository, site.merge_requests, site.protected_branches)
    };
    assert_eq!(imported(""), (Enabled, Enabled, None));
    let answer = imported(
        r#","repository_access_level":"private","merge_requests_access_level":"disabled","protected_branches":[]"#,
    );
    assert_eq!(answer, (Private, Disabled, Some(vec![])));
    let expected = (Public, Disabled, None);
    assert_eq!(imported(r#","repository_access_level":"public","merge_requests_enabled":false"#), expected);
    let answer = imported(
        r#","merge_requests_access_level":"enabled","merge_requests_enabled":false,"repository_access_level":null"#,
    );
    assert_eq!(answer, (Enabled, Enabled, None));
    let unknown = r#"{"kind":"project","id":100,"path_with_namespace":"acme/site","repository_access_level":"some"}"#;
    assert_eq!(send_lines(&env, unknown).1["errors"][0]["error"], "access level `some` is not known (column 94)");
}

#[test]
fn a_user_who_is_imported_again_with_a_namespace_id_keeps_their_projects() {
    let env = forge();
    let user = r#"{"kind":"user","id":2,"username":"Alice","namespace_id":77}"#;
    let project = r#"{"kind":"project","id":103,"path":"later","namespace_id":77}"#;
    for lines in [format!("{user}\n{project}"), FORGE.replace("4000000002", "77"), user.to_owned()] {
        let (_, report) = send_lines(&env, lines);
        assert_eq!(report["failed"], 0, "{report}");
        for (path, id) in [("alice/notes", 102), ("alice/later", 103)] {
            assert!(
                matches!(project::find(&env, path).unwrap(), ProjectLookup::Found(found) if found.id == id),
                "{path}"
            );
        }
    }
    let catalog = directory::catalog::read(&env).unwrap();
    assert_eq!(catalog.namespace_of_user(2).unwrap().projects().map(|one| one.id()).collect::<Vec<_>>(), [102, 103]);
}

#[test]
fn deleting_a_group_deletes_projects_and_roles_of_earlier_lines() {
    let env = forge();
    let (_, report) = send_lines(
        &env,
        r#"{"kind":"group","id":20,"path":"temp"}
{"kind":"project","id":200,"path":"site","namespace_id":20}
{"kind":"member","source_type":"project","source_id":200,"user_id":1,"access_level":50}
{"kind":"group","id":20,"deleted":true}
{"kind":"group","id":20,"path":"temp"}
{"kind":"project","id":200,"path":"site","namespace_id":20}"#,
    );
    assert_eq!(report["failed"], 0, "{report}");
    let ProjectLookup::Found(again) = project::find(&env, "temp/site").unwrap() else { panic!("found") };
    assert!(!again.incarnation.is_first(), "the first one was deleted with its group");
    let memberships = directory::member::of_user(&env, 1).unwrap();
    assert_eq!(memberships.role(Source::Project(200), env.now), Role::None);
}

#[test]
fn of_two_imports_that_claim_one_path_at_once_one_at_most_gets_it() {
    let mut winners = 0;
    for seed in 0..100 {
        let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after: 0, stalls: 0, stall: 0 };
        let store = Simulation::new(seed, behaviour);
        let import = |id: u64| {
            move |env: Env| {
                let env = with_token(env);
                send_lines(&env, format!("{{\"kind\":\"group\",\"id\":{id},\"path\":\"x\"}}")).1["failed"] == 0
            }
        };
        let won: Vec<bool> = store.run(vec![import(1), import(2)]);
        let found = namespace::find_group(&store.env(9), "x").unwrap().map(|group| group.id);
        match won.as_slice() {
            [true, true] => panic!("seed {seed}: both"),
            [true, false] => assert_eq!(found, Some(1)),
            [false, true] => assert_eq!(found, Some(2)),
            _ => continue,
        }
        let listed: Vec<u64> =
            directory::catalog::read(&store.env(8)).unwrap().namespaces().map(|group| group.id()).collect();
        assert_eq!(listed, Vec::from_iter(found), "seed {seed}");
        winners += 1;
    }
    assert!(winners > 80, "{winners}");
}

#[test]
fn unsupported_restrictions_cause_warnings() {
    let env = empty();
    send_lines(&env, FORGE);
    let lines = [
        r#"{"kind":"group","id":70,"path":"x","ip_restriction_ranges":"10.0.0.0/8"}"#,
        r#"{"kind":"group","id":71,"path":"y","ip_restriction_ranges":""}"#,
        r#"{"kind":"project","id":72,"path":"z","namespace_id":70,"protected_tags":[{"name":"v*"}],"push_rule":{"id":1},
            "external_authorization_classification_label":""}"#,
        r#"{"kind":"project","id":73,"path":"a","namespace_id":70,"protected_tags":[],"push_rule":null}"#,
    ];
    let lines = lines.map(|line| line.replace('\n', " ")).join("\n");
    let (_, report) = send_lines(&env, lines);
    assert_eq!(report["failed"], 0, "{report}");
    let warned: Vec<&str> =
        report["warnings"].as_array().unwrap().iter().map(|one| one["warning"].as_str().unwrap()).collect();
    let text = |names: &str| format!("not supported by this server, which does not restrict by it: {names}");
    assert_eq!(warned, [text("ip_restriction_ranges"), text("protected_tags, push_rule")]);
}

#[test]
fn a_token_that_is_not_active_is_imported_revoked() {
    let env = empty();
    send_lines(&env, FORGE);
    for (fields, status) in [
        (r#""active":true"#, 200),
        (r#""active":false"#, 401),
        (r#""active":false,"revoked":false"#, 200),
        (r#""active":true,"revoked":true"#, 401),
    ] {
        let line = format!(r#"{{"kind":"token","token":"glpat-active","user_id":2,"scopes":["api"],{fields}}}"#);
        assert_eq!(send_lines(&env, line).1["failed"], 0);
        let found = token::find(&env, &Fingerprint::of(b"glpat-active")).unwrap();
        assert_eq!(found.is_some_and(|token| !token.revoked), status == 200, "{fields}");
    }
}

/// A host reads committed values. So it waits for the disk when a request reads what it has written since its last wait.
/// All earlier writes are durable then.
#[test]
fn a_batch_of_new_records_waits_for_the_disk_a_few_times_however_many_they_are() {
    let waits = |records: u64| {
        let unsettled = std::cell::RefCell::new(std::collections::HashSet::new());
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let counted = count.clone();
        let watch = move |operation: &str, key: &str| {
            let mut unsettled = unsettled.borrow_mut();
            match operation {
                "get" | "exists" | "compare" if unsettled.contains(key) => {
                    unsettled.clear();
                    counted.set(counted.get() + 1);
                }
                "get" | "exists" | "compare" | "list" => {}
                _ => drop(unsettled.insert(key.to_owned())),
            }
        };
        let mut env = empty();
        env.store = std::rc::Rc::new(WatchedStore::over(MemoryStore::default(), watch));
        let group = |id| format!(r#"{{"kind":"group","id":{id},"path":"g{id}"}}"#);
        let project = |id| format!(r#"{{"kind":"project","id":{id},"path":"p","namespace_id":{id}}}"#);
        let user = |id| format!(r#"{{"kind":"user","id":{id},"username":"u{id}"}}"#);
        let ids = 1..=records;
        let lines: Vec<String> = ids.clone().map(group).chain(ids.clone().map(project)).chain(ids.map(user)).collect();
        let report = send_lines(&env, lines.join("\n")).1;
        assert_eq!(report["imported"], json!({"group": records, "project": records, "user": records}), "{report}");
        count.get()
    };
    assert_eq!(waits(500), waits(5));
    assert!(waits(5) < 10, "{} waits", waits(5));
}

#[test]
fn a_record_that_comes_twice_in_an_import_has_the_values_of_its_last_line() {
    let env = empty();
    let lines = [
        r#"{"kind":"group","id":1,"path":"one"}"#,
        r#"{"kind":"group","id":1,"path":"two"}"#,
        r#"{"kind":"group","id":2,"path":"one"}"#,
        r#"{"kind":"project","id":7,"path":"a","namespace_id":1}"#,
        r#"{"kind":"project","id":7,"path":"b","namespace_id":1}"#,
        r#"{"kind":"project","id":8,"path":"a","namespace_id":1}"#,
        r#"{"kind":"group","id":3,"path":"one"}"#,
    ];
    let report = send_lines(&env, lines.join("\n")).1;
    assert_eq!((&report["imported"], &report["failed"]), (&json!({"group": 3, "project": 3}), &json!(1)), "{report}");
    assert_eq!(report["errors"], json!([{"line": 7, "error": "path `one` is taken by namespace 2"}]));
    let path = |id| namespace::by_id(&env, id).unwrap().map(|found| found.full_path());
    assert_eq!([1, 2, 3].map(path), [Some("two".into()), Some("one".into()), None]);
    let project = |id| project::by_id(&env, id).unwrap().unwrap().full_path();
    assert_eq!([7, 8].map(project), ["two/b", "two/a"]);
}
