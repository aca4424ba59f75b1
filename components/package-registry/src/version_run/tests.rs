use super::*;

fn entry<'a>(version: &'a str, upload: &'a str, at: i64) -> IndexEntry<'a> {
    IndexEntry { version, upload, at: Timestamp::from_millis(at), state: VersionState::Listed }
}

fn run(version: &str, at: i64) -> VersionRun {
    let record = format!("{{\"version\":\"{version}\"}}");
    VersionRun::of(&entry(version, &format!("u{version}"), at), &record, &record)
}

impl VersionRun {
    fn find(&self, version: &str) -> Option<IndexEntry<'_>> {
        find(self.index.0.as_bytes(), version)
    }
}

#[test]
fn a_run_of_one() {
    let run = run("1.0.0", 0);
    assert_eq!(run.index.0, "1.0.0\tu1.0.0\t0\tlisted\n");
    assert_eq!(run.full.versions, "\"1.0.0\":{\"version\":\"1.0.0\"},\n");
    assert_eq!(run.full.times, "\"1.0.0\":\"1970-01-01T00:00:00.000Z\",\n");
    assert_eq!(run.listed(), 1);
}

#[test]
fn a_stored_form_is_read_back() {
    for form in [FormRecords::default(), run("1.0.0", 0).full] {
        assert_eq!(FormRecords::read(&form.to_bytes()), Some(form));
    }
    for bytes in ["", "x", "x\n", "5\nab", "-1\nab", "1", "\n"] {
        assert_eq!(FormRecords::read(bytes.as_bytes()), None, "{bytes:?}");
    }
    assert_eq!(FormRecords::read(b"1\n\xff"), None);
}

#[test]
fn every_version_is_found_and_no_other() {
    let versions: Vec<String> = (0..200).map(|n| format!("{}.{}.0", n % 7, n)).collect();
    let merged = VersionRun::merge(versions.iter().map(|version| run(version, 7)));
    for version in &versions {
        assert_eq!(merged.find(version), Some(entry(version, &format!("u{version}"), 7)));
    }
    for version in ["", "0", "0.0.00", "7.0.0", "0.0.0-a", "9.9.9", "\n", "0.0.0\t"] {
        assert_eq!(merged.find(version), None, "{version:?}");
    }
    assert_eq!(VersionRun::default().find("1.0.0"), None);
}

#[test]
fn damaged_indexes_have_no_entries_and_do_no_harm() {
    for text in ["\n", "\t", "1.0.0", "1.0.0\t", "1.0.0\tu\n", "1.0.0\tu\tx\tlisted\n", "1.0.0\tu\t1\tlost\n", "\n\n\n"]
    {
        assert_eq!(find(text.as_bytes(), "1.0.0"), None, "{text:?}");
    }
    assert_eq!(find(b"\xff\xff\t\n", "1.0.0"), None);
}

#[test]
fn damage_to_an_index_is_found() {
    let mut merged = VersionRun::merge(["1.0.0", "10.0.0", "2.0.0"].map(|version| run(version, 7)));
    merged.unpublish(|version| version == "2.0.0");
    let text = merged.index.0;
    assert_eq!((count_listed(text.as_bytes()), count_listed(b"")), (Some(2), Some(0)));
    for (from, to) in [
        ("listed", "listee"),
        ("reserved", "reserve"),
        ("\t7\t", "\tx\t"),
        ("\t7\t", "\t7"),
        ("listed\n", "listed\r\n"),
        ("listed\n", "listed\tmore\n"),
        ("reserved\n", "reserved"),
        ("1.0.0", ""),
        ("1.0.0", "3.0.0"),
        ("10.0.0", "1.0.0"),
        ("1.0.0", "\n1.0.0"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text);
        assert_eq!(count_listed(damaged.as_bytes()), None, "{from:?} {to:?}");
    }
    assert_eq!(count_listed(b"\xff"), None);
}

#[test]
fn a_form_is_of_the_versions_that_its_index_lists() {
    let mut merged = VersionRun::merge(["2.0.0", "1.0.0"].map(|version| run(version, 7)));
    let whole = merged.clone();
    assert!(merged.full.is_of(&merged.index) && FormRecords::default().is_of(&Index::default()));
    merged.unpublish(|version| version == "2.0.0");
    assert!(merged.full.is_of(&merged.index) && !merged.full.is_of(&whole.index) && !whole.full.is_of(&merged.index));
    for (from, to) in [("},\n", "}!\n"), ("},\n", "},\r\n"), ("},\n", "}"), ("\"2.0.0\":", "\"1.0.0\":"), ("\"2", "2")]
    {
        let damaged = FormRecords { versions: whole.full.versions.replacen(from, to, 1), ..whole.full.clone() };
        assert!(!damaged.is_of(&whole.index), "{from:?} {to:?}");
    }
    for (from, to) in [("Z\",\n", "Z\"!\n"), ("\"2.0.0\":", "\"2.0.1\":"), ("1970", "1971")] {
        let damaged = FormRecords { times: whole.full.times.replacen(from, to, 1), ..whole.full.clone() };
        assert!(!damaged.is_of(&whole.index), "{from:?} {to:?}");
    }
}

