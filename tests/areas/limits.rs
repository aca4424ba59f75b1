//! Rate limits apply in the same way whether an instance lives for one request or for many. A client is not refused
//! because of another client with its address. All clients here have the loopback address.

use super::*;
use hexad_tests::server::edited_manifest;
use std::path::PathBuf;

const METADATA: &str = "/api/v4/packages/npm/@acme%2flib";
const SEARCH: &str = "/api/v4/packages/npm/-/v1/search?text=lib";

/// The project's manifest, in which each instance serves one request and no response is cached.
fn one_request_per_instance(folder: &Path) -> PathBuf {
    edited_manifest(folder, |tool| {
        tool.remove("response_cache");
        tool.remove("response_cache_headers");
        tool.insert("max_requests_per_instance".into(), 1.into());
    })
}

/// A forge whose instances live as in the manifest, and a forge whose instances serve one request each.
fn forges(variables: &[(&str, &str)]) -> [Forge; 2] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = one_request_per_instance(folder.path());
    [Forge::seeded_with(variables), Forge::empty_of(&manifest, variables).seed()]
}

fn statuses(count: usize, ask: impl Fn(usize) -> u16) -> Vec<u16> {
    (0..count).map(ask).collect()
}

#[test]
fn a_refused_token_and_guesses_keep_out_nobody_else() {
    for forge in forges(&[]) {
        let user = |token: &str| forge.get("/api/v4/user", token).status;
        let expired = "glpat-unknown-token-00000000001";
        assert_eq!(statuses(130, |_| user(expired)), [401; 130], "a repeated token guesses nothing");
        assert_eq!(user(DEVELOPER), 200);
        let guesses = statuses(150, |n| user(&format!("glpat-guess-{n:020}")));
        assert_eq!(guesses, [[401; 99].as_slice(), &[429; 51]].concat());
        assert_eq!((user(DEVELOPER), user(GUEST), user(expired)), (200, 200, 401), "used before or not");
        assert_eq!(forge.get("/api/v4/projects", "").status, 200);
        let page = |cookie: &str| {
            let headers = [("accept", "text/html"), ("cookie", cookie)];
            forge.send_with("GET", "/", "", &headers, "").status
        };
        let refused = statuses(20, |n| page(&format!("hexad-session=wrong-{n}")));
        assert!(refused.iter().all(|status| matches!(status, 200 | 401 | 429)), "{refused:?}");
        assert_eq!(page(""), 200);
    }
}

#[test]
fn an_install_and_the_front_page_stay_within_the_limits_of_an_address() {
    for forge in forges(&[]) {
        assert_eq!(statuses(300, |_| forge.get(METADATA, "").status), [404; 300]);
        assert_eq!(statuses(96, |_| forge.get(SEARCH, "").status), [200; 96]);
        let all = statuses(30, |_| forge.get(SEARCH, "").status);
        assert!(all.ends_with(&[429]), "{all:?}");
    }
}

#[test]
fn notes_of_a_user_are_bounded_by_default() {
    for forge in forges(&[("notes_rate_limit", "20")]) {
        forge.import_merge_request(PUBLIC);
        let comment = |token: &str| {
            let path = format!("/api/v4/projects/{PUBLIC}/merge_requests/1/notes");
            forge.send_json("POST", &path, token, r#"{"body":"x"}"#)
        };
        assert_eq!(statuses(16, |_| comment(GUEST).status), [201; 16]);
        let rest = statuses(10, |_| comment(GUEST).status);
        assert!(rest.ends_with(&[429; 5]), "{rest:?}");
        let refused = comment(GUEST);
        assert_eq!(refused.header("ratelimit-name"), "notes_rate_limit");
        assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|seconds| (1..=60).contains(&seconds)));
        assert_eq!(comment(DEVELOPER).status, 201, "another user");
    }
}

#[test]
fn every_401_says_how_to_authenticate() {
    let forge = Forge::seeded();
    let challenges = |path: &str, headers: &[(&str, &str)]| -> Vec<String> {
        let answer = forge.send_with("GET", path, "", headers, "");
        assert_eq!(answer.status, 401, "{path}");
        let values = answer.headers.get_all("www-authenticate").iter();
        values.map(|value| value.to_str().expect("text").to_owned()).collect()
    };
    let (bearer, basic) = ("Bearer realm=\"hexad\"", "Basic realm=\"hexad\"");
    let paths = "/api/v4/user /api/v4/namespaces /api/v4/experiments /api/v4/issues_statistics \
        /api/v4/merge_requests /api/v4/suggestions/1 /api/v4/features /api/v4/personal_access_tokens \
        /api/v4/packages/npm/-/whoami /api/v4/packages/npm/-/npm/v1/tokens";
    for path in paths.split(' ') {
        assert_eq!(challenges(path, &[]), [bearer, basic], "{path}");
    }
    assert_eq!(challenges("/api/v4/projects", &[("private-token", "unknown")]), [bearer, basic]);
    assert_eq!(challenges("/acme/missing.git/info/refs?service=git-upload-pack", &[]), [basic, bearer]);
    assert_eq!(challenges("/admin", &[("accept", "text/html")]), [bearer], "a browser would ask for a password");
}
