//! npm: the version on the PATH, and npm 10.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hexad_tests::forge::GUEST;

pub enum Npm {
    OnPath,
    Ten,
}

impl Npm {
    /// The program, and the first arguments that it takes.
    pub fn command(&self) -> Vec<String> {
        match self {
            Npm::OnPath => vec!["npm".into()],
            Npm::Ten => vec!["node".into(), program("npm10/bin/npm-cli.js")],
        }
    }
}

impl Client for Npm {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let command = self.command();
        let all: Vec<&str> = command.iter().skip(1).map(String::as_str).chain(arguments.iter().copied()).collect();
        machine.run(folder, &command[0], &all)
    }

    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let cache = machine.empty("npm-cache").display().to_string();
        self.run(machine, folder, &[arguments, &["--cache", &cache]].concat())
    }

    fn configuration(&self) -> &str {
        "fetch-retries=0\nupdate-notifier=false\nfund=false\n"
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, &format!("{}audit=false\n", self.configuration()));
    }

    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        // With --force, npm lets the registry refuse a version that exists already.
        self.run(machine, folder, &["publish", "--force"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["view", name, "versions", "--json"])
    }

    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> ProgramOutput {
        self.run_cold(machine, folder, &["install", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run_cold(machine, folder, &["ci"])
    }
}

tests_of! {
    npm_publishes_and_installs: workflow::run(&Npm::OnPath);
    npm_10_publishes_and_installs: workflow::run(&Npm::Ten);
}

/// A user with npm and the public project as the registry.
struct User {
    machine: Machine,
    server: Server,
}

impl User {
    fn new(token: &str) -> Option<Self> {
        let user = User { machine: Machine::new(), server: server()? };
        user.sign_in(token);
        Some(user)
    }

    fn sign_in(&self, token: &str) {
        let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", self.server.url);
        Npm::OnPath.sign_in(&self.machine, &registry, token);
    }

    fn publish(&self, name: &str, version: &str, extra: &str) -> ProgramOutput {
        let folder = package(&self.machine, name, version, extra);
        Npm::OnPath.run(&self.machine, &folder, &["publish"])
    }

    fn npm(&self, arguments: &[&str]) -> ProgramOutput {
        Npm::OnPath.run(&self.machine, &self.machine.folder("here"), arguments)
    }
}

#[test]
fn dependencies_come_from_the_same_registry_with_clean_lock_files() {
    let Some(user) = User::new(DEVELOPER) else { return };
    user.publish("@acme/base", "1.2.3", "").ok();
    user.publish("top", "2.0.0", r#","dependencies":{"@acme/base":"^1.0.0"}"#).ok();
    let app = application(&user.machine, "app");
    Npm::OnPath.add(&user.machine, &app, "top").ok();
    assert_eq!(exported(&user.machine, &app, "@acme/base"), "@acme/base 1.2.3");
    let lock = std::fs::read_to_string(app.join("package-lock.json")).expect("a lock file");
    assert!(lock.contains("sha512-") && lock.contains("/@acme/base/-/base-1.2.3.tgz"), "{lock}");
}

#[test]
fn tags_are_listed_moved_and_removed() {
    let Some(user) = User::new(MAINTAINER) else { return };
    user.publish("@acme/lib", "1.0.0", "").ok();
    user.publish("@acme/lib", "2.0.0", "").ok();
    user.npm(&["dist-tag", "add", "@acme/lib@1.0.0", "stable"]).ok();
    assert_eq!(user.npm(&["dist-tag", "ls", "@acme/lib"]).ok().trim(), "latest: 2.0.0\nstable: 1.0.0");
    user.npm(&["dist-tag", "add", "@acme/lib@2.0.0", "stable"]).ok();
    assert_eq!(user.npm(&["dist-tag", "ls", "@acme/lib"]).ok().trim(), "latest: 2.0.0\nstable: 2.0.0");
    user.npm(&["dist-tag", "rm", "@acme/lib", "stable"]).ok();
    assert_eq!(user.npm(&["dist-tag", "ls", "@acme/lib"]).ok().trim(), "latest: 2.0.0");
}

#[test]
fn without_a_tag_latest_it_is_the_highest_version_that_is_no_prerelease() {
    let Some(user) = User::new(MAINTAINER) else { return };
    for version in ["1.0.0", "2.0.0"] {
        user.publish("@acme/lib", version, "").ok();
    }
    user.publish("@acme/lib", "3.0.0-beta.1", r#","publishConfig":{"tag":"next"}"#).ok();
    for version in ["1.0.0", "3.0.0-beta.1"] {
        user.npm(&["dist-tag", "add", &format!("@acme/lib@{version}"), "latest"]).ok();
        assert_eq!(user.npm(&["view", "@acme/lib", "version"]).ok().trim(), version);
        user.npm(&["dist-tag", "rm", "@acme/lib", "latest"]).ok();
        let tags = user.npm(&["dist-tag", "ls", "@acme/lib"]).ok();
        assert_eq!(tags.trim(), "latest: 2.0.0\nnext: 3.0.0-beta.1", "after {version}");
        assert_eq!(user.npm(&["view", "@acme/lib", "version"]).ok().trim(), "2.0.0", "after {version}");
    }
    let app = application(&user.machine, "app");
    Npm::OnPath.add(&user.machine, &app, "@acme/lib").ok();
    assert_eq!(exported(&user.machine, &app, "@acme/lib"), "@acme/lib 2.0.0");
}

#[test]
fn a_wrong_token_and_a_low_role_are_refused_with_the_reason() {
    let Some(user) = User::new("glpat-unknown-token-00000000001") else { return };
    let printed = user.publish("closed", "1.0.0", "").refused();
    assert!(printed.contains("E401"), "{printed}");
    user.sign_in(GUEST);
    let printed = user.publish("closed", "1.0.0", "").refused();
    assert!(printed.contains("E403") && printed.contains("403 Forbidden"), "{printed}");
    user.sign_in(DEVELOPER);
    user.publish("closed", "1.0.0", "").ok();
}

#[test]
fn versions_are_deprecated_and_undeprecated() {
    let Some(user) = User::new(MAINTAINER) else { return };
    user.publish("@acme/old", "1.0.0", "").ok();
    user.publish("@acme/old", "2.0.0", "").ok();
    let deprecated = |version: &str| user.npm(&["view", version, "deprecated"]).ok().trim().to_owned();
    user.npm(&["deprecate", "@acme/old@1.0.0", "use 2"]).ok();
    assert_eq!((deprecated("@acme/old@1.0.0").as_str(), deprecated("@acme/old@2.0.0").as_str()), ("use 2", ""));
    user.npm(&["deprecate", "@acme/old@1.0.0", ""]).ok();
    assert_eq!(deprecated("@acme/old@1.0.0"), "");
}

#[test]
fn owners_are_the_maintainers_of_the_project() {
    let Some(user) = User::new(DEVELOPER) else { return };
    user.publish("@acme/lib", "1.0.0", "").ok();
    assert_eq!(user.npm(&["owner", "ls", "@acme/lib"]).ok().trim(), "mia <>");
    assert_eq!(user.npm(&["access", "get", "status", "@acme/lib"]).ok().trim(), "@acme/lib: public");
}

/// A feature that the registry does not have is refused with a reason, and never printed as done.
#[test]
fn access_organizations_teams_hooks_stars_and_owners_are_answered_as_they_are() {
    for npm in [Npm::OnPath, Npm::Ten] {
        let Some(user) = User::new(MAINTAINER) else { return };
        user.publish("@acme/lib", "1.0.0", "").ok();
        let work = user.machine.folder("work");
        let run = |arguments: &[&str]| npm.run(&user.machine, &work, &[arguments, &["--json"]].concat());
        let json = |arguments: &[&str]| -> Value {
            let printed = run(arguments).ok();
            serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {printed}"))
        };
        let members = json!({"mia": "read-write", "dev": "read-write"});
        assert_eq!(json(&["access", "list", "collaborators", "@acme/lib"]), members);
        assert_eq!(json(&["access", "list", "packages", "acme"]), json!({"@acme/lib": "read-write"}));
        assert_eq!(json(&["org", "ls", "acme"])["mia"], "admin");
        assert_eq!(json(&["team", "ls", "acme"]), json!([]));
        for (arguments, text) in [
            (&["team", "create", "acme:devs"][..], "there are no teams"),
            (&["team", "ls", "acme:devs"], "there are no teams"),
            (&["access", "grant", "read-only", "acme:devs", "@acme/lib"], "there are no teams"),
            (&["access", "list", "packages", "mia"], "packages belong to projects"),
            (&["access", "set", "status=private", "@acme/lib"], "change the project's visibility"),
            (&["org", "set", "acme", "gus", "developer"], "those of the group with its path"),
            (&["org", "rm", "acme", "gus"], "those of the group with its path"),
            (&["owner", "add", "dev", "@acme/lib"], "the members of its project"),
            (&["star", "@acme/lib"], "keeps no stars"),
        ] {
            let printed = run(arguments);
            let all = format!("{}{}", printed.stdout, printed.stderr);
            assert!(!printed.success && all.contains(text), "{arguments:?}: {all}");
        }
        if matches!(npm, Npm::Ten) {
            assert_eq!(json(&["hook", "ls"]), json!([]));
            let printed = run(&["hook", "add", "@acme/lib", "https://hooks.example/", "secret"]);
            assert!(!printed.success && printed.stderr.contains("calls no hooks"), "{}", printed.stderr);
        }
    }
}

#[test]
fn a_publication_to_a_group_or_to_the_instance_is_told_where_to_publish() {
    let Some(user) = User::new(DEVELOPER) else { return };
    user.publish("@acme/lib", "1.0.0", "").ok();
    for level in ["groups/acme/-/packages/npm/", "packages/npm/"] {
        Npm::OnPath.sign_in(&user.machine, &format!("{}/api/v4/{level}", user.server.url), DEVELOPER);
        let printed = user.publish("@acme/lib", "1.1.0", "").refused();
        assert!(printed.contains(&format!("/api/v4/projects/{PUBLIC}/packages/npm/")), "{printed}");
        let printed = user.publish("@acme/new", "1.0.0", "").refused();
        assert!(printed.contains("/api/v4/projects/:id/packages/npm/"), "{printed}");
    }
}

#[test]
fn a_personal_token_is_the_password_of_basic_authentication() {
    let Some(user) = User::new(DEVELOPER) else { return };
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", user.server.url);
    let credential = STANDARD.encode(format!("anyone:{DEVELOPER}"));
    let host = registry.trim_start_matches("http:");
    user.machine.write("home/.npmrc", &format!("registry={registry}\n{host}:_auth={credential}\nfetch-retries=0\n"));
    user.publish("@acme/lib", "1.0.0", "").ok();
}
