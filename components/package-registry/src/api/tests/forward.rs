//! Redirects to another registry.

mod local_scopes;

use super::*;

const ELSEWHERE: &str = "https://registry.example";

fn forge() -> Forge {
    forwarding(Forge::new())
}

fn forwarding(mut forge: Forge) -> Forge {
    forge.variables.push(("registry_forward_url", "https://registry.example/"));
    forge
}

/// Everything that clients read of `lib` or of `@far/lib`, and its path in the other registry.
const READS: [(&str, &str); 14] = [
    ("lib", "lib"),
    ("@far%2flib", "@far/lib"),
    ("@far/lib", "@far/lib"),
    ("lib/latest", "lib/latest"),
    ("@far%2flib/1.0.0", "@far/lib/1.0.0"),
    ("lib/1.0.0+a%20b", "lib/1.0.0%2Ba%20b"),
    ("lib/-/lib-1.0.0.tgz", "lib/-/lib-1.0.0.tgz"),
    ("@far/lib/-/lib-1.0.0.tgz", "@far/lib/-/lib-1.0.0.tgz"),
    ("@far%2Flib/-/@far%2flib-1.0.0.tgz", "@far/lib/-/lib-1.0.0.tgz"),
    ("-/package/lib/dist-tags", "-/package/lib/dist-tags"),
    ("-/package/@far%2flib/dist-tags", "-/package/@far%2Flib/dist-tags"),
    ("-/npm/v1/attestations/lib@1.0.0", "-/npm/v1/attestations/lib@1.0.0"),
    ("-/npm/v1/attestations/@far%2flib@1.0.0", "-/npm/v1/attestations/@far%2Flib@1.0.0"),
    ("@far%2flib?write=true", "@far/lib"),
];

#[test]
fn everything_of_a_name_goes_where_the_name_goes() {
    let forge = forge();
    for prefix in ["/projects/7", "/groups/acme/-", "", "/projects/404"] {
        for user in ["", "developer"] {
            for (path, expected) in READS {
                let answer = forge.send(request(Method::GET, &format!("{prefix}/packages/npm/{path}")).by(user));
                let location = format!("{ELSEWHERE}/{expected}");
                assert_eq!((answer.status, answer.header("location")), (302, location.as_str()), "{prefix} {path}");
            }
        }
    }
}

/// The answer is the project's access, even before the package exists, because npm asks before it publishes.
#[test]
fn access_and_owners_go_where_the_name_goes() {
    let forge = forge();
    for (resource, of_project) in [("visibility", 200), ("access", 200), ("owners", 302)] {
        for (prefix, status) in [("", 302), ("/groups/acme/-", 302), ("/projects/7", of_project)] {
            for (name, elsewhere) in [("lib", "lib"), ("@far%2flib", "@far%2Flib")] {
                let answer = forge.get(&format!("{prefix}/packages/npm/-/package/{name}/{resource}"));
                let location = format!("{ELSEWHERE}/-/package/{elsewhere}/{resource}");
                let expected = (status, if status == 302 { location.as_str() } else { "" });
                assert_eq!((answer.status, answer.header("location")), expected, "{prefix} {name} {resource}");
            }
            let local = forge.get(&format!("{prefix}/packages/npm/-/package/@acme%2flib/{resource}"));
            assert_eq!(local.header("location"), "", "{prefix} {resource}");
        }
    }
}

