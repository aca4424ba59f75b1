use std::time::Duration;

use super::*;

const HEAD: &str = r#"
    spin_manifest_version = 2
    application = { name = "app", version = "0.1.0", description = "x", authors = ["a"] }
"#;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    parse_whole(&format!("{HEAD}{text}"))
}

fn parse_whole(text: &str) -> Result<Manifest, ManifestError> {
    let environment = |name: &str| match name {
        "SPIN_VARIABLE_TOKEN" => Some("from environment".to_owned()),
        _ => None,
    };
    let options = LoadOptions {
        environment: &environment,
        external_url: Some("https://app.test"),
        maintenance_every: None,
        maintenance_tokens: &MaintenanceTokens::default(),
    };
    Manifest::parse(Path::new("app/spin.toml"), text, &options)
}

#[track_caller]
fn assert_refused(text: &str, words: &[&str]) {
    let error = match parse(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("app/spin.toml"), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn a_full_manifest_is_read() {
    let manifest = parse(
        r#"
        [variables]
        token = { default = "", secret = true, description = "x" }
        host = { default = "app" }
        external_url = { default = "" }

        [[trigger.http]]
        route = "/api/..."
        component = "area"

        [[trigger.http]]
        id = "internal"
        route = { private = true }
        component = "area"

        [component.area]
        description = "x"
        source = "dist/area.wasm"
        key_value_stores = ["default"]
        allowed_outbound_hosts = []
        [component.area.variables]
        token = "{{ token }}"
        url = "https://{{host}}/{{ host }}"
        external_url = "{{ external_url }}"
        [component.area.build]
        command = "make components"
        watch = ["src"]
        [component.area.tool.hexad]
        read = ["shared/"]
        write = ["area/"]
        volatile = ["area/rate/"]
        memory = "64MiB"
        request_timeout = "1m 30s"
        max_body = "2 GiB"
        instances = 3
        max_requests_per_instance = 4096
        [component.area.tool.other]
        anything = true
        "#,
    )
    .unwrap();
    let [area] = &*manifest.components else { panic!("{} components", manifest.components.len()) };
    assert_eq!(area.source, Path::new("app/dist/area.wasm"));
    let value = |name: &str| area.variables.get(name).map(String::as_str);
    assert_eq!(value("token"), Some("from environment"));
    assert_eq!(value("url"), Some("https://app/app"));
    assert_eq!(value("external_url"), Some("https://app.test"));
    assert!(area.grants.may_read("shared/x") && !area.grants.may_write("shared/x"));
    assert!(area.grants.may_write("area/x") && !area.grants.may_read("other/x"));
    assert!(area.grants.is_volatile("area/rate/x") && !area.grants.is_volatile("area/x"));
    let expected = Limits {
        memory: 64 << 20,
        instances: 3,
        instances_per_client: 2,
        max_requests_per_instance: Some(4096),
        request: RequestLimits {
            request_timeout: Duration::from_secs(90),
            max_body: 2 << 30,
            ..RequestLimits::default()
        },
        ..Limits::default()
    };
    assert_eq!(area.limits, expected);
    let route = Route { pattern: "/api/...".to_owned(), component: "area".to_owned() };
    assert_eq!(manifest.routes, [route]);
}

#[test]
fn a_route_has_limits_of_its_own() {
    let component = r#"
        trigger.http = [{ route = "/api/...", component = "a" }]
        [component.a]
        source = "a.wasm"
        [component.a.tool.hexad]
        cpu_time = "2s"
        max_body = "1MiB"
        [component.a.tool.hexad.routes]
        "/api/import/:kind" = { cpu_time = "6h" }
    "#;
    let manifest = parse(component).unwrap();
    let limits = |path| manifest.components[0].request_limits(path);
    assert_eq!(limits("/api/import/issues").cpu_time, Duration::from_secs(6 * 3600));
    assert_eq!(limits("/api/import/issues").max_body, 1 << 20);
    assert_eq!(limits("/api/issues").cpu_time, Duration::from_secs(2));
}

#[test]
fn a_limit_of_a_route_that_is_not_served_is_refused() {
    let with = |routes: &str| {
        format!(
            "trigger.http = [{{ route = \"/api/...\", component = \"a\" }}, {{ route = \"/b\", component = \"b\" }}]\n\
             component.b.source = \"b\"\n[component.a]\nsource = \"a\"\n[component.a.tool.hexad.routes]\n{routes}"
        )
    };
    assert_refused(&with("\"/b\" = { cpu_time = \"1s\" }"), &["[component.a.tool.hexad.routes]", "\"/b\""]);
    assert_refused(&with("\"/c/...\" = { cpu_time = \"1s\" }"), &["\"/c/...\""]);
    assert_refused(&with("\"api\" = { cpu_time = \"1s\" }"), &["routes", "\"api\""]);
    assert_refused(&with("\"/api/x\" = { cpu_time = \"soon\" }"), &["routes.\"/api/x\".cpu_time", "soon"]);
    assert_refused(&with("\"/api/x\" = { memory = \"1MiB\" }"), &["memory"]);
}

#[test]
fn without_grants_every_key_is_granted() {
    let manifest = parse("trigger.http = []\ncomponent.a.source = \"a.wasm\"").unwrap();
    assert!(manifest.components[0].grants.may_write("anything"));
}

#[test]
fn variables_need_a_value() {
    let required = "trigger = {}\nvariables.key = { required = true }";
    assert_refused(required, &["[variables] key", "SPIN_VARIABLE_KEY"]);
    assert_refused("trigger = {}\nvariables.key = {}", &["key", "default", "required"]);
    assert_refused("trigger = {}\nvariables.Key = { default = \"\" }", &["Key", "rename"]);
    let unknown = "trigger = {}\ncomponent.a = { source = \"a\", variables = { v = \"{{ w }}\" } }";
    assert_refused(unknown, &["[component.a]", "variables.v", "`w`"]);
    let open = "trigger = {}\ncomponent.a = { source = \"a\", variables = { v = \"{{ w\" } }";
    assert_refused(open, &["variables.v", "close it"]);
}

#[test]
fn capabilities_that_the_host_does_not_supply_are_refused() {
    for (key, value) in [
        ("sqlite_databases", "[\"default\"]"),
        ("ai_models", "[\"llama2-chat\"]"),
        ("files", "[\"assets/*\"]"),
        ("environment", "{ A = \"b\" }"),
        ("allowed_http_hosts", "[\"https://example.com\"]"),
        ("dependencies", "{ \"a:b/c\" = \"1.0.0\" }"),
    ] {
        let text = format!("trigger = {{}}\n[component.a]\nsource = \"a\"\n{key} = {value}");
        assert_refused(&text, &["[component.a]", key]);
        let empty = if value.starts_with('[') { "[]" } else { "{}" };
        let text = format!("trigger = {{}}\n[component.a]\nsource = \"a\"\n{key} = {empty}");
        parse(&text).unwrap();
    }
    assert_refused("trigger.redis = []", &["redis"]);
    let source = "trigger = {}\ncomponent.a.source = { url = \"u\", digest = \"d\" }";
    assert_refused(source, &["[component.a]", "source", "path"]);
}

#[test]
fn errors_name_the_mistake() {
    assert_refused("trigger = {}\ncomponent.a = { source = \"a\", key_value_store = [] }", &["key_value_store"]);
    let of_the_host = "trigger = {}\ncomponent.a = { source = \"a\", key_value_stores = [\".hexad\"] }";
    assert_refused(of_the_host, &["\".hexad\"", "component.a"]);
    for (limit, word) in [
        ("memory = \"lots\"", "lots"),
        ("memory = \"2GiB\"", "1.0 GiB"),
        ("request_timeout = \"soon\"", "soon"),
        ("request_timeout = \"-1s\"", "-1s"),
        ("max_body = \"0\"", "max_body"),
        ("instances = 0", "1 to 1000"),
        ("instances = 1001", "1 to 1000"),
        ("max_requests_per_instance = 0", "1 to 1000000"),
        ("wirte = []", "wirte"),
    ] {
        let text = format!("trigger = {{}}\ncomponent.a.source = \"a\"\n[component.a.tool.hexad]\n{limit}");
        assert_refused(&text, &[word]);
    }
    assert_refused("[[trigger.http]]\nroute = \"/x\"\ncomponent = \"ghost\"", &["ghost", "/x"]);
    assert_refused(
        "component.a.source = \"a\"\n[[trigger.http]]\nroute = { private = false }\ncomponent = \"a\"",
        &["private"],
    );
}

#[test]
fn credentials_and_maintenance_are_read() {
    let manifest = parse(
        r#"
        trigger.http = [{ route = "/tasks/...", component = "a" }]
        variables.token = { default = "" }
        [component.a]
        source = "a"
        [component.a.tool.hexad]
        credentials = { headers = ["X-Key"], parameters = ["key"] }
        maintenance = { path = "/tasks/a", every = "6h", token = "token" }
        [component.b]
        source = "b"
        "#,
    )
    .unwrap();
    let [a, b] = &*manifest.components else { panic!("{} components", manifest.components.len()) };
    assert_eq!(a.credentials.headers, ["x-key"]);
    assert_eq!(a.credentials.parameters, ["key"]);
    let maintenance = a.maintenance.as_ref().unwrap();
    assert_eq!((maintenance.path.as_str(), maintenance.every), ("/tasks/a", Duration::from_secs(6 * 60 * 60)));
    assert_eq!(maintenance.token.as_deref(), Some("from environment"));
    assert_eq!(b.credentials, Credentials::default());
    assert!(b.maintenance.is_none());
}

#[test]
fn errors_name_mistakes_in_credentials_and_maintenance() {
    for (tool, word) in [
        ("credentials = { headers = [\"a b\"] }", "\"a b\" is not the name of a header"),
        ("credentials = { cookies = [] }", "cookies"),
        ("maintenance = { path = \"tasks\", every = \"1h\" }", "maintenance.path"),
        ("maintenance = { path = \"/tasks\", every = \"0s\" }", "maintenance.every"),
        ("maintenance = { path = \"/tasks\" }", "every"),
        ("maintenance = { path = \"/tasks\", every = \"1h\", token = \"ghost\" }", "\"ghost\""),
    ] {
        let text = format!("trigger = {{}}\ncomponent.a.source = \"a\"\n[component.a.tool.hexad]\n{tool}");
        assert_refused(&text, &[word]);
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let text = r#"
        [variables]
        missing = { required = true }
        Bad-Name = { default = "" }

        [[trigger.http]]
        route = "/a/..."
        component = "one"

        [[trigger.http]]
        route = "/b/..."
        component = "none"

        [component.one]
        source = "one.wasm"
        allowed_outbound_hosts = ["{{ unknown }}"]
        [component.one.variables]
        a = "{{ unheard }}"
        uses = "{{ missing }}"
        [component.one.tool.hexad]
        memory = "1 banana"

        [component.two]
        source = "two.wasm"
        [component.two.tool.hexad]
        instances = 0
        request_timeout = "soon"
        max_body = "much"
        outbound.timeout = "9000000h"
        [component.two.tool.hexad.routes."/b/..."]
        cpu_time = "0s"
    "#;
    let Err(ManifestError::Invalid { reasons, .. }) = parse(text) else { panic!("accepted") };
    let expected =
        ["Bad-Name", "SPIN_VARIABLE_MISSING", "unheard", "unknown", "banana", "request_timeout", "component.none"];
    let limits = ["instances", "much", "more than a year", "routes.\"/b/...\".cpu_time"];
    let expected = [&expected[..], &limits].concat();
    for word in &expected {
        assert_eq!(reasons.iter().filter(|reason| reason.contains(*word)).count(), 1, "{word}: {reasons:#?}");
    }
    assert_eq!(reasons.len(), expected.len(), "{reasons:#?}");
}

#[test]
fn requests_that_may_change_something_are_merged_only_by_the_name_of_their_method() {
    let manifest = |outbound: &str| {
        format!(
            "trigger.http = [{{ route = \"/a\", component = \"a\" }}]\n[component.a]\nsource = \"a.wasm\"\n\
             [component.a.tool.hexad.outbound]\n{outbound}"
        )
    };
    let methods = |outbound: &str| parse(&manifest(outbound)).unwrap().components[0].limits.outbound.coalesce.clone();
    assert_eq!(methods("coalesce = true"), ["GET", "HEAD"]);
    assert_eq!(methods("coalesce = false"), [""; 0]);
    assert_eq!(methods("coalesce = true\ncoalesce_methods = [\"POST\"]"), ["GET", "HEAD", "POST"]);
    assert_eq!(methods("coalesce_methods = [\"PUT\"]"), ["PUT"]);
    assert_refused(&manifest("coalesce_methods = [\"PSOT\"]"), &["coalesce_methods has \"PSOT\"", "POST"]);
    assert_refused(&manifest("coalesce = 1"), &["coalesce"]);
}

#[test]
fn every_part_that_fits_to_no_other_is_told() {
    let text = r#"
        [[trigger.http]]
        route = "/one/..."
        component = "one"

        [component.one]
        source = "one.wasm"
        allowed_outbound_hosts = ["http://nobody.spin.internal"]
        [component.one.tool.hexad.routes."/elsewhere/..."]
        request_timeout = "1s"
    "#;
    let Err(ManifestError::Invalid { reasons, .. }) = parse(text) else { panic!("accepted") };
    assert_eq!(reasons.len(), 2, "{reasons:#?}");
}

/// Each manifest has one problem only.
#[test]
fn wrong_missing_and_unknown_keys_are_named_with_their_place() {
    let area = "trigger = {}\n[component.a]\nsource = \"a\"\n";
    for (text, expected) in [
        (
            "trigger = {}\n[[component.a]]\nsource = \"a\"".to_owned(),
            "line 5, component.a: a list of tables is there, and a table belongs there; write it once, as [component.a]",
        ),
        (
            "trigger = {}\n[[variables]]\na = { default = \"\" }".to_owned(),
            "line 5, variables: a list of tables is there, and a table belongs there; write it once, as [variables]",
        ),
        ("trigger = {}\ncomponent = []".to_owned(), "line 5, component: a list is there, and a table belongs there"),
        // serde would read these lists as tables without field names.
        ("trigger = [[]]".to_owned(), "line 4, trigger: a list is there, and a table belongs there"),
        (
            format!("{area}tool.hexad.maintenance = [\"/a\", \"1h\"]"),
            "line 7, component.a.tool.hexad.maintenance: a list is there, and a table belongs there",
        ),
        (
            format!("{area}[component.a.tool.hexad.routes]\n\"/b\" = []"),
            "line 8, component.a.tool.hexad.routes.\"/b\": a list is there, and a table belongs there",
        ),
        (
            format!("{area}[[component.a.tool]]\nhexad = {{}}"),
            "line 7, component.a.tool: a list of tables is there, and a table belongs there; write it once, as \
             [component.a.tool]",
        ),
        (
            "trigger = {}\nvariables.a = \"x\"".to_owned(),
            "line 5, variables.a: a text in quotes is there, and a table belongs there",
        ),
        (
            "trigger = {}\nvariables.a.required = \"yes\"".to_owned(),
            "line 5, variables.a.required: a text in quotes is there, and `true` or `false` belongs there",
        ),
        (
            "[trigger.http]\nroute = \"/a\"\ncomponent = \"a\"".to_owned(),
            "line 4, trigger.http: a table is there, and a list in square brackets belongs there",
        ),
        (
            "[[trigger.http]]\nroute = [\"/a\"]\ncomponent = \"a\"".to_owned(),
            "line 5, trigger.http[0].route: a list is there, and a text in quotes or a table belongs there",
        ),
        (
            "[[trigger.http]]\nroute = { private = 1 }\ncomponent = \"a\"".to_owned(),
            "line 5, trigger.http[0].route.private: a whole number is there, and `true` or `false` belongs there",
        ),
        (
            "[[trigger.http]]\nroute = {}\ncomponent = \"a\"".to_owned(),
            "line 5, trigger.http[0].route: `private` is missing; add it",
        ),
        (
            "[[trigger.http]]\nroute = \"/a\"\n[[trigger.http]]\nroute = \"/b\"\ncomponent = 2024-01-01".to_owned(),
            "line 4, trigger.http[0]: `component` is missing; add it",
        ),
        (
            "[[trigger.http]]\nroute = \"/b\"\ncomponent = 2024-01-01".to_owned(),
            "line 6, trigger.http[0].component: a date or a time is there, and a text in quotes or a table belongs there",
        ),
        ("trigger = {}\n[component.a]".to_owned(), "line 5, component.a: `source` is missing; add it"),
        (
            format!("{area}key_value_stores = [\"default\", 1]"),
            "line 7, component.a.key_value_stores[1]: a whole number is there, and a text in quotes belongs there",
        ),
        (
            format!("{area}key_value_stores = \"default\""),
            "line 7, component.a.key_value_stores: a text in quotes is there, and a list in square brackets belongs there",
        ),
        (
            format!("{area}tool.hexad.instances = 1.5"),
            "line 7, component.a.tool.hexad.instances: a number with a fraction is there, and a whole number belongs there",
        ),
        (
            format!("{area}tool.hexad.instances = -1"),
            "line 7, component.a.tool.hexad.instances: -1 is not a number from 0 to 18446744073709551615; correct it",
        ),
        (
            format!("{area}tool.hexad.outbound.shared = true"),
            "line 7, component.a.tool.hexad.outbound: there is no key `shared` here; correct it to one of `requests`, ",
        ),
        ("spin = 1\ntrigger = {}".to_owned(), "line 4: there is no key `spin` here; correct it to one of "),
    ] {
        let Err(ManifestError::Invalid { reasons, .. }) = parse(&text) else { panic!("accepted: {text}") };
        let [reason] = &*reasons else { panic!("{reasons:#?}") };
        assert!(reason.starts_with(expected), "{expected:?}, not {reason:?}");
        assert!(reason.len() == expected.len() || expected.ends_with(", ") || expected.ends_with("of "), "{reason}");
    }
}

#[test]
fn a_misspelt_table_of_the_host_is_refused() {
    let area = "trigger = {}\n[component.note]\nsource = \"a\"\n";
    for name in ["hexd", "hexed", "Hexad", "HEXAD", "hexad_", "heaxd", "\"hexad \""] {
        let text = format!("{area}[component.note.tool.{name}]\nwrite = [\"note/\"]");
        assert_refused(&text, &["line 7, [component.note.tool.", "is not a tool; write [component.note.tool.hexad]"]);
    }
    parse(&format!("{area}[component.note.tool.spin]\nx = 1.5\n[component.note.tool.hexad]\nwrite = []")).unwrap();
    for name in ["hexad", "hexd", "Hexad"] {
        let text = format!("{HEAD}{area}").replace("authors =", &format!("tool.{name}.write = [], authors ="));
        let refusal = parse_whole(&text).err().unwrap().to_string();
        let expected = "there is no [application.tool.hexad]; write [component.<id>.tool.hexad]";
        assert!(refusal.contains(expected), "{refusal}");
    }
    for text in [
        "[[trigger.http]]\nroute = \"/a\"\ncomponent = \"note\"\ntool.hexad = {}",
        "[[trigger.http]]\nroute = { private = true, tool = 1 }\ncomponent = \"note\"",
        "[tool.hexad]\nwrite = []\n[trigger]",
        "[component.note.tools.hexad]\nwrite = []\n[trigger]",
        "[components.note.tool.hexad]\nwrite = []\n[trigger]",
    ] {
        assert_refused(&format!("{text}\n[component.note]\nsource = \"a\""), &["there is no key `"]);
    }
    // A table of a component that the manifest does not have.
    let misplaced = format!("{area}[component.notes.tool.hexad]\nwrite = [\"note/\"]");
    assert_refused(&misplaced, &["component.notes: `source` is missing; add it"]);
}

/// Components that open a store, each with the lines of its table.
fn sharing(components: &[(&str, &str)]) -> String {
    let component = |(id, tool): &(&str, &str)| {
        let tool = if tool.is_empty() { String::new() } else { format!("[component.{id}.tool.hexad]\n{tool}\n") };
        format!("[component.{id}]\nsource = \"a\"\nkey_value_stores = [\"default\"]\n{tool}")
    };
    format!("trigger = {{}}\n{}", components.iter().map(component).collect::<String>())
}

#[test]
fn a_component_without_prefixes_is_refused_beside_one_that_has_them() {
    let say = "component plug: say write = [\"plug/\"], or write = [\"\"] for every key";
    for own in ["", "memory = \"1MiB\""] {
        for other in ["write = [\"area/\"]", "read = []", "write = []", "write = [\"\"]"] {
            assert_refused(&sharing(&[("plug", own), ("area", other)]), &[say, "the store \"default\"", "line 5: "]);
        }
    }
    for (plug, other) in [("", ""), ("write = [\"plug/\"]", "write = [\"area/\"]"), ("write = [\"\"]", "write = []")] {
        parse(&sharing(&[("plug", plug), ("area", other)])).unwrap();
    }
    // A component that opens another store, or none, shares nothing.
    let apart = sharing(&[("area", "write = [\"area/\"]")]);
    parse(&format!("{apart}[component.b]\nsource = \"b\"")).unwrap();
    parse(&format!("{apart}[component.b]\nsource = \"b\"\nkey_value_stores = [\"other\"]")).unwrap();
}

#[test]
fn keys_that_several_components_may_write_are_told() {
    let notes = |components: &[(&str, &str)]| sharing_notes(parse(&sharing(components)).unwrap().components.iter());
    assert_eq!(notes(&[("a", "write = [\"a/\"]"), ("b", "write = [\"b/\"]\nread = [\"a/\"]")]), [""; 0]);
    let shared =
        notes(&[("a", "write = [\"a/\", \"use/\"]"), ("b", "write = [\"use/\"]"), ("c", "write = [\"use/c/\"]")]);
    let expected = [
        "store \"default\": \"use/\" may be written by a, b",
        "store \"default\": \"use/c/\" may be written by a, b, c",
    ];
    assert_eq!(shared, expected);
    for tool in ["", "write = [\"\"]"] {
        let expected = "store \"default\": every key may be written by a, b; `write` in tool.hexad narrows that";
        assert_eq!(notes(&[("a", tool), ("b", tool)]), [expected]);
    }
    assert_eq!(sharing_notes(parse("trigger = {}\ncomponent.a.source = \"a\"").unwrap().components.iter()), [""; 0]);
}

#[test]
fn keys_may_have_their_former_names_and_not_both() {
    const PRESENT: [&str; 5] =
        ["response_cache", "response_cache_headers", "max_requests_per_instance", "coalesce", "coalesce_methods"];
    const FORMER: [&str; 5] = ["memoize", "headers", "reuse", "share", "share_methods"];
    let manifest = |[cache, headers, requests, coalesce, methods]: [&str; 5]| {
        format!(
            "{HEAD}trigger = {{}}\ncomponent.a.source = \"a\"\n[component.a.tool.hexad]\n{cache} = \"1s\"\n\
             {headers} = []\n{requests} = 9\n[component.a.tool.hexad.outbound]\n{coalesce} = true\n{methods} = [\"PUT\"]\n"
        )
    };
    let (former, present) = (manifest(FORMER), manifest(PRESENT));
    let (from_former, from_present) = (parse_whole(&former).unwrap(), parse_whole(&present).unwrap());
    assert_eq!(from_former.components[0].differences(&from_present.components[0]), [""; 0]);
    assert_eq!(from_present.former_names, [""; 0]);
    for (note, (former, present)) in from_former.former_names.iter().zip(FORMER.iter().zip(PRESENT)) {
        assert_eq!(note, &format!("component a: `{former}` is called `{present}` now; rename it"));
    }
    assert_eq!(from_former.former_names.len(), 5);
    // Hosts compare what their manifests say.
    assert_eq!(resolved_digest(&former), resolved_digest(&format!("# A comment.\n{present}")));
    assert_ne!(resolved_digest(&former), resolved_digest(&present.replace("= 9", "= 8")));
    for (name, value) in FORMER[..3].iter().zip(["\"1s\"", "[]", "9"]) {
        let both =
            present.replace("[component.a.tool.hexad]\n", &format!("[component.a.tool.hexad]\n{name} = {value}\n"));
        let error = parse_whole(&both).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("keep one of them"), "{error}");
    }
}

#[test]
fn an_added_manifest_takes_nothing_of_the_applications() {
    let part = |id: &str, route: &str, rest: &str| {
        format!(
            "[[trigger.http]]\nroute = \"{route}\"\ncomponent = \"{id}\"\n[component.{id}]\nsource = \"{id}.wasm\"\n\
             key_value_stores = [\"default\"]\n{rest}\n"
        )
    };
    let own = |write: &str| format!("[component.own.tool.hexad]\nread = []\nwrite = [\"{write}\"]");
    let application = || {
        let [area, pages] = ["area/", "pages/"].map(|write| format!("read = [\"shared/\"]\nwrite = [\"{write}\"]"));
        parse(&format!(
            "variables = {{ token = {{ default = \"\" }} }}\n{}{}{}",
            part("area", "/api/v4/things/:id/...", &format!("[component.area.tool.hexad]\n{area}")),
            part("pages", "/-/...", &format!("[component.pages.tool.hexad]\n{pages}")),
            "[[trigger.http]]\nroute = \"/...\"\ncomponent = \"pages\"\n",
        ))
        .unwrap()
    };
    for (added, words) in [
        (part("area", "/x", "[component.area.tool.hexad]\nwrite = [\"x/\"]"), "a component of this id"),
        (part("own", "/api/v4/things/:x/...", &own("own/")), "answers paths of it at /api/v4/things/:id/..."),
        (part("own", "/api/v4/things/7", &own("own/")), "answers paths of it at /api/v4/things/:id/..."),
        (part("own", "/-/x", &own("own/")), "answers paths of it at /-/..."),
        (part("own", "/*", &own("own/")), "answers paths of it at /..."),
        (part("own", "/:group/:project/...", &own("own/")), "answers paths of it at /..."),
        (part("own", "/x", &own("area/x/")), "its keys \"area/x/\" meet \"area/\" of the application's component area"),
        (part("own", "/x", &own("s")), "its keys \"s\" meet \"shared/\""),
        (part("own", "/x", ""), "its keys \"\" meet \"area/\""),
        (
            format!("variables = {{ token = {{ default = \"1\" }} }}\n{}", part("own", "/x", &own("own/"))),
            "[variables] token",
        ),
    ] {
        let error = application().add(parse(&added).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("the manifest app/spin.toml") && error.contains(words), "{words}: {error}");
    }

    let mut whole = application();
    whole.add(parse(&part("own", "/api/v4/own/...", &own("own/"))).unwrap()).unwrap();
    let other = part("other", "/.well-known/:x", "[component.other.tool.hexad]\nwrite = [\"other/\"]");
    whole.add(parse(&format!("variables = {{ a = {{ default = \"1\" }} }}\n{other}")).unwrap()).unwrap();
    let ids: Vec<&str> = whole.components.iter().map(|component| &*component.id).collect();
    assert_eq!((ids, whole.routes.len()), (vec!["area", "pages", "own", "other"], 5));
    let again = parse(&part("third", "/third", "variables = { }\n[component.third.tool.hexad]\nwrite = [\"own/\"]"));
    assert!(
        whole.add(again.unwrap()).unwrap_err().to_string().contains("meet \"own/\" of the application's component own")
    );
}
