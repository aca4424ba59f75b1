//! Roles, invitations and feature gates that are imported after or during the deletion of their user, group or project.

use super::import_tree::with_token;
use super::*;
use directory::access::Role;
use directory::feature::Actor;
use directory::member::{Source, of_user};
use kit::testing::{Behaviour, Simulation};

const SOURCES: [(&str, Source); 2] = [("group", Source::Group(12)), ("project", Source::Project(100))];

fn member(kind: &str, source_id: u64, user_id: u64) -> String {
    json!({"kind": "member", "source_type": kind, "source_id": source_id, "user_id": user_id, "access_level": 40})
        .to_string()
}

fn group_12() -> &'static str {
    r#"{"kind":"group","id":12,"path":"guild"}"#
}

fn project_100() -> &'static str {
    r#"{"kind":"project","id":100,"path":"site","namespace_id":10}"#
}

fn import(env: &Env, lines: &[&str]) -> Value {
    let (status, report) = send_lines(env, lines.join("\n"));
    assert_eq!((status, &report["failed"]), (200, &json!(0)), "{report}");
    report
}

fn role(env: &Env, user_id: u64, source: Source) -> Role {
    of_user(env, user_id).unwrap().role(source, env.now)
}

/// The number of members that the catalog has for a group or project.
fn listed(env: &Env, source: Source) -> usize {
    directory::catalog::member::of_sources(env, &[source]).unwrap().len()
}

#[test]
fn a_role_imported_after_the_deletion_does_not_pass_to_a_reused_id() {
    for (kind, source) in SOURCES {
        let env = forge();
        let id = if kind == "group" { 12 } else { 100 };
        import(&env, &[&json!({"kind": kind, "id": id, "deleted": true}).to_string()]);
        let report = import(&env, &["", &member(kind, id, 1)]);
        let warning = format!("{kind} {id} is deleted, and nobody has the role");
        assert_eq!(report["warnings"], json!([{"line": 2, "warning": warning}]));
        assert_eq!(report["imported"], json!({"member": 1}));
        import(&env, &[group_12(), project_100()]);
        assert_eq!((role(&env, 1, source), listed(&env, source)), (Role::None, 0), "{kind}");
        assert_eq!(import(&env, &[&member(kind, id, 1)]).get("warnings"), None);
        assert_eq!((role(&env, 1, source), listed(&env, source)), (Role::Maintainer, 1), "{kind}");
    }
}

