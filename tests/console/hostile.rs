//! In a real browser, users' texts do not run as code.

use super::*;
use hexad_tests::forge::PUBLIC;
use hexad_tests::suggestions::{Suggestions, import_repository};
use hexad_tests::upstream::Upstream;
use std::collections::BTreeSet;

/// The corpus of the console's own tests.
const CORPUS: &str = include_str!("../../components/console/src/api/tests/injections.txt");

fn corpus() -> Vec<String> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty());
    let corpus: Vec<String> = lines.map(|line| line.replace("\\n", "\n").replace("\\0", "")).collect();
    assert!(corpus.len() >= 100);
    corpus
}

/// Opens a page, and checks that it has only its own script, loads nothing that users wrote, and keeps its width. An
/// open dialog would fail the check, and a navigation away, too.
#[track_caller]
fn check(browser: &Browser, site: &Site, page: &str, hostile: &str) {
    browser.open(&site.page(page));
    let state = browser.run(
        "return [document.querySelectorAll('script').length, \
         document.querySelectorAll('main img, main iframe, main object, main embed, main style, main base').length, \
         document.documentElement.scrollWidth - document.documentElement.clientWidth, \
         document.querySelectorAll('body > header.top').length, document.querySelectorAll('main').length]",
    );
    assert_eq!(state[0], 1, "{page}, {hostile:?}: scripts");
    assert_eq!(state[1], 0, "{page}, {hostile:?}: parts that load something");
    assert!(state[2].as_i64().is_some_and(|pixels| pixels <= 0), "{page}, {hostile:?}: {state}");
    assert_eq!((&state[3], &state[4]), (&1.into(), &1.into()), "{page}, {hostile:?}: the frame");
    check_quiet(browser, &site.server.url);
}

fn import(site: &Site, area: &str, records: &[Value]) {
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    let answer = site.send("POST", &format!("import/{area}"), BOOTSTRAP_TOKEN, &lines);
    assert_eq!(answer.json()["failed"], 0, "{}", answer.text());
}

#[test]
fn texts_of_packages_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    site.sign_in(&browser, ADMIN);
    for (index, hostile) in corpus().iter().enumerate() {
        let name = format!("@acme/hostile-{index}");
        site.publish(&name, "1.0.0", "latest", hostile);
        check(&browser, &site, &format!("/packages/{name}?project=acme/open"), hostile);
        let title = browser.run("return document.title");
        assert!(title.as_str().is_some_and(|title| title.starts_with(&name)), "{hostile:?}: {title}");
    }
    for page in ["/", "/packages?project=acme/open", "/?q=alert"] {
        check(&browser, &site, page, "all");
    }
}

#[test]
fn texts_in_addresses_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    site.sign_in(&browser, ADMIN);
    for hostile in corpus() {
        let text = encode(&hostile);
        for page in [
            format!("/?q={text}"),
            format!("/packages/{text}?project={text}&version={text}"),
            format!(
                "/issues?project=acme/open&labels={text}&compare_labels={text}&compare_milestones={text}&search={text}"
            ),
        ] {
            check(&browser, &site, &page, &hostile);
        }
    }
}

#[test]
fn texts_of_merge_requests_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    let corpus = corpus();
    // File names may have any byte but a slash.
    let files: Vec<String> = corpus.iter().map(|text| file_name(text)).collect();
    let contents: Vec<(&str, &[u8])> = files.iter().map(|name| (name.as_str(), b"one\ntwo\n".as_slice())).collect();
    let repository = Repository::with(&contents);
    for (index, hostile) in corpus.iter().enumerate() {
        repository.git(&["branch", &branch(index, hostile)]);
    }
    import_repository(&site.server, PUBLIC, &repository, &[]);
    let requests: Vec<Value> = corpus
        .iter()
        .enumerate()
        .map(|(index, hostile)| {
            json!({"kind": "merge_request", "id": index + 1, "iid": index + 1, "project_id": PUBLIC, "state": "opened",
                "title": hostile, "source_branch": branch(index, hostile), "target_branch": "main", "author": {"id": 3}})
        })
        .collect();
    import(&site, "suggestions", &requests);
    let suggestions = Suggestions::new(&site.server, PUBLIC, ADMIN);
    let head = suggestions.head("topic");
    site.sign_in(&browser, ADMIN);
    for (index, (hostile, file)) in corpus.iter().zip(&files).enumerate() {
        let iid = index as u64 + 1;
        let body = format!("{hostile}\n\n````suggestion\n{hostile}\n````");
        suggestions.comment(iid, &head, file, 1, &body).expect("an answer");
        check(&browser, &site, &format!("/merge_requests/acme/open/{iid}"), hostile);
    }
}

