//! Who sees a namespace, and which of its fields.

use super::*;

#[test]
fn a_namespace_is_shown_only_to_members_and_administrators() {
    let forge = Forge::filled();
    forge.project(100, 11, vec![], None);
    forge.join(2, Source::Group(10), Role::Guest, None);
    forge.join(3, Source::Project(100), Role::Owner, None);
    let share = Share { group_id: 10, role: Role::Developer, expires_at: None };
    forge.save_group(NewGroup { shares: vec![share], ..new_group(20, "guild", None) });
    let status = |token: &str, id: &str| forge.get(token, &format!("namespaces/{id}")).status;
    for id in ["10", "11", "acme%2Fcore", "ACME%2fCore%2Fdeep", "20", "alice", "4000000002"] {
        assert_eq!(status("t2", id), 200, "{id}");
    }
    for (token, id) in [
        ("t2", "bob"),
        ("t3", "11"),
        ("t3", "acme"),
        ("t4", "10"),
        ("t1", "99"),
        ("t1", "acme%2Fp100"),
        ("t1", "nobody"),
        ("t1", ".."),
    ] {
        let answer = forge.get(token, &format!("namespaces/{id}"));
        assert_eq!((answer.status, answer.body), (404, json!({"message": "404 Namespace Not Found"})), "{token} {id}");
    }
    assert_eq!((status("t1", "bob"), status("t1", "guild")), (200, 200));
    let shown = forge.get("t2", "namespaces/acme%2Fcore").body;
    let expected = json!({"id": 11, "name": "CORE", "path": "core", "kind": "group", "full_path": "acme/core", "parent_id": 10, "avatar_url": null, "web_url": "https://forge.test/groups/acme/core", "billable_members_count": 1});
    assert_eq!(shown, expected);
    let own = forge.get("t2", "namespaces/alice").body;
    let expected = json!({"id": PERSONAL + 2, "name": "ALICE", "path": "alice", "kind": "user", "full_path": "alice", "parent_id": null, "avatar_url": null, "web_url": "https://forge.test/alice", "billable_members_count": 1, "plan": "free", "trial_ends_on": null, "trial": false});
    assert_eq!(own, expected);
}