/// A variable's value may come from a file.
#[test]
fn the_address_of_the_other_registry_is_trimmed_or_refused() {
    let answers = |address: &'static str| {
        let mut forge = Forge::new();
        forge.variables.push(("registry_forward_url", address));
        let metadata = forge.get("/packages/npm/lib");
        let path = "/packages/npm/-/npm/v1/security/advisories/bulk";
        let audit = forge.send(request(Method::POST, path).body("{\"lib\":[]}"));
        [metadata, audit].map(|answer| (answer.status, answer.header("location").to_owned()))
    };
    for address in ["https://registry.example/\n", " \thttps://registry.example\r\n"] {
        let [metadata, audit] = answers(address);
        assert_eq!(metadata, (302, format!("{ELSEWHERE}/lib")), "{address:?}");
        assert_eq!(audit, (307, format!("{ELSEWHERE}/-/npm/v1/security/advisories/bulk")), "{address:?}");
    }
    for address in ["registry.example:80", "http://", "https://h/?x=1", "https://h/#x", "javascript:x", "http://a\r\nb"]
    {
        assert_eq!(answers(address), [(500, String::new()), (500, String::new())], "{address:?}");
    }
    assert_eq!(answers("\n"), [(404, String::new()), (404, String::new())]);
}

#[test]
fn nothing_is_forwarded_of_a_name_that_is_here_or_without_the_variable() {
    let forge = forge();
    forge.publish(PRIVATE, "lib", "1.0.0");
    for path in ["lib", "lib/2.0.0", "lib/-/lib-2.0.0.tgz", "-/package/lib/dist-tags"] {
        for (user, expected) in [("developer", [200, 404]), ("", [401, 404]), ("outsider", [404, 404])] {
            let status = forge.send(request(Method::GET, &format!("/projects/9/packages/npm/{path}")).by(user)).status;
            assert!(expected.contains(&status), "{path} {user}: {status}");
        }
    }
    let here = Forge::new();
    for (path, _) in READS {
        assert_eq!(here.get(&format!("/projects/7/packages/npm/{path}")).status, 404, "{path}");
    }
}

#[test]
fn writes_stay() {
    let forge = forge();
    let tag = "/projects/7/packages/npm/-/package/lib/dist-tags/next";
    assert_eq!(forge.send(request(Method::PUT, tag).body("\"1.0.0\"")).status, 404);
    assert_eq!(forge.send(request(Method::DELETE, tag).by("maintainer")).status, 404);
    forge.publish(PUBLIC, "lib", "1.0.0");
}

#[test]
fn a_scope_of_a_local_top_level_group_never_leaves() {
    let mut forge = forge();
    forge.group(300, "before", Vec::new());
    forge.group(300, "after", Vec::new());
    for name in ["@acme%2fmissing", "@ACME/missing", "@other/x", "@before/x", "@after/x"] {
        for prefix in ["/projects/7", "/groups/acme/-", "", "/projects/404"] {
            let answer = forge.get(&format!("{prefix}/packages/npm/{name}"));
            assert_eq!((answer.status, answer.header("location")), (404, ""), "{prefix} {name}");
            for path in
                [format!("{name}/latest"), format!("{name}/-/x-1.0.0.tgz"), format!("-/package/{name}/dist-tags")]
            {
                assert_eq!(forge.get(&format!("{prefix}/packages/npm/{path}")).status, 404, "{prefix} {path}");
            }
        }
    }
    // A subgroup, an unknown name, and the beginning of a group's path are no top-level namespaces.
    for name in ["@sub/x", "@nobody/x", "@acm/x", "acme"] {
        assert_eq!(forge.get(&format!("/packages/npm/{name}")).status, 302, "{name}");
    }
    forge.variables.push(("registry_forward_deny", "@secret-*/*, internal-* ,Exact"));
    for (name, status) in [
        ("@secret-x/lib", 404),
        ("@SECRET-x%2flib", 404),
        ("internal-tool", 404),
        ("exact", 404),
        ("exactly", 302),
        ("@x/internal-tool", 302),
    ] {
        assert_eq!(forge.get(&format!("/packages/npm/{name}")).status, status, "{name}");
        assert_eq!(forge.get(&format!("/packages/npm/{name}/latest")).status, status, "{name}");
    }
}

