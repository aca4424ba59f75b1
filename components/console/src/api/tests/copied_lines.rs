//! Lines to be copied: complete, and safe to run as they are.

use super::fake_api::Forge;

/// The lines of a page that have a button to copy them.
fn lines(page: &str) -> Vec<String> {
    let lines = page.split("data-copy><code>").skip(1).map(|line| line.split("</code>").next().unwrap());
    lines.map(|line| line.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<")).collect()
}

#[test]
fn publishing_leads_to_the_project_and_nowhere_else() {
    let registry = "forge.test/api/v4/projects/acme%2Fplain/packages/npm/";
    let forge = Forge::new("plain");
    for path in ["/namespaces/acme/app", "/packages?project=104"] {
        let lines = lines(&forge.get(path, Some("developer-token")).text);
        for expected in [
            format!("npm pkg set publishConfig.registry=http://{registry}"),
            format!("npm config set --location project @acme:registry=http://{registry}"),
            format!("npm config set --location user '//{registry}:_authToken=${{NPM_TOKEN}}'"),
            format!("npm publish --registry=http://{registry}"),
        ] {
            assert!(lines.contains(&expected), "{path}: {expected} is not in {lines:?}");
        }
        assert!(lines.iter().all(|line| !line.contains("@scope")), "{lines:?}");
    }
}

#[test]
fn installing_names_the_token_for_visitors_who_have_one() {
    let forge = Forge::new("plain");
    let registry = "http://forge.test/api/v4/packages/npm/";
    let token = [
        "npm config set --location user '//forge.test/api/v4/packages/npm/:_authToken=${NPM_TOKEN}'".to_owned(),
        "yarn config set npmScopes.acme.npmAuthToken '${NPM_TOKEN}'".to_owned(),
        "yarn config set npmScopes.acme.npmAlwaysAuth true".to_owned(),
        format!("[install.scopes]\n\"@acme\" = {{ url = \"{registry}\", token = \"$NPM_TOKEN\" }}"),
    ];
    for (visitor, is_told) in [(None, false), (Some("developer-token"), true)] {
        let lines = lines(&forge.get("/packages/@acme/lib", visitor).text);
        for expected in [
            format!("npm config set --location project @acme:registry={registry}"),
            format!("yarn config set npmScopes.acme.npmRegistryServer {registry}"),
            "yarn config set unsafeHttpWhitelist --json '[\"forge.test\"]'".to_owned(),
            format!("[install.scopes]\n\"@acme\" = \"{registry}\""),
        ] {
            assert!(lines.contains(&expected), "{expected} is not in {lines:?}");
        }
        for line in &token {
            assert_eq!(lines.contains(line), is_told, "{line} {lines:?}");
        }
    }
}

#[test]
fn text_of_users_is_one_word_of_a_command() {
    let forge = Forge::new("$(touch x); 'y'");
    for path in ["/namespaces/acme/app", "/packages/@acme/lib", "/packages?project=104"] {
        for line in lines(&forge.get(path, Some("developer-token")).text) {
            let words = line.replace(r"'\''", "");
            let outside: String = words.split('\'').step_by(2).collect();
            assert!(!outside.contains("$(") && !outside.contains(';'), "{path}: {line}");
        }
    }
}

#[test]
fn dependencies_of_the_packages_own_scope_are_links() {
    let page = Forge::new("@acme/left").get("/packages/@acme/lib", None).text;
    assert_eq!(page.matches("<a href=\"/packages/@acme/left\">").count(), 2, "{page}");
    let page = Forge::new("left-pad").get("/packages/@acme/lib", None).text;
    assert!(page.contains("<bdi>left-pad</bdi>") && !page.contains("href=\"/packages/left-pad\""), "{page}");
}
