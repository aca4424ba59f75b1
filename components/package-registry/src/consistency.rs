//! The consistency rules of a stored package, for `fsck`.

use crate::integrity::Integrity;
use crate::json::{self, Members};
use crate::manifest;
use crate::package::Package;
use crate::version::Version;
use crate::version_run::{IndexEntry, VersionRun};
use std::collections::{BTreeMap, BTreeSet};

/// A listed version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedVersion {
    pub upload: String,
    pub version: String,
    /// The digests in its record in full metadata; empty if it has none.
    pub integrity: String,
    pub shasum: String,
}

impl ListedVersion {
    fn of(entry: &IndexEntry, record: &Members) -> Self {
        let dist = record.get("dist").and_then(|dist| Members::read(dist.get()).ok()).unwrap_or_default();
        let digest = |name| dist.get(name).and_then(json::string).unwrap_or_default();
        ListedVersion {
            upload: entry.upload.to_owned(),
            version: entry.version.to_owned(),
            integrity: digest("integrity"),
            shasum: digest("shasum"),
        }
    }
}

/// Checks a package and its version runs. Only one run has to be in memory at a time.
pub struct PackageCheck<'a> {
    package: &'a Package,
    /// Versions in the runs so far, listed or not.
    seen: BTreeSet<String>,
    listed: Vec<ListedVersion>,
    has_damaged_runs: bool,
    problems: Vec<String>,
}

impl<'a> PackageCheck<'a> {
    pub fn new(package: &'a Package) -> Self {
        PackageCheck {
            package,
            seen: BTreeSet::new(),
            listed: Vec::new(),
            has_damaged_runs: false,
            problems: Vec::new(),
        }
    }

    /// Checks a run, whose blobs were verified when it was read.
    pub fn add(&mut self, run: &VersionRun) {
        let [full, abbreviated] = [&run.full, &run.abbreviated].map(|form| form.records().collect::<BTreeMap<_, _>>());
        for entry in run.index.entries() {
            if !self.seen.insert(entry.version.to_owned()) {
                self.problems.push(format!("version {} is in two segments", entry.version));
            }
            if let (Some(full), Some(abbreviated)) = (full.get(entry.version), abbreviated.get(entry.version)) {
                self.add_listed(&entry, full, abbreviated);
            }
        }
    }

    fn add_listed(&mut self, entry: &IndexEntry, full: &str, abbreviated: &str) {
        let [full, abbreviated] = [full, abbreviated].map(manifest::to_json);
        let [full, abbreviated] = [&full, &abbreviated].map(|record| Members::read(record));
        let problem = match (&full, &abbreviated) {
            (Err(why), _) => Some(format!("its full record is no JSON object: {why}")),
            (_, Err(why)) => Some(format!("its abbreviated record is no JSON object: {why}")),
            (Ok(full), Ok(abbreviated)) => (!manifest::is_abbreviation(abbreviated, full))
                .then(|| "its abbreviated record differs from its full one".to_owned()),
        };
        self.problems.extend(problem.map(|problem| format!("version {}: {problem}", entry.version)));
        self.listed.push(ListedVersion::of(entry, &full.unwrap_or_default()));
    }

    /// Adds the problem of a run that cannot be read. The files of other runs' versions are still checked.
    pub fn add_damaged(&mut self, problem: String) {
        self.has_damaged_runs = true;
        self.problems.push(problem);
    }

    /// The listed versions, sorted by upload, and the problems. Call it after every run was added.
    pub fn finish(mut self) -> (Vec<ListedVersion>, Vec<String>) {
        if !self.has_damaged_runs {
            self.check_versions();
        }
        self.listed.sort_unstable_by(|one, other| one.upload.cmp(&other.upload));
        (self.listed, self.problems)
    }

    /// Compares the package's tags and highest versions with its listed versions.
    fn check_versions(&mut self) {
        let PackageCheck { package, listed, problems, .. } = self;
        let versions: BTreeSet<&str> = listed.iter().map(|listed| listed.version.as_str()).collect();
        for (tag, version) in package.dist_tags().into_iter().filter(|(_, version)| !versions.contains(version)) {
            problems.push(format!("tag {tag} is of version {version}, which is not listed"));
        }
        let parsed = || versions.iter().filter_map(|version| Version::parse(version));
        let (highest, highest_stable) = (parsed().max(), parsed().filter(|version| !version.is_prerelease()).max());
        let text = |version: &Option<Version>| version.as_ref().map_or("none".to_owned(), Version::to_string);
        if package.highest != highest {
            problems.push(format!("its highest version is {}, not {}", text(&highest), text(&package.highest)));
        } else if package.highest_stable.is_some() && package.highest_stable != highest_stable {
            let (found, stored) = (text(&highest_stable), text(&package.highest_stable));
            problems.push(format!("its highest version that is no prerelease is {found}, not {stored}"));
        }
    }
}

