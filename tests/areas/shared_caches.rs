//! A shared cache may store no area's response to one caller, because it would send it to another one. Caches respect
//! `Authorization`, but do not know `Private-Token`.

use super::*;

/// A path of each kind that answers 200 to an administrator.
const PATHS: [&str; 28] = [
    "/api/v4/user",
    "/api/v4/users",
    "/api/v4/users/1",
    "/api/v4/version",
    "/api/v4/projects",
    "/api/v4/projects/9",
    "/api/v4/projects/9/members",
    "/api/v4/groups",
    "/api/v4/groups/10",
    "/api/v4/namespaces",
    "/api/v4/namespaces/10",
    "/api/v4/namespaces/10/exists",
    "/api/v4/features",
    "/api/v4/application/settings",
    "/api/v4/personal_access_tokens",
    "/api/v4/personal_access_tokens/self",
    "/api/v4/issues_statistics",
    "/api/v4/projects/9/issues_statistics",
    "/api/v4/groups/10/issues_statistics",
    "/api/v4/projects/9/merge_requests",
    "/api/v4/projects/9/packages",
    "/api/v4/groups/10/packages",
    "/api/v4/projects/9/packages/npm/-/whoami",
    "/api/v4/projects/9/packages/npm/-/ping",
    "/api/v4/projects/9/packages/npm/-/v1/search?text=a",
    "/api/v4/projects/9/packages/npm/-/npm/v1/tokens",
    "/api/v4/projects/9/packages/npm/-/npm/v1/user",
    "/acme/labs/secret.git/info/refs?service=git-upload-pack",
];

#[test]
fn no_shared_cache_stores_an_answer_to_a_caller() {
    assert_eq!((PUBLIC, PRIVATE), (7, 9), "the paths name the project");
    let forge = Forge::seeded();
    for path in PATHS {
        let answer = forge.get(path, ADMIN);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let directives = answer.header("cache-control");
        assert!(
            ["private", "no-store", "no-cache"].iter().any(|word| directives.contains(word)),
            "{path}: {directives:?}"
        );
        assert!(!directives.contains("public"), "{path}: {directives:?}");
    }
}