#[test]
fn a_role_of_a_deleted_user_does_not_pass_to_a_reused_id() {
    let env = forge();
    import(&env, &[r#"{"kind":"user","id":2,"deleted":true}"#]);
    let report = import(&env, &[&member("project", 101, 2), &member("group", 12, 1), &member("group", 12, 2)]);
    let warning = "user 2 is deleted, and nobody has the role";
    let warned: Vec<_> =
        report["warnings"].as_array().unwrap().iter().map(|one| (&one["line"], &one["warning"])).collect();
    assert_eq!(warned, [(&json!(1), &json!(warning)), (&json!(3), &json!(warning))]);
    import(&env, &[r#"{"kind":"user","id":2,"username":"next"}"#]);
    assert_eq!((role(&env, 2, Source::Project(101)), role(&env, 2, Source::Group(12))), (Role::None, Role::None));
    assert_eq!((role(&env, 1, Source::Group(12)), listed(&env, Source::Group(12))), (Role::Maintainer, 1));
}

#[test]
fn a_role_belongs_to_the_user_created_by_the_same_import() {
    let env = forge();
    let deletions = [r#"{"kind":"user","id":2,"deleted":true}"#, r#"{"kind":"project","id":100,"deleted":true}"#];
    let next = [&*member("project", 100, 2), project_100(), r#"{"kind":"user","id":2,"username":"next"}"#];
    let report = import(&env, &[&deletions[..], &next].concat());
    assert_eq!(report.get("warnings"), None);
    assert_eq!(role(&env, 2, Source::Project(100)), Role::Maintainer);
    // The user and the project never existed.
    import(&env, &[&member("project", 500, 600)]);
    import(&env, &[r#"{"kind":"user","id":600,"username":"later"}"#]);
    import(&env, &[r#"{"kind":"project","id":500,"path":"later","namespace_id":10}"#]);
    assert_eq!(role(&env, 600, Source::Project(500)), Role::Maintainer);
}

#[test]
fn an_invitation_imported_after_the_deletion_does_not_pass_to_a_reused_id() {
    let env = forge();
    import(&env, &[r#"{"kind":"group","id":12,"deleted":true}"#]);
    let invited =
        r#""shared_with_groups":[{"group_id":12,"group_access_level":40},{"group_id":900,"group_access_level":40}]"#;
    let group = format!(r#"{{"kind":"group","id":11,"full_path":"acme/core",{invited}}}"#);
    let project = format!(r#"{{"kind":"project","id":100,"path":"site","namespace_id":10,{invited}}}"#);
    import(&env, &[&group, &project]);
    import(&env, &[group_12(), r#"{"kind":"group","id":900,"path":"later"}"#]);
    let shares = |found: &[directory::member::Share]| found.iter().map(|share| share.group_id).collect::<Vec<_>>();
    assert_eq!(shares(&namespace::by_id(&env, 11).unwrap().unwrap().shares), [900]);
    assert_eq!(shares(&project::by_id(&env, 100).unwrap().unwrap().shares), [900]);
    let catalog = directory::catalog::read(&env).unwrap();
    assert_eq!(shares(&catalog.namespace(11).unwrap().shares()), [900]);
    import(&env, &[&group]);
    assert_eq!(shares(&namespace::by_id(&env, 11).unwrap().unwrap().shares), [12, 900]);
}

fn gates(actors: &[&str]) -> String {
    json!({"kind": "feature", "name": "late", "gates": [{"key": "actors", "value": actors}]}).to_string()
}

fn is_late_on(env: &Env, actor: Actor) -> bool {
    feature::is_enabled(env, "late", Some(actor)).unwrap()
}

#[test]
fn a_gate_imported_after_the_deletion_does_not_pass_to_a_reused_id() {
    let env = forge();
    let deleted = ["user 2", "group 12", "project 100"];
    for (kind, id) in deleted.iter().map(|name| name.split_once(' ').unwrap()) {
        import(&env, &[&format!(r#"{{"kind":"{kind}","id":{id},"deleted":true}}"#)]);
    }
    let named = gates(&["User:2", "Group:12", "Project:100", "Group:10", "Project:900", "User:02", "Role:2"]);
    let report = import(&env, &["", &named]);
    let warnings = deleted
        .map(|name| json!({"line": 2, "warning": format!("{name} is deleted, and the feature is not on for it")}));
    assert_eq!((&report["warnings"], &report["imported"]), (&json!(warnings), &json!({"feature": 1})));
    let user = r#"{"kind":"user","id":2,"username":"next"}"#;
    import(&env, &[user, group_12(), project_100(), r#"{"kind":"project","id":900,"path":"p","namespace_id":10}"#]);
    let (next, others) =
        ([Actor::User(2), Actor::Group(12), Actor::Project(100)], [Actor::Group(10), Actor::Project(900)]);
    assert_eq!(next.map(|actor| is_late_on(&env, actor)), [false; 3]);
    assert_eq!(others.map(|actor| is_late_on(&env, actor)), [true; 2]);
    assert_eq!(import(&env, &[&named]).get("warnings"), None);
    assert_eq!(next.map(|actor| is_late_on(&env, actor)), [true; 3]);
}

#[test]
fn a_gate_belongs_to_the_project_created_by_the_same_import() {
    let env = forge();
    let deletion = r#"{"kind":"project","id":100,"deleted":true}"#;
    let report = import(&env, &[deletion, &gates(&["Project:100"]), project_100()]);
    assert_eq!(report.get("warnings"), None);
    assert!(is_late_on(&env, Actor::Project(100)));
    // A later deletion removes the gate.
    import(&env, &[&gates(&["Project:100"]), deletion]);
    import(&env, &[project_100()]);
    assert!(!is_late_on(&env, Actor::Project(100)));
}

/// One import deletes the source or the user of a role, and another one imports the role. Then a new record gets the
/// id.
#[test]
fn a_role_imported_during_the_deletion_of_its_source_does_not_pass_to_a_reused_id() {
    let (mut before, mut after) = (0, 0);
    for (seen_after, seeds) in [(0, 0..120), (20_000, 120..360)] {
        for seed in seeds {
            let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls: 0, stall: 0 };
            let store = Simulation::new(seed, behaviour);
            let send = |env: Env, lines: String| send_lines(&with_token(env), lines).1;
            assert_eq!(send(store.env(0), FORGE.to_owned())["failed"], 0);
            let deleted = match seed % 3 {
                0 => r#"{"kind":"project","id":101,"deleted":true}"#,
                1 => r#"{"kind":"group","id":11,"deleted":true}"#,
                _ => r#"{"kind":"user","id":1,"deleted":true}"#,
            };
            // The role arrives at different times.
            let before_it =
                "{\"kind\":\"feature\",\"name\":\"dark\",\"value\":true}\n".repeat((seed as usize / 3) % 20);
            let reports = store.run(vec![
                Box::new(|env| send(env, deleted.to_owned())) as Box<dyn FnOnce(Env) -> Value + Send>,
                Box::new(|env| send(env, before_it + &member("project", 101, 1))),
            ]);
            assert!(reports.iter().all(|report| report["failed"] == 0), "seed {seed}: {reports:?}");
            match reports.last().and_then(|report| report.get("warnings")) {
                None => before += 1,
                Some(_) => after += 1,
            }
            let env = store.env(9);
            send(env.clone(), FORGE.to_owned());
            assert_eq!(role(&env, 1, Source::Project(101)), Role::None, "seed {seed}");
            assert_eq!(listed(&env, Source::Project(101)), 1, "seed {seed}");
        }
    }
    assert!(before > 20 && after > 20, "{before} {after}");
}

/// One import deletes an actor, and a request switches a feature on for it. Then a new record gets the id.
#[test]
fn a_gate_stored_during_the_deletion_of_its_actor_does_not_pass_to_a_reused_id() {
    let (mut stored, mut refused) = (0, 0);
    for (seen_after, seeds) in [(0, 0..120), (20_000, 120..360)] {
        for seed in seeds {
            let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls: 0, stall: 0 };
            let store = Simulation::new(seed, behaviour);
            let send = |env: Env, lines: &str| send_lines(&with_token(env), lines.to_owned()).0;
            assert_eq!(send(store.env(0), FORGE), 200);
            let (kind, name, actor, path) = match seed % 3 {
                0 => ("project", "acme/site", Actor::Project(100), "path"),
                1 => ("group", "guild", Actor::Group(12), "path"),
                _ => ("user", "alice", Actor::User(2), "username"),
            };
            let (Actor::Project(id) | Actor::Group(id) | Actor::User(id)) = actor;
            let mut deleted = json!({"kind": kind, "id": id, "deleted": true}).to_string();
            // The import may create the next record with the id at once.
            if seed % 2 == 0 {
                let mut next = json!({"kind": kind, "id": id, path: "next"});
                if kind == "project" {
                    next["namespace_id"] = 10.into();
                }
                deleted = format!("{deleted}\n{next}");
            }
            let statuses = store.run(vec![
                Box::new(|env| send(env, &deleted)) as Box<dyn FnOnce(Env) -> u16 + Send>,
                Box::new(|env| {
                    // The gate arrives at different times.
                    (0..(seed / 3) % 20).for_each(|_| drop(feature::all(&env).unwrap()));
                    let body = json!({"value": true, kind: name});
                    json_call(&with_token(env), "adm", Method::POST, "features/late", body).0
                }),
            ]);
            match statuses[..] {
                [200, 201] => stored += 1,
                [200, 400] => refused += 1,
                _ => panic!("seed {seed}: {statuses:?}"),
            }
            let env = store.env(9);
            assert_eq!(send(env.clone(), FORGE), 200);
            assert!(!is_late_on(&env, actor), "seed {seed}: {statuses:?}");
        }
    }
    assert!(stored > 20 && refused > 20, "{stored} {refused}");
}
