//! Dependencies in npm's normal form: an object from names to version specs.

use serde_json::Value;
use std::collections::BTreeMap;

/// Git hosts whose repositories have a short form, and the form's prefix.
const HOSTS: &[(&str, &str)] = &[
    ("github.com", "github:"),
    ("gitlab.com", "gitlab:"),
    ("bitbucket.org", "bitbucket:"),
    ("gist.github.com", "gist:"),
    ("git.sr.ht", "sourcehut:"),
];

/// The dependencies, by name. Old forms are a list of texts, or one text with white space or commas as separators.
pub fn map(value: &Value) -> BTreeMap<String, String> {
    match value {
        Value::Object(map) => {
            let texts = map.iter().filter_map(|(name, spec)| Some((name.clone(), spec.as_str()?)));
            texts.map(|(name, spec)| (name, spec.trim().to_owned())).collect()
        }
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(named).collect(),
        Value::String(text) => {
            let parts = text.split([' ', '\t', '\n', '\r', ',']).filter(|part| !part.is_empty());
            parts.map(named).collect()
        }
        _ => BTreeMap::new(),
    }
}

/// `name@range`, `name range`, `name>=range`.
fn named(text: &str) -> (String, String) {
    let text = text.trim();
    let end = text.find(['@', '<', '>', '=', ' ', '\t']).unwrap_or(text.len());
    let (name, spec) = text.split_at(end);
    (name.to_owned(), spec.strip_prefix('@').unwrap_or(spec).trim().to_owned())
}

/// A text that is equal for specs of one meaning. For a git repository it has host, path and commit, because clients
/// rewrite one form of its URL as another.
pub fn meaning(spec: &str) -> String {
    repository(spec).unwrap_or_else(|| spec.to_owned())
}

fn repository(spec: &str) -> Option<String> {
    let (url, commit) = spec.split_once('#').unwrap_or((spec, ""));
    // In a URL, these characters end the host or are dropped. Here, the text after them would be taken for the host.
    if url.contains(|char: char| matches!(char, '?' | '\\') || char.is_control()) {
        return None;
    }
    let short = HOSTS.iter().find_map(|(host, prefix)| Some((*host, url.strip_prefix(prefix)?)));
    let (host, path) = match short {
        Some((host, path)) => (host, path.split_once('@').map_or(path, |(_, path)| path)),
        None if is_github_path(url) => ("github.com", url),
        None => of_url(url)?,
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let depth = path.split('/').count();
    let is_repository = match host {
        "gist.github.com" => depth <= 2,
        "gitlab.com" => depth >= 2 && !path.contains("/-/"),
        _ => depth == 2,
    };
    (is_repository && path.split('/').all(|segment| !segment.is_empty())).then(|| format!("{host}/{path}#{commit}"))
}

/// Whether a text is `user/repository`. npm also takes `~/x` for one when it writes a document.
fn is_github_path(text: &str) -> bool {
    text.split('/').count() == 2
        && !text.starts_with(['.', '/'])
        && !text.ends_with('/')
        && !text.contains([':', '@', ' ', '\t'])
}

/// The known host and the path of a URL, or of `git@host:path`.
fn of_url(url: &str) -> Option<(&'static str, &str)> {
    const SCHEMES: &[&str] = &["git", "git+https", "git+http", "git+ssh", "https", "http", "ssh"];
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => SCHEMES.contains(&scheme).then_some(rest)?,
        None => url.starts_with("git@").then_some(url)?,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let after_user = authority.rfind('@').and_then(|at| rest.get(at + 1..)).unwrap_or(rest);
    // After a colon, URLs of ssh and git may have a path; web URLs have a port.
    let is_web = url.starts_with("http") || url.starts_with("git+http");
    let (host, path) = if is_web { after_user.split_once('/')? } else { after_user.split_once(['/', ':'])? };
    // Digits after the colon are a port in URLs of ssh and git, too, but a folder in `git@host:path`.
    let port = after_user.split('/').next().and_then(|authority| authority.split_once(':'));
    if rest != url && port.is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let host = host.strip_prefix("www.").unwrap_or(host);
    HOSTS.iter().map(|(known, _)| *known).find(|known| *known == host).map(|known| (known, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_of_a_repository_are_equal() {
        for spec in [
            "user/repo",
            "github:user/repo",
            "github:user/repo.git",
            "git@github.com:user/repo.git",
            "git@github.com:user/repo",
            "git+ssh://git@github.com/user/repo.git",
            "ssh://git@github.com:user/repo",
            "https://github.com/user/repo",
            "git+https://user:pass@www.github.com/user/repo.git",
            "git://github.com/user/repo.git",
        ] {
            assert_eq!(meaning(spec), "github.com/user/repo#", "{spec}");
            assert_eq!(meaning(&format!("{spec}#v1")), "github.com/user/repo#v1", "{spec}");
        }
        assert_eq!(meaning("gitlab:a/b/c"), meaning("git+https://gitlab.com/a/b/c.git"));
        assert_eq!(meaning("~/x"), meaning("github:~/x"));
        assert_eq!(meaning("git@github.com:22/r"), meaning("github:22/r"));
        assert_eq!(meaning("gist:abc"), meaning("git+https://gist.github.com/abc.git"));
    }

    #[test]
    fn other_specs_stay() {
        for spec in [
            "^1.0.0",
            "",
            "*",
            "npm:other@^1",
            "file:../x",
            "./a",
            "https://example.org/x.tgz",
            "https://github.com/user/repo/archive/v1.tar.gz",
            "git+https://git.example/user/repo.git",
            "workspace:^",
            "user/repo/x",
            "@scope/name",
            "https://gitlab.com/a/b/-/archive/x.tar.gz",
            "https://evil.example?@github.com/a/b",
            "https://evil.example\\@github.com/a/b",
            "git+ssh://evil.example?@github.com/a/b",
            "https://github.com:80/b",
            // A port, and not the user of `github:22/r`.
            "ssh://git@github.com:22/r",
            "git+ssh://git@github.com:22/r.git",
            "git+ssh://github.com:22/u/r",
            "git://github.com:9418/r",
            "https://github.com@evil.example/a/b",
            "github:a/b?x",
            "https://git\thub.com/a/b",
        ] {
            assert_eq!(meaning(spec), spec);
        }
    }

    #[test]
    fn old_forms_are_read() {
        let expected = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())]);
        assert_eq!(map(&json!(["a@1", "b"])), expected);
        assert_eq!(map(&json!("a@1, b")), expected);
        assert_eq!(map(&json!({"a": "1", "b": "", "c": 7})), expected);
        assert_eq!(map(&json!(["a >=1"])), BTreeMap::from([("a".to_owned(), ">=1".to_owned())]));
        assert_eq!(map(&json!({"a": " 1 "})), BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        assert!(map(&json!(true)).is_empty());
    }
}
