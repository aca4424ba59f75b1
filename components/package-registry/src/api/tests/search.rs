//! Search: results, rights and order.

use super::*;

fn search_by(forge: &Forge, user: &str, prefix: &str, query: &str) -> Value {
    let answer = forge.send(request(Method::GET, &format!("{prefix}/packages/npm/-/v1/search?{query}")).by(user));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The names that the maintainer finds, in order.
fn names(answer: &Value) -> Vec<&str> {
    answer["objects"].as_array().unwrap().iter().map(|object| object["package"]["name"].as_str().unwrap()).collect()
}

fn publish(forge: &Forge, project: u64, name: &str, description: &str, keywords: &Value) {
    let publication = publication(name, "1.0.0").change(|document| {
        document["versions"]["1.0.0"]["description"] = json!(description);
        document["versions"]["1.0.0"]["keywords"] = keywords.clone();
    });
    assert_eq!(forge.send(publication.to(project)).status, 200);
}

/// Some packages in each project.
fn forge() -> Forge {
    let forge = Forge::new();
    publish(&forge, PUBLIC, "@acme/paint", "color for walls", &json!(["wall", "art"]));
    publish(&forge, PUBLIC, "brush", "to paint with", &json!(["tool"]));
    publish(&forge, INTERNAL, "@acme/wall", "made of stone", &json!(null));
    publish(&forge, PRIVATE, "@acme/secret-paint", "nobody knows", &json!(["art"]));
    publish(&forge, 17, "@other/paint", "from elsewhere", &json!([]));
    forge
}

#[test]
fn a_search_result_has_the_fields_that_clients_show() {
    let forge = forge();
    let answer = search_by(&forge, "guest", "/projects/7", "text=walls");
    let person = |username: &str| json!({"username": username, "email": ""});
    let package = json!({
        "name": "@acme/paint", "version": "1.0.0", "description": "color for walls", "keywords": ["wall", "art"],
        "date": "2026-09-21T14:13:20.000Z", "links": {}, "publisher": person("developer"),
        "maintainers": [person("maintainer")],
    });
    assert_eq!(answer["objects"][0]["package"], package);
    assert_eq!(answer["objects"][0]["score"]["final"], 0.4);
    assert_eq!((&answer["total"], answer["time"].is_string()), (&json!(1), true));
}

#[test]
fn results_and_metadata_have_the_same_maintainers() {
    let forge = forge();
    forge.join(6, Source::Project(INTERNAL), Some(Role::Owner));
    for (project, name, count) in [(PUBLIC, "@acme/paint", 1), (INTERNAL, "@acme/wall", 2)] {
        let metadata = forge.get(&format!("/projects/{project}/packages/npm/{}", name.replace('/', "%2f"))).json();
        let of_metadata: Vec<&Value> =
            metadata["maintainers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        for prefix in ["", "/groups/acme/-"] {
            let found = search_by(&forge, "developer", prefix, &format!("text={name}"));
            let of_search = found["objects"][0]["package"]["maintainers"].as_array().unwrap();
            assert_eq!(of_search.iter().map(|one| &one["username"]).collect::<Vec<_>>(), of_metadata, "{name}");
            assert_eq!(of_metadata.len(), count);
        }
    }
}

#[test]
fn each_level_finds_the_packages_that_the_caller_may_read() {
    let forge = forge();
    for (user, prefix, found) in [
        ("developer", "/projects/7", vec!["@acme/paint", "brush"]),
        ("", "/projects/7", vec!["@acme/paint", "brush"]),
        ("developer", "/projects/9", vec!["@acme/secret-paint"]),
        ("developer", "/groups/acme/-", vec!["@acme/paint", "@acme/secret-paint", "@acme/wall", "brush"]),
        ("outsider", "/groups/acme/-", vec!["@acme/paint", "@acme/wall", "brush"]),
        ("guest", "/groups/100/-", vec!["@acme/paint", "@acme/wall", "brush"]),
        ("", "/groups/acme/-", vec!["@acme/paint", "brush"]),
        ("developer", "/groups/acme%2fsub/-", vec!["@acme/secret-paint"]),
        ("developer", "", vec!["@acme/paint", "@acme/secret-paint", "@acme/wall", "@other/paint"]),
        ("", "", vec!["@acme/paint", "@other/paint"]),
    ] {
        assert_eq!(names(&search_by(&forge, user, prefix, "")), found, "{user} at {prefix}");
    }
    for (user, prefix, status) in [
        ("", "/projects/9", 401),
        ("guest", "/projects/9", 403),
        ("outsider", "/projects/9", 404),
        ("developer", "/projects/404", 404),
        ("outsider", "/groups/acme%2fsub/-", 404),
        ("wrong", "", 401),
    ] {
        let path = format!("{prefix}/packages/npm/-/v1/search?text=paint");
        assert_eq!(forge.send(request(Method::GET, &path).by(user)).status, status, "{user} at {prefix}");
    }
    forge.token("blind", Subject::User(5), &["read_user"]);
    let blind = request(Method::GET, "/packages/npm/-/v1/search?text=").by("blind");
    assert_eq!(forge.send(blind).json()["error"], "insufficient_scope");
}

#[test]
fn text_scope_and_keywords() {
    let forge = forge();
    for (query, found) in [
        ("text=paint", vec!["@acme/paint", "@acme/secret-paint", "brush"]),
        ("text=wall", vec!["@acme/wall", "@acme/paint"]),
        ("text=wall+stone", vec!["@acme/wall"]),
        ("text=scope:acme+paint", vec!["@acme/paint", "@acme/secret-paint"]),
        ("text=scope%3A%40acme%20keywords%3Aart", vec!["@acme/paint", "@acme/secret-paint"]),
        ("text=keywords:tool,wall&quality=0.65&popularity=0.98", vec!["@acme/paint", "brush"]),
        ("text=nothing", vec![]),
    ] {
        assert_eq!(names(&search_by(&forge, "developer", "/groups/acme/-", query)), found, "{query}");
    }
}

#[test]
fn pages() {
    let forge = Forge::new();
    (0..30).for_each(|n| drop(forge.publish(PUBLIC, &format!("lib-{n:02}"), "1.0.0")));
    let search = |query: &str| search_by(&forge, "guest", "/projects/7", &format!("text=lib&{query}"));
    assert_eq!((names(&search("")).len(), &search("")["total"]), (20, &json!(30)));
    assert_eq!(names(&search("size=2&from=28")), ["lib-28", "lib-29"]);
    assert_eq!(names(&search("size=1000")).len(), 30);
    for nothing in ["size=0", "size=-5", "from=30", "from=9223372036854775807"] {
        assert_eq!((names(&search(nothing)).len(), &search(nothing)["total"]), (0, &json!(30)), "{nothing}");
    }
    assert_eq!(names(&search("from=-1")).len(), 20);
    for (query, error) in [
        ("size=many", "size is invalid"),
        ("from=1.5", "from is invalid"),
        ("text[]=lib", "text is invalid"),
        ("text=lib&text[x]=lib", "text is invalid"),
    ] {
        forge.get(&format!("/projects/7/packages/npm/-/v1/search?{query}")).is_refused(400, error);
    }
}

#[test]
fn unpublished_packages_are_not_found_and_the_newest_of_a_name_is() {
    let mut forge = Forge::shared();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.advance_clock();
    forge.publish(INTERNAL, "lib", "2.0.0");
    let group = |user: &str| search_by(&forge, user, "/groups/acme/-", "text=lib");
    assert_eq!(
        (&group("guest")["total"], &group("guest")["objects"][0]["package"]["version"]),
        (&json!(1), &json!("2.0.0"))
    );
    assert_eq!(group("")["objects"][0]["package"]["version"], "1.0.0");
    let path = "/projects/7/packages/npm/lib";
    let revision = forge.get(path).json()["_rev"].as_str().unwrap().to_owned();
    assert_eq!(forge.send(request(Method::DELETE, &format!("{path}/-rev/{revision}")).by("maintainer")).status, 200);
    assert_eq!(names(&search_by(&forge, "", "/groups/acme/-", "text=lib")), Vec::<&str>::new());
}

#[test]
fn a_listed_package_that_was_never_written_is_not_found() {
    let forge = Forge::new();
    let name = crate::name::PackageName::parse("lib").unwrap();
    let project = project::by_id(&forge.env(), PUBLIC).unwrap().unwrap().key();
    crate::store::add_project_with_name(&forge.env(), &name, &project).unwrap();
    assert_eq!(search_by(&forge, "guest", "/projects/7", "")["total"], 0);
}

/// A forge whose project 7 lists packages of all names; only the last package exists.
fn forge_with_names(names: impl Iterator<Item = String>) -> Forge {
    let forge = Forge::new();
    let packages: Vec<String> = names.collect();
    forge.publish(PUBLIC, packages.last().unwrap(), "1.0.0");
    let listing = json!({"packages": packages}).to_string();
    kit::store::Store::set(&forge.store, "package-registry/v1/project/7", listing.as_bytes()).unwrap();
    forge
}

#[test]
fn packages_whose_name_matches_are_read_first() {
    let forge = forge_with_names((0..5000).map(|n| format!("lib-{n}")).chain(["zebra".into()]));
    assert_eq!(names(&search_by(&forge, "guest", "/projects/7", "text=zebra")), ["zebra"]);
    assert_eq!(search_by(&forge, "guest", "/projects/7", "text=payload")["total"], 0, "there are too many to read all");
}

#[test]
fn every_package_whose_name_matches_is_on_some_page_however_many_there_are() {
    let forge = forge_with_names((0..5000).map(|n| format!("lib-{n:04}")).chain(["lib-zebra".into()]));
    for query in ["", "text=lib", "text=LIB-"] {
        let page = |from: usize| search_by(&forge, "guest", "/projects/7", &format!("{query}&size=250&from={from}"));
        assert_eq!((names(&page(4750)), &page(0)["total"]), (vec![], &json!(5001)), "{query}");
        assert_eq!(names(&page(5000)), ["lib-zebra"], "{query}");
    }
}

#[test]
fn a_package_of_a_group_is_found_however_many_projects_elsewhere_got_packages_later() {
    let forge = Forge::new();
    forge.publish(PRIVATE, "@acme/secret", "1.0.0");
    let listed: Vec<u64> = [PRIVATE].into_iter().chain(10_000..13_000).collect();
    let listing = json!({"projects": listed}).to_string();
    kit::store::Store::set(&forge.store, "package-registry/v1/projects", listing.as_bytes()).unwrap();
    for prefix in ["/groups/acme/-", "/groups/acme%2fsub/-", ""] {
        assert_eq!(names(&search_by(&forge, "developer", prefix, "text=secret")), ["@acme/secret"], "{prefix}");
        assert!(forge.send(request(Method::GET, &format!("{prefix}/packages/npm/-/v1/search")).by("")).status != 500);
    }
    assert_eq!(names(&search_by(&forge, "outsider", "/groups/acme/-", "text=secret")), Vec::<&str>::new());
}

#[test]
fn the_cost_of_a_name_does_not_grow_with_its_projects() {
    let forge = Forge::shared();
    for (project, version) in [(PUBLIC, "1.0.0"), (INTERNAL, "2.0.0")] {
        forge.publish(project, "@acme/lib", version);
    }
    let get = |key: &str| kit::store::Store::get(&forge.store, &format!("package-registry/v1/{key}")).unwrap().unwrap();
    let set = |key: &str, value: &[u8]| {
        kit::store::Store::set(&forge.store, &format!("package-registry/v1/{key}"), value).unwrap();
    };
    let package = get("package/7/@acme/lib");
    let more: Vec<u64> = (20_000..20_100).collect();
    for id in &more {
        forge.project(*id, &format!("p{id}"), 100, Visibility::Public, FeatureAccess::Enabled);
        set(&format!("package/{id}/@acme/lib"), &package);
        set(&format!("project/{id}"), br#"{"packages":["@acme/lib"]}"#);
    }
    let all: Vec<u64> = [more, vec![PUBLIC, INTERNAL]].concat();
    set("projects", json!({"projects": all}).to_string().as_bytes());
    set("name/@acme/lib", json!({"projects": all, "by_publication": true}).to_string().as_bytes());
    for prefix in ["/groups/acme/-", ""] {
        let operations = |text: &str| {
            let counting = kit::testing::CountingStore::over(forge.store.clone());
            let target = format!("{prefix}/packages/npm/-/v1/search?text={text}");
            let answer = TestResponse::of(forge.env_over(counting.clone()), request(Method::GET, &target).by("guest"));
            (counting.operations(), answer.json()["objects"][0]["package"]["version"].clone())
        };
        let (base, found) = (operations("scope:none"), operations("lib"));
        assert_eq!((base.1, found.1), (json!(null), json!("2.0.0")), "{prefix}");
        assert!(found.0 <= base.0 + 20, "{prefix}: {} of {}", found.0, base.0);
    }
}
