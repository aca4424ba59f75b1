//! Imports of groups and projects with impossible parents, and of other refused records.

use super::*;
use directory::member::Source;
use directory::project;
use kit::testing::{Behaviour, Simulation};
use std::time::Duration;

/// Chains of groups `a` (1000 to 1011) and `b` (2000 to 2011), and a public project 900 in the deepest `a`.
fn chains() -> String {
    let mut lines = String::new();
    for (first, name) in [(1000, 'a'), (2000, 'b')] {
        for level in 0..12 {
            let (id, parent) = (first + level, if level > 0 { (first + level - 1).to_string() } else { "null".into() });
            let line = json!({"kind": "group", "id": id, "path": format!("{name}{level}"), "visibility": "public"});
            lines.push_str(&line.to_string().replace('}', &format!(",\"parent_id\":{parent}}}\n")));
        }
    }
    lines + r#"{"kind":"project","id":900,"path":"deep","namespace_id":1011,"visibility":"public"}"#
}

#[test]
fn a_group_whose_subgroups_would_be_too_deep_is_an_invalid_line() {
    let deeper = "\n{\"kind\":\"group\",\"id\":1000,\"path\":\"a0\",\"parent_id\":2011}";
    for (first, second) in [(chains(), deeper.to_owned()), (chains() + deeper, String::new())] {
        let env = forge();
        let failed = [first, second].map(|lines| send_lines(&env, lines).1["failed"].as_u64().unwrap());
        assert_eq!(failed.iter().sum::<u64>(), 1, "{failed:?}");
        assert!(project::by_id(&env, 900).unwrap().is_some());
        let by_path = r#"{"kind":"group","id":1000,"path":"a0","full_path":"b0/b1/b2/a0"}"#;
        assert_eq!(send_lines(&env, by_path).1["failed"], 0);
        let moved = project::by_id(&env, 900).unwrap().unwrap().full_path();
        assert!(moved.starts_with("b0/b1/b2/a0/a1/"), "{moved}");
    }
}