#[test]
fn paths_that_could_lead_elsewhere_do_not_leave() {
    let forge = forge();
    for path in [
        "lib/..",
        "lib/%2e%2e",
        "lib/.",
        "%2e%2e",
        "..%2f..%2fx",
        "a%5cb",
        "%2e%2e/x",
        "%2e%2e/-/x-1.0.0.tgz",
        "-/package/..%2fx/dist-tags",
        "lib%2flatest",
        "lib%2f-%2flib-1.0.0.tgz",
        "@far%2flib%2flatest",
        "@far/lib%2flatest",
        "@far",
        "lib%252flatest",
        "lib%3fx",
        "lib%23x/1.0.0",
        "lib%2flatest/1.0.0",
        "lib%401.0.0",
        "lib/%2e%2e%2fother",
        "lib/..%2f..%2f@acme%2fx",
        "lib/a%2f..%2f..%2fother",
        "lib/%252e%252e%252fother",
        "lib/..%5cother",
        "lib/-/..%2f..%2fother%2fx.tgz",
        "-/package/lib%2flatest/dist-tags",
        "-/npm/v1/attestations/lib%2flatest@1.0.0",
        "-/npm/v1/attestations/lib@..%2fother",
        "-/package/lib%2flatest/visibility",
        "-/package/lib%2flatest/access",
        "-/package/lib%2flatest/owners",
    ] {
        let answer = forge.get(&format!("/packages/npm/{path}"));
        assert!(answer.header("location").is_empty() && answer.status >= 400, "{path}: {}", answer.status);
    }
    for (path, location) in
        [("lib/a%3fb%23c", "lib/a%3Fb%23c"), ("lib/feat%2fx", "lib/feat%2Fx"), ("JSONStream", "JSONStream")]
    {
        let answer = forge.get(&format!("/packages/npm/{path}"));
        assert_eq!(answer.header("location"), format!("{ELSEWHERE}/{location}"));
    }
}

#[test]
fn audits_go_to_the_other_registry_with_their_bodies() {
    let forge = forge();
    for report in ["advisories/bulk", "audits/quick", "audits"] {
        let path = format!("/groups/acme/-/packages/npm/-/npm/v1/security/{report}");
        let answer = forge.send(request(Method::POST, &path).body("{\"lib\":[\"1.0.0\"],\"@far/lib\":[]}"));
        let elsewhere = format!("{ELSEWHERE}/-/npm/v1/security/{report}");
        assert_eq!((answer.status, answer.header("location")), (307, elsewhere.as_str()));
    }
}

