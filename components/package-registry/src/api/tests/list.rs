//! Lists of versions: rows, filters, order, pages and rights.

use super::*;
use kit::store::Store as _;
use kit::testing::CountingStore;

fn rows_by(forge: &Forge, user: &str, target: &str) -> Vec<Value> {
    let answer = forge.send(request(Method::GET, target).by(user));
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.json().as_array().unwrap().clone()
}

/// `name@version` of each row.
fn labels(rows: &[Value]) -> Vec<String> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.iter().map(|row| format!("{}@{}", text(row, "name"), text(row, "version"))).collect()
}

fn list(forge: &Forge, query: &str) -> Vec<String> {
    labels(&rows_by(forge, "developer", &format!("/projects/7/packages?{query}")))
}

/// Three packages, one second apart.
fn forge() -> Forge {
    let mut forge = Forge::new();
    for (project, name, version) in [
        (PUBLIC, "@acme/paint", "1.0.0"),
        (PUBLIC, "brush", "2.0.0"),
        (PUBLIC, "@acme/paint", "1.1.0"),
        (INTERNAL, "@acme/wall", "1.0.0"),
        (PRIVATE, "@acme/secret", "1.0.0"),
    ] {
        forge.publish(project, name, version);
        forge.advance_clock();
    }
    forge
}

#[test]
fn a_row_has_the_fields_of_the_reference_service() {
    let forge = forge();
    let rows = rows_by(&forge, "", "/projects/7/packages");
    let [first, _, last] = &rows[..] else { panic!("{rows:?}") };
    let id = first["id"].as_u64().unwrap();
    let expected = json!({
        "id": id, "name": "@acme/paint", "version": "1.0.0", "package_type": "npm", "status": "default", "_links": {},
        "created_at": "2026-09-21T14:13:20.000Z", "last_downloaded_at": null, "creator_id": 4, "tags": [],
    });
    assert_eq!(*first, expected);
    assert_ne!(last["id"], id);
    assert_eq!((&last["tags"][0]["name"], &last["tags"][0]["package_id"]), (&json!("latest"), &last["id"]));
    assert_eq!(rows_by(&forge, "", "/projects/7/packages")[0]["id"], id, "it stays the same");
    let of_group = rows_by(&forge, "", "/groups/acme/packages");
    assert_eq!((&of_group[0]["project_id"], &of_group[0]["project_path"]), (&json!(7), &json!("acme/web")));
}

#[test]
fn filters_and_order() {
    let forge = forge();
    let all = ["@acme/paint@1.0.0", "brush@2.0.0", "@acme/paint@1.1.0"];
    for (query, expected) in [
        ("", &all[..]),
        ("sort=desc", &["@acme/paint@1.1.0", "brush@2.0.0", "@acme/paint@1.0.0"]),
        ("order_by=name", &["@acme/paint@1.0.0", "@acme/paint@1.1.0", "brush@2.0.0"]),
        ("order_by=version&sort=desc", &["brush@2.0.0", "@acme/paint@1.1.0", "@acme/paint@1.0.0"]),
        ("order_by=type&package_type=npm", &all),
        ("package_type=maven", &[]),
        ("package_name=PAINT", &["@acme/paint@1.0.0", "@acme/paint@1.1.0"]),
        ("package_name=nothing", &[]),
        ("package_version=1.1.0", &["@acme/paint@1.1.0"]),
        ("status=default&include_versionless=true", &all),
        ("status=deprecated", &[]),
        ("status=hidden", &[]),
    ] {
        assert_eq!(list(&forge, query), expected, "{query}");
    }
    let wrong = "page=x&order_by=project_path&sort=up&package_type=deb&status=new&include_versionless=x";
    let answer = forge.get(&format!("/projects/7/packages?{wrong}"));
    assert_eq!(answer.status, 400);
    for name in ["page", "order_by", "sort", "package_type", "status", "include_versionless"] {
        assert!(answer.text().contains(name), "{name}: {}", answer.text());
    }
    for name in ["package_name", "package_version", "package_type", "status", "order_by", "page", "include_versionless"]
    {
        for form in ["[]=brush", "[x]=brush"] {
            forge.get(&format!("/projects/7/packages?{name}{form}")).is_refused(400, &format!("{name} is invalid"));
        }
    }
}

