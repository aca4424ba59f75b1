//! Defects of the pages that visitors found.

use super::fake_api::Forge;

const CONTROL: &str = "<span class=\"control\">U+202E</span>";

#[test]
fn no_page_has_characters_that_reverse_its_own_words() {
    let hostile = "a\u{202e}b\u{2069}c";
    let forge = Forge::new(hostile);
    let revealed = format!("<bdi>a{CONTROL}b<span class=\"control\">U+2069</span>c</bdi>");
    let page = forge.get("/merge_requests/acme/app/7", Some("admin-token")).text;
    assert!(page.contains(&format!("<code>{revealed}</code> → <code>{revealed}</code>")), "{page}");
    assert!(page.contains(&format!("<span class=\"place\">{revealed}, from line 2</span>")), "{page}");
    let list = forge.get("/merge_requests?project=acme/app", Some("admin-token")).text;
    assert!(list.contains(&format!("<code>{revealed}</code> → <code>{revealed}</code>")), "{list}");
    let project = forge.get("/namespaces/acme/app", Some("admin-token")).text;
    assert!(project.contains(&format!("Default branch: <code>{revealed}</code>")), "{project}");
    let admin = forge.get("/admin", Some("admin-token")).text;
    assert!(admin.contains(&format!("<code>{revealed}</code>")), "{admin}");
    let home = forge.get("/", None).text;
    assert!(home.contains(&format!("<span class=\"badge\"><bdi>{hostile}</bdi></span>")), "{home}");
}

#[test]
fn hidden_characters_of_a_suggestion_are_named_and_warned_of() {
    let warning = "These lines have invisible characters.";
    let page = Forge::new("if a\u{202e} {").get("/merge_requests/acme/app/7", None).text;
    let line = format!("<bdi dir=\"ltr\">if a{CONTROL} {{</bdi>");
    assert_eq!(page.matches(&line).count(), 6, "{page}");
    assert_eq!(page.matches(warning).count(), 3, "{page}");
    for hidden in ['\u{200b}', '\u{2060}', '\u{feff}', '\u{3164}', '\u{e0041}'] {
        let page = Forge::new(&format!("if a{hidden} {{")).get("/merge_requests/acme/app/7", None).text;
        assert_eq!(page.matches(warning).count(), 3, "{page}");
    }
    assert!(!Forge::new("if a {").get("/merge_requests/acme/app/7", None).text.contains(warning));
}

#[test]
fn tokens_that_cannot_be_listed_do_not_take_the_page_along() {
    let forge = Forge::new("plain");
    let page = forge.get("/admin?q=rare", Some("admin-token"));
    assert_eq!(page.status, 200);
    assert!(page.text.contains("this list takes too many reads") && page.text.contains("3 settings"), "{}", page.text);
    let of_user = forge.get("/admin?q=rare&user=mia", Some("admin-token")).text;
    assert!(of_user.contains("Revoke the token") && !of_user.contains("too many reads"), "{of_user}");
}

#[test]
fn a_merge_request_shows_its_description() {
    let page = Forge::new("why it **matters**").get("/merge_requests/acme/app/7", None).text;
    assert!(page.contains("aria-label=\"Description\"><div class=\"text\"><p>why it <strong>"), "{page}");
}

#[test]
fn a_comment_of_html_only_shows_its_source() {
    let page = Forge::new("<img src=x>").get("/merge_requests/acme/app/7", None).text;
    assert!(page.contains("<pre><code>&lt;img src=x&gt;</code></pre>"), "{page}");
    assert!(!page.contains("<div class=\"text\"></div>"), "{page}");
}

#[test]
fn a_block_that_is_no_suggestion_is_shown() {
    for (text, shown) in [
        // The first note has suggestions; the reply has no suggestions.
        ("before\n```suggestion\nSEEN\n```", 1),
        ("before\n\n    ```suggestion\n    code\n\nSEEN", 2),
        ("```suggestions-of-mine\nSEEN\n```", 2),
    ] {
        let page = Forge::new(text).get("/merge_requests/acme/app/8", None).text;
        let (_, discussion) = page.split_once("<article").unwrap();
        let texts = discussion.split("class=\"text\">").skip(1);
        let texts = texts.filter(|text| text.split("</div>").next().unwrap().contains("SEEN"));
        assert_eq!(texts.count(), shown, "{page}");
    }
}

#[test]
fn apply_is_offered_only_with_push_access_to_the_source_branch() {
    let forge = Forge::new("plain");
    for (path, token, may_apply) in [
        ("/merge_requests/acme/app/7", None, false),
        ("/merge_requests/acme/app/7", Some("developer-token"), true),
        // The source project is one in which the developer is a Reporter.
        ("/merge_requests/acme/app/8", Some("developer-token"), false),
        ("/merge_requests/acme/app/8", Some("admin-token"), true),
        ("/merge_requests/acme/forked/7", Some("developer-token"), true),
    ] {
        let page = forge.get(path, token).text;
        assert_eq!(page.contains("Apply this one"), may_apply, "{path} {token:?}");
        assert_eq!(page.contains("Apply as one commit"), may_apply, "{path} {token:?}");
        assert_eq!(page.contains("Sign in to apply it."), token.is_none(), "{path} {token:?}");
        let is_told = page.contains("Who may push to the source branch can apply it.");
        assert_eq!(is_told, token.is_some() && !may_apply, "{path} {token:?}");
    }
}

