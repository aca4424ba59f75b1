//! Addresses: links that other programs print lead to their pages, and unknown parameters are errors.

use super::fake_api::{self, Forge};

#[test]
fn addresses_of_the_reference_lead_to_their_pages() {
    let forge = Forge::new("plain");
    for (address, page) in [
        ("/acme", "/namespaces/acme"),
        ("/groups/acme", "/namespaces/acme"),
        ("/mia", "/namespaces/mia"),
        ("/acme/app", "/namespaces/acme/app"),
        ("/acme/app.git", "/namespaces/acme/app"),
    ] {
        for (token, types) in [(None, "*/*"), (Some("developer-token"), "text/html")] {
            let found = match token {
                None => forge.accept(address, types),
                token => forge.get(address, token),
            };
            assert_eq!((found.status.as_u16(), &*found.text), (302, ""), "{address}");
            assert_eq!(found.headers["location"], page, "{address}");
            assert_eq!(forge.get(page, token).status, 200, "{page} {token:?}");
        }
    }
    for address in ["/nobody", "/acme/nothing", "/groups/mia", "/groups/nobody"] {
        assert_eq!(forge.accept(address, "*/*").status, 404, "{address}");
        let page = forge.get(address, None);
        assert_eq!(page.status, 404, "{address}");
        assert!(page.text.contains(&format!("next={}", kit::path::encode(address))), "{}", page.text);
    }
}

#[test]
fn a_project_that_has_moved_is_shown_at_its_former_path() {
    let forge = Forge::with(&[], |request| match request.url.path() {
        "/api/v4/projects/acme%2Fold" => {
            let mut moved = fake_api::reply(301, &serde_json::Value::Null)?;
            moved.headers.insert("location", "http://forge.test/api/v4/projects/104".parse().unwrap());
            Ok(moved)
        }
        "/api/v4/packages/npm/elsewhere" => {
            let mut moved = fake_api::reply(302, &serde_json::Value::Null)?;
            moved.headers.insert("location", "https://registry.test/elsewhere".parse().unwrap());
            Ok(moved)
        }
        _ => fake_api::answer(request, "plain"),
    });
    let page = forge.get("/namespaces/acme/old", None);
    assert!(page.status == 200 && page.text.contains("git clone"), "{}", page.text);
    let page = forge.get("/packages/elsewhere", None);
    assert!(page.status == 404 && page.text.contains("it is at https://registry.test/elsewhere"), "{}", page.text);
}

#[test]
fn every_link_has_the_path_of_the_external_url() {
    let root = [("external_url", "http://forge.test/code/forge/")];
    let forge = Forge::with(&root, |request| fake_api::answer(request, "plain"));
    for (path, token) in [
        ("/", None),
        ("/nothing", None),
        ("/?q=x&page=1", Some("admin-token")),
        ("/packages?project=acme/app", Some("admin-token")),
        ("/packages/@acme/lib?project=acme/app", Some("admin-token")),
        ("/issues?project=acme/app&compare_labels=bug", Some("admin-token")),
        ("/namespaces", Some("admin-token")),
        ("/namespaces/acme", Some("admin-token")),
        ("/namespaces/acme/app", Some("admin-token")),
        ("/experiments", Some("admin-token")),
        ("/merge_requests?project=acme/app", Some("admin-token")),
        ("/merge_requests/acme/app/7", Some("admin-token")),
        ("/analytics/acme/app", Some("admin-token")),
        ("/admin", Some("admin-token")),
        ("/-/sign-in?next=/issues", None),
        ("/issues", Some("unknown-token")),
    ] {
        let page = forge.get(path, token);
        for attribute in ["href=\"/", "src=\"/", "action=\"/"] {
            for link in page.text.split(attribute).skip(1) {
                let link = link.split('"').next().unwrap();
                assert!(link.starts_with("code/forge/"), "{path} has {attribute}{link}");
            }
        }
        assert!(page.text.contains("href=\"/code/forge/-/console.css\""), "{path}");
    }
    let page = forge.get("/-/sign-in", None);
    let form = format!("form_token={}&token=developer-token&next=/issues", page.form_token());
    let signed_in = forge.post("/-/sign-in", &page.cookie().unwrap(), &form, &[]);
    assert_eq!(signed_in.headers["location"], "/code/forge/issues");
    assert_eq!(forge.get("/acme/app", None).headers["location"], "/code/forge/namespaces/acme/app");
    let session = forge.cookie("admin-token");
    let form =
        format!("form_token={}&action=switch&feature=f&value=true", forge.get("/", Some("admin-token")).form_token());
    assert_eq!(forge.post("/admin?q=x", &session, &form, &[]).headers["location"], "/code/forge/admin?q=x");
}

#[test]
fn a_parameter_that_names_nothing_says_so() {
    let forge = Forge::new("plain");
    for (path, status, sentence) in [
        ("/packages/@acme/lib?version=9.9.9", 404, "The package @acme/lib has no version 9.9.9."),
        ("/packages/@acme/lib?version=latest", 404, "has no version latest."),
        ("/packages/@acme/lib?versions=some", 400, "It is one of: all."),
        ("/?page=99", 404, "This list has no page 99."),
        ("/?q=lib&page=0", 404, "This list has no page 0."),
        ("/?page=-1", 404, "This list has no page -1."),
        ("/?page=x", 404, "This list has no page x."),
        ("/packages?project=acme/app&page=99", 404, "This list has no page 99."),
        ("/packages?project=acme/app&page=18446744073709551616", 404, "This list has no page"),
        ("/namespaces?page=99", 404, "This list has no page 99."),
        ("/merge_requests?project=acme/app&page=99", 404, "This list has no page 99."),
        ("/merge_requests?project=acme/app&state=bogus", 400, "opened, merged, closed, all"),
        ("/merge_requests/acme/app/7?page=99", 404, "This list has no page 99."),
        ("/merge_requests/acme/app/7?page=x", 404, "This list has no page x."),
        ("/admin?page=99", 404, "This list has no page 99."),
        ("/issues?scope=bogus", 400, "created_by_me"),
        ("/issues?confidential=true", 400, "yes, no"),
        ("/analytics/acme/app?measures=Bogus.count", 400, "no measure or dimension “Bogus.count”"),
        ("/analytics/acme/app?measures=Events.count&dimensions=Bogus", 400, "no measure or dimension “Bogus”"),
        ("/analytics/acme/app?measures=Events.count&granularity=eon", 400, "day, week"),
        ("/analytics/acme/app?measures=Events.count&time=Events.at&from=2026-01-01", 400, "needs both its ends"),
    ] {
        let page = forge.get(path, Some("admin-token"));
        assert_eq!(page.status.as_u16(), status, "{path}: {}", page.text);
        assert!(page.text.contains(sentence), "{path}: {}", page.text);
    }
    assert_eq!(forge.get("/packages/@acme/lib?version=1.0.0", None).status, 200);
    assert_eq!(forge.get("/?page=1", None).status, 200);
}