/// The problems of a listed version's file. `stored` has the digests and the size in bytes from the upload's record,
/// `found` has them from the chunks.
pub fn file_problems(listed: &ListedVersion, stored: (&Integrity, u64), found: (&Integrity, u64)) -> Vec<String> {
    let mut problems = Vec::new();
    if !listed.integrity.contains(&stored.0.sri()) || listed.shasum != stored.0.shasum() {
        problems
            .push(format!("version {}: its record has other digests than its file was published with", listed.version));
    }
    if stored.1 != found.1 {
        problems.push(format!("version {}: its file has {} bytes, not {}", listed.version, found.1, stored.1));
    } else if stored.0 != found.0 {
        problems.push(format!("version {}: its file has other bytes than were published", listed.version));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::RunRef;
    use crate::version_run::VersionState;
    use kit::Timestamp;

    const NOW: Timestamp = Timestamp::from_millis(1000);

    fn run(version: &str) -> VersionRun {
        let entry = IndexEntry { version, upload: &format!("u{version}"), at: NOW, state: VersionState::Listed };
        let full = |description| {
            let dist =
                format!("{{\"tarball\":\"{}/x\",\"integrity\":\"i\",\"shasum\":\"s\"}}", manifest::URL_PLACEHOLDER);
            format!("{{\"name\":\"x\",{description}\"dist\":{dist}}}")
        };
        VersionRun::of(&entry, &full("\"description\":\"d\","), &full(""))
    }

    fn package(versions: &[&str]) -> (Package, Vec<VersionRun>) {
        let mut package = Package::new(NOW);
        for text in versions {
            let version = Version::parse(text).unwrap();
            let run_ref = RunRef { id: format!("s{text}"), listed: 1, size: 1, checksums: None };
            package.publish(&version, "latest", &format!("u{text}"), 0, run_ref, NOW).unwrap();
        }
        (package, versions.iter().map(|version| run(version)).collect())
    }

    fn check(package: &Package, runs: &[VersionRun]) -> (Vec<ListedVersion>, Vec<String>) {
        let mut check = PackageCheck::new(package);
        for run in runs {
            check.add(run);
        }
        check.finish()
    }

    #[track_caller]
    fn check_finds(change: impl FnOnce(&mut Package, &mut Vec<VersionRun>), expected: &[&str]) {
        let (mut package, mut runs) = package(&["1.0.0", "1.1.0"]);
        change(&mut package, &mut runs);
        assert_eq!(check(&package, &runs).1, expected);
    }

    #[test]
    fn a_consistent_package_has_no_problem() {
        let (package, runs) = package(&["1.1.0", "1.0.0"]);
        let listed = |version: &str| ListedVersion {
            upload: format!("u{version}"),
            version: version.into(),
            integrity: "i".into(),
            shasum: "s".into(),
        };
        let expected = vec![listed("1.0.0"), listed("1.1.0")];
        assert_eq!(check(&package, &runs), (expected, vec![]));
        check_finds(
            |package, runs| {
                runs[0].unpublish(|_| true);
                package.runs[0].listed = 0;
            },
            &[],
        );
    }

    #[test]
    fn inconsistencies_are_found() {
        for (change, problem) in [
            (("\"name\"", "\"name"), "its full record is no JSON object: expected `:` at line 1 column 9"),
            (("\"integrity\":\"i\"", "\"integrity\":\"j\""), "its abbreviated record differs from its full one"),
            (("\u{1}", ""), "its abbreviated record differs from its full one"),
            (("\"name\":\"x\",", ""), "its abbreviated record differs from its full one"),
        ] {
            let change = |form: &mut String| *form = form.replace(change.0, change.1);
            let expected = |problem: &str| format!("version 1.0.0: {problem}");
            check_finds(|_, runs| change(&mut runs[0].full.versions), &[&expected(problem)]);
            let problem = problem.replace("full record", "abbreviated record");
            check_finds(|_, runs| change(&mut runs[0].abbreviated.versions), &[&expected(&problem)]);
        }
        check_finds(
            |package, _| package.tags.get_mut("latest").unwrap().version = "3.0.0".into(),
            &["tag latest is of version 3.0.0, which is not listed"],
        );
        check_finds(|package, _| package.highest = None, &["its highest version is 1.1.0, not none"]);
        check_finds(
            |package, _| package.highest_stable = Version::parse("1.0.0"),
            &["its highest version that is no prerelease is 1.1.0, not 1.0.0"],
        );
        check_finds(
            |package, runs| {
                runs.push(run("1.0.0"));
                package.runs.push(RunRef { id: "s".into(), listed: 1, size: 1, checksums: None });
            },
            &["version 1.0.0 is in two segments"],
        );
    }

    #[test]
    fn a_changed_file_is_found() {
        let (ours, other) = (Integrity::of(b"ours"), Integrity::of(b"other"));
        let (integrity, shasum) = (ours.sri(), ours.shasum());
        let listed = ListedVersion { upload: "u".into(), version: "1.0.0".into(), integrity, shasum };
        assert!(file_problems(&listed, (&ours, 4), (&ours, 4)).is_empty());
        for (stored, found, expected) in [
            ((&ours, 4), (&ours, 5), "version 1.0.0: its file has 5 bytes, not 4"),
            ((&ours, 4), (&other, 4), "version 1.0.0: its file has other bytes than were published"),
            ((&other, 5), (&other, 5), "version 1.0.0: its record has other digests than its file was published with"),
        ] {
            assert_eq!(file_problems(&listed, stored, found), [expected]);
        }
    }
}