#[test]
fn records_stay_in_the_order_of_publication() {
    let merged = VersionRun::merge(["2.0.0", "1.0.0", "10.0.0"].map(|version| run(version, 0)));
    let order: Vec<&str> =
        merged.full.versions.lines().filter_map(|line| record(line).map(|(version, _)| version)).collect();
    assert_eq!(order, ["2.0.0", "1.0.0", "10.0.0"]);
    let sorted: Vec<&str> = merged.index.entries().map(|entry| entry.version).collect();
    assert_eq!(sorted, ["1.0.0", "10.0.0", "2.0.0"]);
    assert_eq!(record_of(merged.full.versions.as_bytes(), "10.0.0"), Some(&br#"{"version":"10.0.0"}"#[..]));
    assert_eq!(record_of(merged.full.versions.as_bytes(), "0.0.0"), None);
}

#[test]
fn deprecation_touches_the_named_versions_only() {
    let before = VersionRun::merge(["1.0.0", "1.0.1"].map(|version| run(version, 0)));
    let mut run = before.clone();
    run.deprecate(&BTreeMap::from([("1.0.0".into(), "old".into()), ("9.9.9".into(), "absent".into())]));
    for form in [&run.full, &run.abbreviated] {
        assert_eq!(
            form.versions,
            "\"1.0.0\":{\"deprecated\":\"old\",\"version\":\"1.0.0\"},\n\"1.0.1\":{\"version\":\"1.0.1\"},\n"
        );
    }
    run.deprecate(&BTreeMap::from([("1.0.0".into(), String::new())]));
    assert_eq!(run, before);
}

#[test]
fn an_unpublished_version_is_gone_but_its_number_is_taken() {
    let mut merged = VersionRun::merge(["1.0.0", "1.0.1"].map(|version| run(version, 0)));
    merged.unpublish(|version| version == "1.0.0");
    for form in [&merged.full, &merged.abbreviated] {
        assert_eq!((form.versions.lines().count(), form.times.lines().count()), (1, 1));
        assert_eq!(record_of(form.versions.as_bytes(), "1.0.0"), None);
    }
    assert_eq!(merged.find("1.0.0").unwrap().state, VersionState::Unpublished);
    assert_eq!(merged.find("1.0.1").unwrap().state, VersionState::Listed);
    assert_eq!(merged.listed(), 1);
}

/// Publishes `count` versions of `size` bytes; returns the sizes of the runs at the end, and
/// how many bytes were written per version.
fn grow(count: u64, size: u64) -> (Vec<u64>, u64) {
    let mut sizes: Vec<u64> = Vec::new();
    let mut written = 0;
    for _ in 0..count {
        let kept = sizes.len() - to_merge(&sizes, size);
        let merged = sizes.split_off(kept).iter().sum::<u64>() + size;
        written += merged;
        sizes.push(merged);
    }
    assert_eq!(sizes.iter().sum::<u64>(), count * size, "nothing is lost");
    (sizes, written / count)
}

#[test]
fn runs_stay_few_and_writes_small() {
    for (count, size, most_runs, most_written) in [
        (10, 1_000, 1, 8_000),
        (200, 1_000, 6, 20_000),
        (5_000, 1_000, 16, 30_000),
        (5_000, 100, 10, 20_000),
        (2_000, 10_000, 40, 60_000),
    ] {
        let (sizes, written) = grow(count, size);
        assert!(sizes.len() <= most_runs, "{count} of {size}: {} runs {sizes:?}", sizes.len());
        assert!(written <= most_written, "{count} of {size}: {written} bytes written per version");
        assert!(sizes.iter().all(|size| *size <= TIER_FACTOR * (LARGE_RUN + SMALL_RUN)), "{sizes:?}");
    }
}

#[test]
fn a_large_run_is_never_merged() {
    assert_eq!(to_merge(&[LARGE_RUN + 1; 10], 10), 0);
    assert_eq!(to_merge(&[LARGE_RUN; 10], LARGE_RUN + 1), 0);
    assert_eq!(to_merge(&[], 10), 0);
}

#[test]
fn entries_and_deprecations_are_read_from_the_stored_text() {
    let at = Timestamp::from_millis(5);
    let versions = ["1.0.0", "1.1.0", "2.0.0"].map(|version| {
        VersionRun::of(&IndexEntry { version, upload: "u", at, state: VersionState::Listed }, "{\"a\":1}", "{\"a\":1}")
    });
    let mut run = VersionRun::merge(versions);
    run.deprecate(&[("1.1.0".to_owned(), "old".to_owned())].into());
    run.unpublish(|version| version == "2.0.0");
    let read: Vec<_> = entries(run.index.0.as_bytes()).collect();
    assert_eq!(read, run.index.entries().collect::<Vec<_>>());
    assert_eq!(read.len(), 3);
    assert_eq!(deprecated(run.full.versions.as_bytes()).into_iter().collect::<Vec<_>>(), ["1.1.0"]);
    run.deprecate(&[("1.1.0".to_owned(), String::new())].into());
    assert!(deprecated(run.full.versions.as_bytes()).is_empty());
}