#[test]
fn texts_of_users_experiments_and_engines_do_not_run() {
    if !is_enabled() {
        return;
    }
    let corpus = corpus();
    let rows: Vec<Value> =
        corpus.iter().map(|hostile| json!({"Events.name": hostile, "Events.count": hostile})).collect();
    let member = |kind: &str, name: &str| json!({"name": name, "title": name, "type": kind});
    let members = |kind: &str| corpus.iter().map(|name| member(kind, name)).collect::<Vec<_>>();
    let measures = [members("number"), vec![json!({"name": "Events.count", "title": corpus[0]})]].concat();
    let dimensions = [members("string"), vec![json!({"name": "Events.name", "title": corpus[1]})]].concat();
    // One answer for both queries.
    let answer = json!({"cubes": [{"name": corpus[2], "title": corpus[3], "measures": measures, "dimensions": dimensions}],
        "results": [{"data": rows}]});
    let engine = Upstream::with_json(answer.to_string());
    let site = Site::start_with(&[("analytics_upstream", "http://127.0.0.1:*")]);
    let settings =
        json!({"analytics_api_base_url": engine.url, "analytics_api_key": "a-key-of-thirty-two-bytes-or-more"});
    assert_eq!(site.send("PUT", "application/settings", ADMIN, &settings.to_string()).status, 200);
    site.send("POST", "features/product_analytics_features", ADMIN, r#"{"value":true}"#).expect(201);
    let users = corpus.iter().enumerate().map(|(index, hostile)| {
        json!({"kind": "user", "id": 9000 + index, "username": format!("hostile-{index}"), "name": hostile})
    });
    import(&site, "directory", &users.collect::<Vec<_>>());
    import(
        &site,
        "directory",
        &[
            json!({"kind": "setting", "name": "hosted", "value": true}),
            json!({"kind": "setting", "name": "operator_group", "value": "acme"}),
            json!({"kind": "member", "source_type": "group", "source_id": forge_group(&site), "user_id": 1, "access_level": 50}),
        ],
    );
    let experiments = corpus.iter().enumerate().map(|(index, hostile)| {
        json!({"kind": "experiment", "name": format!("hostile_{index}"), "milestone": hostile, "group": hostile,
            "introduced_by_url": hostile, "rollout_issue_url": hostile})
    });
    import(&site, "experiments", &experiments.collect::<Vec<_>>());
    let browser = Browser::start(&Options::default());
    site.sign_in(&browser, ADMIN);
    for page in 1..=8 {
        check(&browser, &site, &format!("/namespaces?q=hostile&page={page}"), "users");
    }
    for (index, hostile) in corpus.iter().enumerate() {
        check(&browser, &site, &format!("/namespaces/hostile-{index}"), hostile);
    }
    check(&browser, &site, "/experiments", "experiments");
    assert!(browser.text("main").contains("hostile_99"), "{}", browser.text("main"));
    check(&browser, &site, "/analytics/acme/open?measures=Events.count&dimensions=Events.name&do=load", "rows");
    assert!(
        browser.run("return document.querySelectorAll('section[aria-label=Rows] tbody tr').length").as_u64() > Some(99)
    );
}

/// The texts reduced to the characters that names of packages and users may have, at their maximum length.
fn names(prefix: &str, longest: usize) -> Vec<String> {
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    let words = ["constructor", "__proto__", "javascript", "href", "null"].map(str::to_owned);
    let texts = corpus().into_iter().map(|text| text.chars().filter(is_allowed).collect::<String>());
    let texts: BTreeSet<String> = texts.chain(words).filter(|text| !text.is_empty()).collect();
    // Each has another beginning, so they still differ after they are cut.
    let long =
        |(index, text): (usize, String)| format!("{prefix}{index}{}", text.repeat(longest))[..longest].to_owned();
    let trimmed = |name: String| name.trim_end_matches(['-', '.', '_']).to_owned();
    texts.into_iter().enumerate().map(long).map(trimmed).collect()
}

#[test]
fn names_of_packages_and_their_tags_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    // An unchanged text is not a valid name.
    for hostile in corpus() {
        let path = format!("projects/{PUBLIC}/packages/npm/{}", encode(&hostile));
        assert_ne!(site.send("PUT", &path, ADMIN, "{}").status, 200, "{hostile:?}");
    }
    let names = names("n", 200);
    for name in &names {
        site.publish(name, "1.0.0", "latest", "hostile");
    }
    site.publish("@acme/tagged", "1.0.0", "latest", "hostile");
    let tags: Vec<String> = corpus()
        .into_iter()
        .filter(|tag| {
            let path = format!("projects/{PUBLIC}/packages/npm/-/package/@acme%2ftagged/dist-tags/{}", encode(tag));
            site.send("PUT", &path, ADMIN, "\"1.0.0\"").status == 204
        })
        .collect();
    assert!(tags.len() >= 90, "{}", tags.len());
    site.sign_in(&browser, ADMIN);
    for page in 1..=3 {
        check(&browser, &site, &format!("/packages?project=acme/open&page={page}"), "names");
    }
    for name in &names[..10] {
        check(&browser, &site, &format!("/packages/{name}?project=acme/open"), name);
    }
    for page in ["/namespaces/acme/open", "/packages/@acme/tagged?project=acme/open", "/packages/@acme/tagged"] {
        check(&browser, &site, page, "tags");
        assert!(browser.text("main").contains("<svg onload=alert(1)>"), "{page} has no tag");
    }
}