#[test]
fn unpublished_versions_are_gone_and_deprecated_ones_say_so() {
    let forge = forge();
    let deprecation =
        json!({"_id": "@acme/paint", "name": "@acme/paint", "versions": {"1.0.0": {"deprecated": "old"}}});
    let path = "/projects/7/packages/npm/@acme%2fpaint";
    let answer = forge.send(request(Method::PUT, path).by("maintainer").body(deprecation.to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(list(&forge, "status=deprecated"), ["@acme/paint@1.0.0"]);
    assert_eq!(list(&forge, "status=default"), ["brush@2.0.0", "@acme/paint@1.1.0"]);
    let rows = rows_by(&forge, "", "/projects/7/packages");
    assert_eq!((&rows[0]["status"], &rows[1]["status"]), (&json!("deprecated"), &json!("default")));
    let document = forge.get(path).json();
    let revision = document["_rev"].as_str().unwrap();
    let answer = forge.send(request(Method::DELETE, &format!("{path}/-rev/{revision}")).by("maintainer"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(list(&forge, ""), ["brush@2.0.0"]);
}

#[test]
fn a_list_has_pages() {
    let forge = forge();
    let answer = forge.get("/projects/acme%2fweb/packages?per_page=2&order_by=name&page=2");
    assert_eq!(labels(answer.json().as_array().unwrap()), ["brush@2.0.0"]);
    for (name, value) in [("x-total", "3"), ("x-page", "2"), ("x-prev-page", "1"), ("x-next-page", "")] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let first = "/api/v4/projects/acme%2fweb/packages?order_by=name&page=1&per_page=2>; rel=\"first\"";
    assert!(answer.header("link").contains(first), "{}", answer.header("link"));
}

#[test]
fn each_level_lists_the_packages_that_the_caller_may_read() {
    let forge = forge();
    let names = |user: &str, path: &str| {
        let mut names = labels(&rows_by(&forge, user, &format!("{path}/packages?package_version=1.0.0")));
        names.sort();
        names
    };
    for (user, path, expected) in [
        ("", "/groups/acme", &["@acme/paint@1.0.0"][..]),
        ("guest", "/groups/acme", &["@acme/paint@1.0.0", "@acme/wall@1.0.0"]),
        ("developer", "/groups/100", &["@acme/paint@1.0.0", "@acme/secret@1.0.0", "@acme/wall@1.0.0"]),
        ("developer", "/groups/acme%2fsub", &["@acme/secret@1.0.0"]),
        ("developer", "/projects/9", &["@acme/secret@1.0.0"]),
        ("developer", "/groups/other", &[]),
    ] {
        assert_eq!(names(user, path), expected, "{user} at {path}");
    }
    let target = "/groups/acme/packages?exclude_subgroups=true&order_by=project_path";
    let direct = rows_by(&forge, "developer", target);
    assert_eq!(labels(&direct), ["@acme/wall@1.0.0", "@acme/paint@1.0.0", "brush@2.0.0", "@acme/paint@1.1.0"]);
    for (user, path, status) in [
        ("", "/projects/9", 401),
        ("guest", "/projects/9", 403),
        ("outsider", "/projects/9", 404),
        ("developer", "/projects/404", 404),
        ("outsider", "/groups/acme%2fsub", 404),
        ("wrong", "/projects/7", 401),
    ] {
        let answer = forge.send(request(Method::GET, &format!("{path}/packages")).by(user));
        assert_eq!(answer.status, status, "{user} at {path}: {}", answer.text());
    }
    assert_eq!(forge.send(request(Method::DELETE, "/projects/7/packages").by("maintainer")).status, 405);
}

#[test]
fn pages_in_every_order_are_parts_of_the_whole_list() {
    let mut forge = forge();
    forge.variables.push(("registry_name_policy", "shared"));
    for (project, name, version) in [
        (INTERNAL, "brush", "0.1.0"),
        (PUBLIC, "brush", "2.0.1"),
        (INTERNAL, "@acme/wall", "0.9.0"),
        (PUBLIC, "comb", "1.0.0"),
        (PRIVATE, "brush", "3.0.0"),
    ] {
        forge.publish(project, name, version);
        forge.advance_clock();
    }
    for path in ["/groups/acme", "/projects/7"] {
        for order in
            ["created_at", "name", "version", "project_path"].iter().take(if path == "/projects/7" { 3 } else { 4 })
        {
            for sort in ["asc", "desc"] {
                let target = format!("{path}/packages?order_by={order}&sort={sort}");
                let whole = labels(&rows_by(&forge, "developer", &target));
                assert_eq!(whole.len(), if path == "/projects/7" { 5 } else { 10 });
                for per_page in [1, 2, 3, 7] {
                    let page = |number: usize| {
                        labels(&rows_by(&forge, "developer", &format!("{target}&per_page={per_page}&page={number}")))
                    };
                    let pages: Vec<String> = (1..=whole.len().div_ceil(per_page) + 1).flat_map(page).collect();
                    assert_eq!(pages, whole, "{target} {per_page}");
                }
                let answer = forge.send(request(Method::GET, &format!("{target}&per_page=2")).by("developer"));
                assert_eq!(answer.header("x-total"), whole.len().to_string());
                // With a filter, every index is read.
                assert_eq!(labels(&rows_by(&forge, "developer", &format!("{target}&status=default"))), whole);
            }
        }
    }
}

#[test]
fn a_page_in_the_order_of_names_reads_its_own_indexes() {
    let forge = Forge::new();
    for number in 10..40 {
        forge.publish(PUBLIC, &format!("lib-{number}"), "1.0.0");
    }
    let operations = |query: &str| {
        let counting = CountingStore::over(forge.store.clone());
        let path = format!("/projects/7/packages?per_page=2&{query}");
        let answer = TestResponse::of(forge.env_over(counting.clone()), request(Method::GET, &path).by("developer"));
        assert_eq!((answer.status, answer.header("x-total")), (200, "30"), "{}", answer.text());
        counting.operations()
    };
    assert_eq!(operations("order_by=created_at") - operations("order_by=name&page=7"), 28);
}

#[test]
fn lists_that_are_too_long_are_refused_and_not_cut() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let replace = |key: &str, field: &str, value: Value| {
        forge.store.set(&format!("package-registry/v1/{key}"), json!({ field: value }).to_string().as_bytes()).unwrap();
    };
    let list = |user: &str, path: &str| forge.send(request(Method::GET, &format!("{path}/packages")).by(user));
    for (count, anonymous, developer) in [(2_000, 200, 200), (2_001, 400, 200), (20_001, 400, 400)] {
        let packages: Vec<String> = (0..count).map(|number| format!("lib-{number}")).collect();
        replace("project/7", "packages", json!(packages));
        assert_eq!(list("", "/projects/7").status, anonymous, "{count}");
        assert_eq!(list("developer", "/projects/7").status, developer, "{count}");
    }
    replace("project/7", "packages", json!(["lib"]));
    assert_eq!(list("developer", "/groups/acme").status, 200);
    let ids = 100_000..120_001;
    let save = || {
        for id in ids.clone() {
            project::save(&forge.env(), forge.new_project(id, &format!("p{id}"), 100, Visibility::Public)).unwrap();
        }
    };
    forge.import(|changes| ids.clone().for_each(|id| changes.project(id)), save);
    replace("projects", "projects", json!(ids.collect::<Vec<u64>>()));
    assert_eq!(list("developer", "/groups/acme").status, 400);
    assert_eq!(list("developer", "/projects/7").status, 200);
}

/// The bound counts the entries of unpublished versions, too, although no package counts them.
#[test]
fn a_list_with_too_many_unpublished_versions_is_refused() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let index = forge.store.keys().into_iter().find(|key| key.ends_with("/index")).unwrap();
    let line = String::from_utf8(forge.store.get(&index).unwrap().unwrap()).unwrap();
    let unpublished: String = (0..200_000)
        .map(|number| format!("0.{number:06}.0{}", line.strip_prefix("1.0.0").unwrap().replace("listed", "reserved")))
        .collect();
    let bytes = (unpublished.len() + line.len()) as u64;
    damage::replace_index(&forge, "package-registry/v1/package/7/lib", &(unpublished + &line));
    // One package under many names.
    let names: Vec<String> = (0..40).map(|number| format!("lib-{number}")).collect();
    let package = forge.store.get("package-registry/v1/package/7/lib").unwrap().unwrap();
    for name in &names {
        forge.store.set(&format!("package-registry/v1/package/7/{name}"), &package).unwrap();
    }
    for (count, query, status) in [
        (1, "", 200),
        ((64 << 20) / bytes, "", 200),
        ((64 << 20) / bytes + 1, "", 400),
        (40, "order_by=name&per_page=2", 200),
        (40, "order_by=name&per_page=2&page=20", 200),
        (40, "order_by=name&per_page=40", 400),
        (40, "package_version=0.000007.0", 400),
    ] {
        let names = json!({"packages": names.get(..count as usize).unwrap()});
        forge.store.set("package-registry/v1/project/7", names.to_string().as_bytes()).unwrap();
        assert_eq!(forge.get(&format!("/projects/7/packages?{query}")).status, status, "{count} {query}");
    }
}