/// The body of an audit has the names of all packages of a program.
#[test]
fn an_audit_with_a_name_that_may_not_leave_stays() {
    let mut forge = forge();
    forge.variables.push(("registry_forward_deny", "secret-*"));
    let bodies = [
        r#"{"lib":["1.0.0"],"secret-plan":["1.0.0"]}"#.as_bytes().to_vec(),
        br#"{"@ACME/lib":["1.0.0"]}"#.to_vec(),
        br#"{"requires":{"lib":"1"},"dependencies":{"lib":{"version":"1.0.0","requires":{"@acme/\u006cib":"1"}}}}"#
            .to_vec(),
        gzip(br#"{"@acme/lib":["1.0.0"]}"#),
        b"no json".to_vec(),
    ];
    for report in ["advisories/bulk", "audits/quick", "audits"] {
        let path = format!("/packages/npm/-/npm/v1/security/{report}");
        for body in &bodies {
            let mut sent = request(Method::POST, &path).body(body.clone());
            if body.starts_with(&[0x1f, 0x8b]) {
                sent = sent.with("content-encoding", "gzip");
            }
            let answer = forge.send(sent);
            let shown = String::from_utf8_lossy(body);
            assert_eq!((answer.status, answer.header("location")), (404, ""), "{report} {shown}");
            assert!(answer.text().contains("no advisories were looked for"), "{}", answer.text());
        }
        let sent = request(Method::POST, &path).body(gzip(b"{\"lib\":[]}")).with("content-encoding", "gzip");
        assert_eq!(forge.send(sent).status, 307);
        let sent = request(Method::POST, &path).body("{\"lib\":[]}").with("content-encoding", "br");
        assert_eq!(forge.send(sent).status, 404);
    }
}

#[test]
fn names_that_are_denied_are_separated_by_commas_or_any_white_space() {
    let mut forge = forge();
    forge.variables.push(("registry_forward_deny", "a-*\tb-*\nc-*\r\nd-*, e-*\r"));
    for name in ["a-x", "b-x", "c-x", "d-x", "e-x"] {
        assert_eq!(forge.get(&format!("/packages/npm/{name}")).status, 404, "{name}");
    }
    assert_eq!(forge.get("/packages/npm/f-x").status, 302);
}

/// Names are not only in lists: the program has a name, and so has a package that is installed under an alias.
#[test]
fn an_audit_stays_wherever_its_body_has_such_a_name() {
    let mut forge = forge();
    forge.variables.push(("registry_forward_deny", "secret-*"));
    let audit = |body: Value| {
        let path = "/packages/npm/-/npm/v1/security/audits/quick";
        forge.send(request(Method::POST, path).body(body.to_string())).status
    };
    for name in ["@acme/app", "@ACME/app", "secret-plan"] {
        for body in [
            json!({"name": name, "requires": {}, "dependencies": {}}),
            json!({"name": "x", "requires": {"lib": format!("npm:{name}@^1")}}),
            json!({"name": "x", "requires": {"lib": format!("npm:{name}")}}),
            json!({"name": "x", "dependencies": {"lib": {"version": format!("npm:{name}@1.0.0")}}}),
            json!({"name": "x", "install": ["lib@1.0.0", format!("{name}@1.0.0")]}),
            json!({"name": "x", "remove": [name]}),
            json!({"name": "x", "install": [format!("lib@npm:{name}@1.0.0")]}),
            json!({"name": name.replace('/', "%2f").replace('-', "%2D")}),
            json!({"name": "x", "dependencies": {"lib": {"resolved": format!("https://h/npm/{name}/-/x-1.0.0.tgz")}}}),
            json!({"name": "x", "dependencies": {"lib": {"version": format!("https://h/{}/-/x-1.tgz", name.replace('/', "%2F"))}}}),
        ] {
            assert_eq!(audit(body.clone()), 404, "{body}");
        }
    }
    let body =
        json!({"name": "app", "version": "1.0.0", "install": ["lib@1.0.0"], "requires": {"a": "npm:@far/lib@1"}});
    assert_eq!(audit(body), 307);
}

/// All other requests with these names are not forwarded.
#[test]
fn an_audit_stays_if_a_name_is_held_at_its_level() {
    let forge = forwarding(Forge::shared());
    forge.publish(PUBLIC, "local", "1.0.0");
    forge.publish(PRIVATE, "@far/core", "1.0.0");
    let audit = |prefix: &str, user: &str, name: &str| {
        let path = format!("{prefix}/packages/npm/-/npm/v1/security/advisories/bulk");
        forge.send(request(Method::POST, &path).by(user).body(json!({"lib": ["1.0.0"], name: ["1.0.0"]}).to_string()))
    };
    for (prefix, user, name, status) in [
        ("/projects/7", "developer", "local", 404),
        ("/projects/acme%2Fweb", "", "local", 404),
        ("/groups/acme/-", "developer", "local", 404),
        ("/groups/acme/-", "", "local", 404),
        ("/groups/acme%2Fsub/-", "developer", "local", 307),
        ("/projects/8", "developer", "local", 307),
        ("/groups/other/-", "developer", "local", 307),
        ("", "developer", "local", 307),
        ("/projects/9", "developer", "@far/core", 404),
        ("/groups/acme/-", "developer", "@far/core", 404),
        ("/groups/acme%2Fsub/-", "developer", "@far/core", 404),
        ("/projects/7", "developer", "@far/core", 307),
        ("/projects/7", "developer", "locals", 307),
    ] {
        let metadata = forge.send(request(Method::GET, &format!("{prefix}/packages/npm/{name}")).by(user));
        assert_eq!(metadata.status == 302, status == 307, "{prefix} {user} {name}: {}", metadata.status);
        assert_eq!(audit(prefix, user, name).status, status, "{prefix} {user} {name}");
    }
    for prefix in ["/groups/acme%2Fsub/-", "/projects/9", "/projects/404"] {
        let answer = audit(prefix, "outsider", "lib");
        assert!(answer.status == 404 && answer.text().contains("Not Found"), "{prefix}: {}", answer.text());
    }
}

/// A broken-off publication leaves a name without a package.
#[test]
fn an_audit_looks_up_a_bounded_number_of_names_without_packages() {
    let forge = forwarding(Forge::shared());
    let projects: Vec<u64> = [PUBLIC, INTERNAL].to_vec();
    let claimed = |count: usize| (0..count).map(|number| format!("@far/n{number}"));
    let set = |key: &str, value: Value| {
        kit::store::Store::set(&forge.store, &format!("package-registry/v1/{key}"), value.to_string().as_bytes())
            .unwrap();
    };
    set("projects", json!({ "projects": projects }));
    let audit = |prefix: &str, count: usize| {
        let path = format!("{prefix}/packages/npm/-/npm/v1/security/advisories/bulk");
        let body: Value = claimed(count).map(|name| (name, json!(["1.0.0"]))).collect::<serde_json::Map<_, _>>().into();
        let counting = kit::testing::CountingStore::over(forge.store.clone());
        let answer =
            TestResponse::of(forge.env_over(counting.clone()), request(Method::POST, &path).body(body.to_string()));
        assert!(counting.operations() < 4200, "{prefix} {count}: {}", counting.operations());
        answer.status
    };
    for (names, of_project, of_group) in [(2_000, 307, 307), (4_000, 307, 404), (4_001, 404, 404)] {
        for project in &projects {
            set(&format!("project/{project}"), json!({"packages": claimed(names).collect::<Vec<_>>()}));
        }
        assert_eq!((audit("/projects/7", names), audit("/groups/acme/-", names)), (of_project, of_group), "{names}");
    }
}

/// If there are fewer names than projects, the names are looked up.
#[test]
fn an_audit_of_one_name_in_a_group_of_several_projects() {
    let forge = forge();
    for (project, name) in [(PUBLIC, "one"), (INTERNAL, "two"), (PRIVATE, "three"), (17, "elsewhere")] {
        forge.publish(project, name, "1.0.0");
    }
    for (name, status) in [("one", 404), ("two", 404), ("three", 404), ("elsewhere", 307), ("four", 307)] {
        let path = "/groups/acme/-/packages/npm/-/npm/v1/security/advisories/bulk";
        let answer = forge.send(request(Method::POST, path).body(json!({name: []}).to_string()));
        assert_eq!(answer.status, status, "{name}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Others could publish the name's next version in the other registry.
#[test]
fn a_name_whose_versions_were_all_unpublished_stays() {
    let forge = forwarding(Forge::shared());
    forge.publish(PUBLIC, "@far/lib", "1.0.0");
    let path = "/projects/7/packages/npm/@far%2flib";
    let revision = forge.get(&format!("{path}?write=true")).json()["_rev"].as_str().unwrap().to_owned();
    assert_eq!(forge.send(request(Method::DELETE, &format!("{path}/-rev/{revision}")).by("maintainer")).status, 200);
    for (prefix, expected) in
        [("/projects/7", ""), ("/groups/acme/-", ""), ("/projects/8", "https://registry.example/@far/lib")]
    {
        let answer = forge.get(&format!("{prefix}/packages/npm/@far%2flib"));
        assert_eq!(answer.header("location"), expected, "{prefix}: {}", answer.status);
    }
}