#[test]
fn a_user_whose_namespace_moves_twice_in_a_batch_keeps_the_projects() {
    let user = |namespace: &str| format!("{{\"kind\":\"user\",\"id\":70,\"username\":\"nora\"{namespace}}}\n");
    let project =
        r#"{"kind":"project","id":900,"path_with_namespace":"nora/x","visibility":"public"}"#.to_owned() + "\n";
    let [first, second] = [r#","namespace_id":750"#, r#","namespace_id":760"#].map(user);
    for imports in [
        vec![user("") + &project + &first],
        vec![first.clone() + &project, second.clone() + &first],
        vec![first.clone() + &project + &second + &first],
    ] {
        let env = forge();
        for lines in imports {
            assert_eq!(send_lines(&env, lines).1["failed"], 0);
        }
        let project = project::by_id(&env, 900).unwrap().expect("the project");
        assert_eq!((project.namespace.id, project.full_path()), (750, "nora/x".to_owned()));
        let catalog = directory::catalog::read(&env).unwrap();
        assert_eq!(catalog.project(900).map(|project| project.namespace().id()), Some(750));
    }
}

#[test]
fn a_damaged_record_is_an_invalid_line_and_does_not_affect_others() {
    let env = forge();
    for (key, line) in [
        ("namespace/11", r#"{"kind":"group","id":11,"full_path":"acme/core"}"#),
        ("project/101", r#"{"kind":"project","id":101,"path_with_namespace":"acme/core/engine"}"#),
        ("user/2", r#"{"kind":"user","id":2,"username":"Alice"}"#),
        ("access/2", r#"{"kind":"member","source_type":"group","source_id":11,"user_id":2,"access_level":30}"#),
        ("access/2", r#"{"kind":"user","id":2,"deleted":true}"#),
    ] {
        let key = format!("directory/v1/{key}");
        let good = env.store.get(&key).unwrap().unwrap();
        env.store.set(&key, b"{").unwrap();
        for path in ["one", "two"] {
            let lines = format!("{line}\n{{\"kind\":\"group\",\"id\":30,\"path\":\"{path}\"}}");
            let (status, report) = send_lines(&env, lines);
            assert_eq!((status, &report["failed"]), (200, &json!(1)), "{key}: {report}");
            assert!(report.to_string().contains("is damaged"), "{report}");
            assert!(directory::catalog::read(&env).unwrap().namespace(30).is_some_and(|group| group.path() == path));
        }
        env.store.set(&key, &good).unwrap();
    }
}

#[test]
fn a_token_has_a_name_of_bounded_length() {
    let import = |length: usize| {
        let line =
            json!({"kind": "token", "user_id": 1, "token": "long", "scopes": ["api"], "name": "é".repeat(length)});
        send_lines(&forge(), line.to_string()).1["failed"].clone()
    };
    assert_eq!((import(255), import(256)), (json!(0), json!(1)));
}

/// The environment of a writer that accepts the bootstrap token.
pub fn with_token(env: Env) -> Env {
    let variables = [("bootstrap_admin_token", BOOTSTRAP_TOKEN)].into_iter().collect();
    Env { variables: std::rc::Rc::new(variables), ..env }
}

/// A store, and the environment of its first writer. With an odd `seed`, reads see a write 5 ms after its reply. Of a
/// thousand operations, `stalls` are followed by a stall of `stall` microseconds.
fn simulated(seed: u64, stalls: u64, stall: u64) -> (Simulation, Env) {
    let seen_after = seed % 2 * 5_000;
    let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls, stall };
    let store = Simulation::new(seed, behaviour);
    let env = with_token(store.env(9));
    (store, env)
}

/// The environment of a late reader. All writes are visible by then.
fn afterwards(store: &Simulation) -> Env {
    let env = with_token(store.env(8));
    env.clock.sleep(Duration::from_millis(10));
    env
}

#[test]
fn children_imported_while_their_namespace_is_deleted_are_refused_or_deleted() {
    let mut refused = 0;
    for seed in 0..400 {
        let (store, env) = simulated(seed, 20, 50_000);
        send_lines(
            &env,
            r#"{"kind":"group","id":800,"path":"g"}
{"kind":"user","id":70,"username":"u","namespace_id":870}"#,
        );
        let import = |lines: &'static str| move |env: Env| send_lines(&with_token(env), lines).1["failed"].clone();
        let failed = store.run(vec![
            import(
                r#"{"kind":"project","id":900,"path":"p","namespace_id":800}
{"kind":"project","id":901,"path":"q","namespace_id":870}"#,
            ),
            import(
                r#"{"kind":"group","id":801,"path":"s","parent_id":800}
{"kind":"project","id":902,"path":"r","namespace_id":801}"#,
            ),
            import(
                r#"{"kind":"group","id":800,"deleted":true}
{"kind":"user","id":70,"deleted":true}"#,
            ),
        ]);
        refused += failed.iter().filter_map(serde_json::Value::as_u64).sum::<u64>();
        let env = afterwards(&store);
        for key in ["project/900", "project/901", "project/902", "namespace/801", "namespace/800", "namespace/870"] {
            let record = env.store.get(&format!("directory/v1/{key}")).unwrap();
            assert!(record.is_none_or(|record| record == b"null"), "seed {seed}: {key}");
        }
        let catalog = directory::catalog::read(&env).unwrap();
        assert_eq!((catalog.projects().count(), catalog.namespaces().count()), (0, 0), "seed {seed}");
    }
    assert!(refused > 20, "{refused}");
}

/// If another import moves a group or project out of a group, the deletion of this group does not delete it.
#[test]
fn children_moved_out_of_a_group_during_its_deletion_are_kept() {
    for seed in 0..400 {
        let (store, env) = simulated(seed, 20, 50_000);
        send_lines(
            &env,
            r#"{"kind":"group","id":800,"path":"g"}
{"kind":"group","id":810,"path":"h"}
{"kind":"group","id":801,"path":"s","parent_id":800}
{"kind":"project","id":900,"path":"p","namespace_id":800}"#,
        );
        env.clock.sleep(Duration::from_millis(10));
        let import = |lines: &'static str| move |env: Env| send_lines(&with_token(env), lines).1;
        let reports = store.run(vec![
            import(
                r#"{"kind":"project","id":900,"path":"p","namespace_id":810}
{"kind":"group","id":801,"path":"s","parent_id":810}"#,
            ),
            import(r#"{"kind":"group","id":800,"deleted":true}"#),
        ]);
        assert_eq!(reports[0]["failed"], 0, "seed {seed}");
        let env = afterwards(&store);
        let is_there = |key: &str| {
            let record = env.store.get(&format!("directory/v1/{key}")).unwrap();
            record.is_some_and(|record| record != b"null")
        };
        assert!(is_there("project/900") && is_there("namespace/801"), "seed {seed}");
    }
}

/// The role and the deletion may finish in either order. The role is in no record and not in the catalog.
#[test]
fn a_role_imported_while_its_user_is_deleted_does_not_remain() {
    for seed in 0..200 {
        let (store, env) = simulated(seed, 300, 20_000);
        send_lines(
            &env,
            r#"{"kind":"group","id":800,"path":"g"}
{"kind":"user","id":70,"username":"gone"}"#,
        );
        let import = |lines: &'static str| move |env: Env| drop(send_lines(&with_token(env), lines));
        store.run(vec![
            import(r#"{"kind":"member","source_type":"group","source_id":800,"user_id":70,"access_level":30}"#),
            import(r#"{"kind":"user","id":70,"deleted":true}"#),
        ]);
        let env = afterwards(&store);
        let record = directory::member::of_user(&env, 70).unwrap();
        let listed = directory::catalog::member::of_sources(&env, &[Source::Group(800)]).unwrap();
        assert_eq!((listed.len(), record.0.len()), (0, 0), "seed {seed}");
    }
}