#[test]
fn fields_depend_on_the_callers_role_and_the_settings() {
    let forge = Forge::filled();
    let basic = "avatar_url billable_members_count full_path id kind name parent_id path web_url";
    let with = |more: &[&str]| -> String {
        let mut names: Vec<&str> = basic.split(' ').chain(more.iter().copied()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let owned =
        ["members_count_with_descendants", "projects_count", "root_repository_size", "plan", "trial", "trial_ends_on"];
    let operated = [
        "additional_purchased_storage_ends_on",
        "additional_purchased_storage_size",
        "extra_shared_runners_minutes_limit",
        "shared_runners_minutes_limit",
    ];
    let subscribed = ["seats_in_use", "max_seats_used", "max_seats_used_changed_at", "end_date"];
    forge.join(2, Source::Group(10), Role::Maintainer, None);
    forge.join(3, Source::Group(10), Role::Owner, None);
    assert_eq!(forge.fields("t2", "namespaces/10"), basic);
    assert_eq!(forge.fields("t3", "namespaces/11"), with(&owned), "an inherited owner");
    assert_eq!(forge.fields("t1", "namespaces/10"), with(&[&owned[..], &operated].concat()));
    assert_eq!(forge.fields("t1", "namespaces/bob"), with(&[&owned[3..], &operated].concat()));
    let details = Details {
        plan: Some("premium".into()),
        end_date: Timestamp::parse("2027-03-01"),
        max_seats_used: Some(7),
        max_seats_used_changed_at: Timestamp::parse("2026-05-15T12:00:02Z"),
        seats_in_use: Some(5),
        root_repository_size: Some(4096),
        avatar_url: Some("https://forge.test/a.png".into()),
        additional_purchased_storage_ends_on: Timestamp::parse("2027-04-01"),
        shared_runners_minutes_limit: Some(133),
        ..Details::default()
    };
    forge.save_group(NewGroup { details, ..new_group(10, "acme", None) });
    assert_eq!(forge.fields("t2", "namespaces/10"), with(&subscribed));
    let shown = forge.get("t1", "namespaces/10").body;
    for (field, value) in [
        ("plan", json!("premium")),
        ("end_date", json!("2027-03-01")),
        ("max_seats_used", json!(7)),
        ("max_seats_used_changed_at", json!("2026-05-15T12:00:02.000Z")),
        ("seats_in_use", json!(5)),
        ("root_repository_size", json!(4096)),
        ("avatar_url", json!("https://forge.test/a.png")),
        ("additional_purchased_storage_size", json!(0)),
        ("additional_purchased_storage_ends_on", json!("2027-04-01")),
        ("shared_runners_minutes_limit", json!(133)),
        ("extra_shared_runners_minutes_limit", json!(null)),
        ("billable_members_count", json!(2)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(forge.get("t3", "namespaces/12").body["plan"], "premium", "the plan is that of the top");
    forge.set(json!({"hosted": false}));
    assert_eq!(forge.fields("t1", "namespaces/10"), with(&owned));
    assert_eq!(forge.get("t1", "namespaces/20").body["plan"], "default");
    forge.set(json!({"license": "free"}));
    let free = with(&owned[..3]).replace(" billable_members_count", "").replace("billable_members_count ", "");
    assert_eq!(forge.fields("t1", "namespaces/10"), free);
}

#[test]
fn billing_can_be_kept_for_owners() {
    let forge = Forge::filled();
    let details = Details {
        plan: Some("gold".into()),
        seats_in_use: Some(5),
        end_date: Timestamp::parse("2027-03-01"),
        ..Details::default()
    };
    forge.save_group(NewGroup { details, ..new_group(10, "acme", None) });
    forge.join(2, Source::Group(10), Role::Maintainer, None);
    forge.join(3, Source::Group(10), Role::Owner, None);
    let billing = |token: &str| {
        let body = forge.get(token, "namespaces/10").body;
        ["billable_members_count", "seats_in_use", "max_seats_used", "end_date"]
            .map(|name| body.get(name).cloned().unwrap())
    };
    let open = [json!(2), json!(5), json!(0), json!("2027-03-01")];
    assert_eq!(billing("t2"), open);
    feature::save(&forge.0, RESTRICTED_BILLING, |gates| gates.actors = ["Group:10".to_owned()].into()).unwrap();
    assert_eq!(billing("t2"), [Value::Null, Value::Null, Value::Null, Value::Null]);
    assert_eq!((billing("t3"), billing("t1")), (open.clone(), open));
    feature::save(&forge.0, RESTRICTED_BILLING, |gates| gates.boolean = true).unwrap();
    assert_eq!(forge.get("t4", "namespaces/eve").body["billable_members_count"], 1, "an owner of their own");
}

#[test]
fn members_are_counted_once_and_by_their_roles() {
    let forge = Forge::filled();
    forge.save_user(NewUser { state: UserState::Blocked, ..new_user(6, "gone") });
    forge.user(7, "guest");
    forge.user(8, "invited");
    let share = |role| vec![Share { group_id: 20, role, expires_at: None }];
    forge.project(100, 12, share(Role::Guest), None);
    forge.project(101, PERSONAL + 2, vec![], None);
    for (user, source, role) in [
        (2, Source::Group(10), Role::Owner),
        (2, Source::Group(12), Role::Guest),
        (3, Source::Group(12), Role::Developer),
        (4, Source::Project(100), Role::Developer),
        (5, Source::Group(10), Role::Owner),
        (6, Source::Group(10), Role::Owner),
        (7, Source::Group(11), Role::Guest),
        (8, Source::Group(20), Role::Owner),
        (9, Source::Group(10), Role::Owner),
    ] {
        forge.join(user, source, role, None);
    }
    let counts = |id: u64, query: &str| {
        let body = forge.get("t1", &format!("namespaces/{id}{query}")).body;
        ["members_count_with_descendants", "billable_members_count", "projects_count"]
            .map(|name| body[name].as_u64().unwrap())
    };
    assert_eq!(counts(10, ""), [4, 5, 1], "2 3 5 7; 2 3 4 7 8");
    assert_eq!(counts(11, ""), [3, 5, 1]);
    assert_eq!(counts(12, ""), [2, 4, 1]);
    assert_eq!(counts(20, ""), [1, 1, 0]);
    assert_eq!(counts(10, "?requested_hosted_plan=ultimate"), [4, 3, 1], "2 3 4: guests are free, also invited ones");
    forge.set(json!({"hosted": false}));
    assert_eq!(counts(10, "?requested_hosted_plan=ultimate"), [4, 5, 1]);
}

#[test]
fn a_projects_default_branch_is_that_of_its_repository() {
    let forge = Forge::filled();
    forge.project(100, 11, vec![], None);
    let put = |key: &str, value: Value| {
        forge.0.store.set(&format!("suggestions/v1/{key}"), value.to_string().as_bytes()).unwrap();
    };
    let shown = |token: &str| {
        let one = forge.get(token, "projects/100").body["default_branch"].clone();
        assert_eq!(forge.get(token, "projects").body[0]["default_branch"], one);
        one
    };
    assert_eq!(shown(""), Value::Null);
    put("branches/100", json!({"names": ["heads/gone", "heads/main", "heads/topic"], "default": "heads/topic"}));
    put("ref/100/heads%2Fgone", Value::Null);
    put("ref/100/heads%2Fmain", json!({"commit": "0", "operation": "0"}));
    assert_eq!(shown(""), "main");
    put("ref/100/heads%2Ftopic", json!({"commit": "0", "operation": "0"}));
    assert_eq!(shown(""), "topic");
    // Only callers who may read the code see names of branches.
    let hidden = NewProject { repository: FeatureAccess::Private, ..new_project(100, 11) };
    forge.save_project(hidden);
    assert_eq!((shown(""), shown("t2")), (Value::Null, Value::Null));
    forge.join(2, Source::Group(10), Role::Guest, None);
    assert_eq!(shown("t2"), "topic");
}