#[test]
fn labels_of_issues_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    // A comma separates labels.
    let labels: Vec<String> = corpus().into_iter().filter(|label| !label.contains([',', '\n'])).collect();
    let issues = labels.iter().enumerate().map(|(index, label)| {
        json!({"kind": "issue", "id": 9000 + index, "iid": 9000 + index, "project_id": PUBLIC, "title": label,
            "state": "opened", "created_at": "2026-03-03T00:00:00Z", "labels": [label], "milestone": {"title": label}, "author": {"id": 3}})
    });
    import(&site, "issues", &issues.collect::<Vec<_>>());
    site.sign_in(&browser, ADMIN);
    for group in labels.chunks(5) {
        let compared = encode(&group.join(","));
        let page = format!("/issues?project=acme/open&compare_labels={compared}&compare_milestones={compared}");
        check(&browser, &site, &page, &group.join(" "));
        let rows =
            browser.run("return document.querySelectorAll('section[aria-label=\"Side by side\"] tbody tr').length");
        assert!(rows.as_u64() >= Some(group.len() as u64), "{group:?}: {rows}");
    }
    for label in labels.iter().step_by(10) {
        check(&browser, &site, &format!("/issues?project=acme/open&labels={}", encode(label)), label);
    }
}

#[test]
fn usernames_do_not_run() {
    let Some((site, browser)) = visit() else { return };
    let users = |names: &[String], first: usize| -> String {
        let user = |(index, name): (usize, &String)| json!({"kind": "user", "id": first + index, "username": name, "name": name});
        names.iter().enumerate().map(|each| format!("{}\n", user(each))).collect()
    };
    let names: Vec<String> = corpus().into_iter().chain(names("u", 200)).collect();
    // Most texts of the corpus are not valid usernames. The import refuses them and names them.
    let imported = site.send("POST", "import/directory", BOOTSTRAP_TOKEN, &users(&names, 9000)).json();
    assert!(imported["imported"]["user"].as_u64() > Some(100), "{imported}");
    site.sign_in(&browser, ADMIN);
    for page in 1..=names.len().div_ceil(20) {
        check(&browser, &site, &format!("/namespaces?page={page}"), "usernames");
    }
    let is_there = |index: usize| site.send("GET", &format!("users/{}", 9000 + index), ADMIN, "").status == 200;
    let there: Vec<usize> = (0..names.len()).filter(|index| is_there(*index)).collect();
    for index in &there {
        check(&browser, &site, &format!("/namespaces/{}", encode(&names[*index])), &names[*index]);
    }
    // Each user sees the name in the header of its own pages.
    for index in there.iter().step_by(there.len() / 4) {
        let token = json!({"user_id": 9000 + index, "name": "own", "scopes": ["api"]}).to_string();
        let token = site.send("POST", "personal_access_tokens", ADMIN, &token).json();
        let token = token["token"].as_str().unwrap_or_else(|| panic!("{token}")).to_owned();
        browser.open(&site.page("/"));
        site.sign_out(&browser);
        site.sign_in(&browser, &token);
        for page in ["/", "/issues", "/namespaces"] {
            check(&browser, &site, page, &names[*index]);
        }
    }
}

/// The id of the group of the tests.
fn forge_group(site: &Site) -> u64 {
    site.send("GET", "groups/acme", ADMIN, "").json()["id"].as_u64().expect("a group")
}

/// A text as a part of an address.
fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A text as the name of a file.
fn file_name(text: &str) -> String {
    let name: String = text.replace(['/', '\0', '\n', '\r'], "_").chars().take(60).collect();
    format!("f{name}")
}

/// A text as the name of a branch, without the characters that git forbids (git check-ref-format).
fn branch(index: usize, text: &str) -> String {
    let is_refused = |c: char| c.is_control() || " ~^:?*[\\/.{".contains(c);
    let name: String = text.chars().take(60).map(|c| if is_refused(c) { '_' } else { c }).collect();
    format!("h{index}-{name}")
}
