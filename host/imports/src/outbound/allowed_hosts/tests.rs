use super::*;

fn hosts(entries: &[&str]) -> AllowedHosts {
    let mut hosts = AllowedHosts::default();
    for entry in entries {
        hosts.add(entry, None).unwrap();
    }
    hosts
}

#[track_caller]
fn check(entry: &str, allowed: &[&str], denied: &[&str]) {
    let hosts = hosts(&[entry]);
    let reach = |uri: &str| hosts.reach(&Target::of(&uri.parse().unwrap()).unwrap());
    for uri in allowed {
        assert!(reach(uri).is_some(), "{entry} does not cover {uri}");
    }
    for uri in denied {
        assert!(reach(uri).is_none(), "{entry} covers {uri}");
    }
}

#[test]
fn entries_cover_the_same_origins_as_in_spin() {
    check(
        "https://example.com",
        &["https://example.com/a", "https://EXAMPLE.com:443/"],
        &["http://example.com/", "https://example.com:8443/", "https://a.example.com/", "https://example.com./"],
    );
    check("https://example.com/", &["https://example.com/a"], &["http://example.com/"]);
    check("*://example.com:*", &["http://example.com:1/", "https://example.com/"], &["https://example.org/"]);
    check("https://*:443", &["https://a.example/", "https://1.2.3.4/"], &["http://a.example/", "https://a.b:444/"]);
    check(
        "http://*.example.com:8383",
        &["http://a.example.com:8383/", "http://a.b.Example.com:8383/"],
        &["http://example.com:8383/", "http://myexample.com:8383/", "http://a.example.com/", "http://1.2.3.4:8383/"],
    );
    check(
        "http://example.com:8000..9000",
        &["http://example.com:8000/", "http://example.com:8999/"],
        &["http://example.com:9000/", "http://example.com:7999/"],
    );
    check("http://127.0.0.1:4000", &["http://127.1:4000/", "http://2130706433:4000/"], &["http://localhost:4000/"]);
    check("http://[::1]", &["http://[::1]/", "http://[0:0::1]:80/"], &["http://[::1]:81/", "http://[::2]/"]);
    check("http://[::1]:8000..9000", &["http://[::1]:8080/"], &["http://[::1]/"]);
    check("*://127.0.0.1/24:63551", &["http://127.0.0.9:63551/"], &["http://127.0.1.1:63551/"]);
    check("http://10.0.0.0/8", &["http://10.9.8.7/"], &["http://11.0.0.1/", "http://ten.example/"]);
    check("http://2001:db8::/32", &["http://[2001:db8::1]/"], &["http://[2001:db9::1]/"]);
    check("http://2001:db8::/32:81", &["http://[2001:db8::1]:81/"], &["http://[2001:db8::1]/"]);
    check("redis://example.com", &[], &["http://example.com/", "http://example.com:6379/"]);
}

#[test]
fn only_an_entry_that_names_an_address_reaches_one_that_is_not_public() {
    let reach = |entries: &[&str], uri: &str| hosts(entries).reach(&Target::of(&uri.parse().unwrap()).unwrap());
    for (entry, uri, expected) in [
        ("*://*:*", "http://127.0.0.1/", Reach::Public),
        ("http://0.0.0.0/0", "http://127.0.0.1/", Reach::Public),
        ("http://*.test", "http://a.test/", Reach::Public),
        ("http://a.test", "http://a.test/", Reach::Public),
        ("http://localhost:*", "http://localhost/", Reach::Named),
        ("http://127.0.0.1", "http://127.0.0.1/", Reach::Named),
        ("http://10.0.0.0/8", "http://10.0.0.1/", Reach::Named),
        ("http://[::1]", "http://[::1]/", Reach::Named),
    ] {
        assert_eq!(reach(&[entry], uri), Some(expected), "{entry} {uri}");
    }
    assert_eq!(reach(&["*://*:*", "http://127.0.0.1"], "http://127.0.0.1/"), Some(Reach::Named));
    assert_eq!(reach(&["*://*:*", "http://127.0.0.1"], "http://127.0.0.2/"), Some(Reach::Public));
}

#[test]
fn the_application_and_its_components_are_covered_by_name_only() {
    check(
        "http://self",
        &["http://self.alt/a", "http://SELF.alt:80/", "http://self/"],
        &[
            "https://self.alt/",
            "http://self.alt:81/",
            "http://self:81/",
            "http://b.spin.internal/",
            "http://a.example/",
        ],
    );
    check("*://self.alt:*", &["http://self.alt:8080/"], &["http://a.alt/"]);
    check(
        "http://b.spin.internal",
        &["http://b.spin.internal/x"],
        &["http://c.spin.internal/", "http://self.alt/", "http://a.b.spin.internal/"],
    );
    check("http://*.spin.internal", &["http://b.spin.internal/", "http://c.spin.internal/"], &["http://self.alt/"]);
    for wide in ["*://*:*", "http://*.internal", "http://*.alt"] {
        check(wide, &[], &["http://self.alt/", "http://self/", "http://b.spin.internal/"]);
    }
    let entries = hosts(&["http://b.spin.internal", "http://self", "https://c.example"]);
    assert_eq!(entries.components().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn errors_name_the_bad_entry() {
    for entry in [
        "",
        "*",
        ":",
        "example.com",
        "example.com:8080",
        "://example.com",
        "h2://example.com",
        "{http,https}://a.b",
        "http://",
        "http://example.com:notaport",
        "http://example.com:99999",
        "http://example.com:8080..70000",
        "http://example.com:8080..",
        "http://example.com:8080..8080",
        "http://*:9000..8000",
        "http://self:notaport",
        "http://*.example.com:8O8O",
        "http://example.com/p",
        "http://example.com:8080/p",
        "http://*.example.com/p",
        "http://127.0.0.0/24/p",
        "http://[::1]/p",
        "http://[::1",
        "http://[::1]junk",
        "http://[::1]::80",
        "http://*.",
        "http://*.*.com",
        "http://a.*.com",
        "http://a*.com",
        "http://*.127.0.0.1",
        "http://*.[::1]",
        "http://exa[mple.com",
        "http://example%GG.com",
        "http://example.com:80:90",
        "http://example.com//",
        "tcp://example.com",
        "http://a b.com",
    ] {
        let error = AllowedHosts::default().add(entry, None).unwrap_err();
        assert!(error.contains(&format!("\"{entry}\"")), "{entry}: {error}");
    }
}

#[test]
fn a_templated_entry_may_be_empty() {
    let mut hosts = AllowedHosts::default();
    for entry in ["", "http://", "https://"] {
        hosts.add(entry, Some("{{ url }}")).unwrap();
        hosts.add(entry, None).unwrap_err();
    }
    assert_eq!(hosts, AllowedHosts::default());
}