#[test]
fn a_project_that_is_named_by_its_id_has_its_path_in_headings() {
    let forge = Forge::new("plain");
    for (path, heading) in [
        ("/issues?project=104", "Issues of acme/plain"),
        ("/issues?group=100", "Issues of acme/plain"),
        ("/packages?project=104", "Packages of acme/plain"),
        ("/packages/@acme/lib?project=104", "/namespaces/acme/plain"),
        ("/merge_requests?project=104", "Merge requests of acme/plain"),
    ] {
        let page = forge.get(path, Some("developer-token"));
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.contains(heading) && !page.text.contains("/namespaces/10"), "{path}: {}", page.text);
    }
}

#[test]
fn a_form_redirects_to_its_page_which_shows_its_result_once() {
    let forge = Forge::new("plain");
    let session = &*forge.cookie("admin-token");
    let token = forge.get("/", Some("admin-token")).form_token();
    let form = |fields: &str| format!("form_token={token}&{fields}");
    let done = forge.post("/admin?q=x", session, &form("action=switch&feature=f&value=true"), &[]);
    assert_eq!((done.status.as_u16(), &done.headers["location"]), (303, &"/admin?q=x".parse().unwrap()));
    let kept = done.cookie().unwrap();
    let shown = forge.get("/admin?q=x", Some(&format!("admin-token; {kept}")));
    assert!(shown.text.contains("The feature f is on."), "{}", shown.text);
    let set = shown.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("hexad-notice=;") && set.contains("Max-Age=0"), "{set}");
    // A message of another session, or a forged one, is not shown.
    let foreign = forge.get("/", Some(&format!("developer-token; {kept}")));
    assert!(foreign.status == 200 && !foreign.text.contains("The feature f is on."));
    // The subject of the form may be gone.
    let gone = forge.get("/packages/missing", Some(&format!("admin-token; {kept}")));
    assert!(gone.status == 200 && gone.text.contains("The feature f is on."), "{}", gone.text);
    // A refusal is answered with a page, and a secret is never in a cookie.
    assert_eq!(forge.post("/admin", session, &form("action=nothing"), &[]).status, 400);
    let made = forge.post("/admin", session, &form("action=create&user=mia&name=ci&scopes=api"), &[]);
    assert!(made.status == 200 && made.cookie().is_none() && made.text.contains("secret-of-new-token"));
}

#[test]
fn signing_in_leads_back_to_the_page_that_asked_for_it() {
    let forge = Forge::new("plain");
    let next = "/-/sign-in?next=%2Fpackages%2Fmissing%3Fversions%3Dall";
    let page = forge.get("/packages/missing?versions=all", None).text;
    assert_eq!(page.matches(&format!("href=\"{next}\"")).count(), 2, "{page}");
    let page = forge.get(next, None);
    assert!(page.text.contains("name=\"next\" value=\"/packages/missing?versions=all\""), "{}", page.text);
}

#[test]
fn a_form_applies_only_suggestions_of_its_page() {
    let forge = Forge::new("plain");
    let token = forge.get("/", Some("admin-token")).form_token();
    for fields in ["one=4", "one=1/apply", "action=batch&ids=1&ids=4", "action=batch"] {
        forge.take_calls();
        let form = format!("form_token={token}&{fields}");
        let page = forge.post("/merge_requests/acme/app/7", &forge.cookie("admin-token"), &form, &[]);
        assert_eq!(page.status, 400, "{fields}: {}", page.text);
        assert!(forge.take_calls().iter().all(|call| call.starts_with("GET")), "{fields}");
    }
}

#[test]
fn a_feature_may_have_every_name_that_the_api_allows() {
    let page = Forge::new("plain").get("/admin", Some("admin-token")).text;
    assert!(page.contains(r#"pattern="[A-Za-z0-9_.:\/\-]+""#), "{page}");
}

#[test]
fn unknown_addresses_are_a_page_for_people_and_json_for_programs() {
    let forge = Forge::new("plain");
    for path in ["/does-not-exist", "/issues/nope", "/favicon.ico", "/-/x"] {
        let page = forge.accept(path, "text/html,application/xhtml+xml,*/*;q=0.8");
        assert!(page.status == 404 && page.text.contains("To the packages"), "{path}: {}", page.text);
        for types in ["application/json", "*/*", "image/avif,image/webp"] {
            let json = forge.accept(path, types);
            assert_eq!((json.status.as_u16(), &*json.text), (404, r#"{"error":"404 Not Found"}"#), "{path} {types}");
        }
    }
}

#[test]
fn a_package_shows_the_files_of_its_tarball() {
    let forge = Forge::new("a\u{202e}b");
    let page = forge.get("/packages/@acme/lib?project=acme/app&version=1.0.0", None).text;
    assert!(page.contains("?project=acme%2Fapp&amp;files=all&amp;version=1.0.0\""), "{page}");
    let files = forge.get("/packages/@acme/lib?project=acme/app&version=1.0.0&files=all", None).text;
    assert!(files.contains("aria-label=\"Files\"") && files.contains(CONTROL) && files.contains("7 B"), "{files}");
    assert!(files.contains("more files than this list") && !files.contains("aria-label=\"Readme\""), "{files}");
    assert_eq!(forge.get("/packages/@acme/lib?files=some", None).status, 400);
}
