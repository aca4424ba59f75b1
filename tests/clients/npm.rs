//! npm, as it is on the PATH.

use super::{Machine, Printed, wanted};
use hexad_tests::forge::{self, DEVELOPER, GUEST, MAINTAINER, PRIVATE, PUBLIC};
use hexad_tests::server::Server;
use std::path::Path;

/// A person with npm, a token, and one project of the forge as the registry.
struct Npm<'a> {
    machine: Machine,
    server: &'a Server,
    project: u64,
}

impl<'a> Npm<'a> {
    fn new(server: &'a Server, project: u64, token: &str) -> Self {
        let npm = Npm { machine: Machine::new(), server, project };
        npm.sign_in(token);
        npm
    }

    fn registry(&self) -> String {
        format!("{}/api/v4/projects/{}/packages/npm/", self.server.url, self.project)
    }

    fn sign_in(&self, token: &str) {
        let registry = self.registry();
        let host = registry.trim_start_matches("http:");
        self.machine.write(
            "home/.npmrc",
            &format!(
                "registry={registry}\n{host}:_authToken={token}\nfetch-retries=0\nupdate-notifier=false\nfund=false\n"
            ),
        );
    }

    fn package(&self, name: &str, version: &str, extra: &str) -> std::path::PathBuf {
        let folder = format!("src/{name}-{version}");
        self.machine.write(
            &format!("{folder}/package.json"),
            &format!(r#"{{"name":"{name}","version":"{version}","main":"index.js"{extra}}}"#),
        );
        self.machine.write(&format!("{folder}/index.js"), &format!("module.exports = '{name} {version}'\n"));
        self.machine.write(&format!("{folder}/README.md"), &format!("# {name}\n"));
        self.machine.folder(&folder)
    }

    fn npm(&self, folder: &Path, arguments: &[&str]) -> Printed {
        self.machine.run(folder, "npm", arguments)
    }

    fn publish(&self, name: &str, version: &str) -> Printed {
        self.npm(&self.package(name, version, ""), &["publish"])
    }

    fn here(&self, arguments: &[&str]) -> Printed {
        self.npm(&self.machine.folder("here"), arguments)
    }

    /// Installs into a new folder with an empty cache and returns what the package exports.
    fn install(&self, spec: &str, module: &str) -> String {
        let folder = self.machine.folder(&format!("app-{}", spec.replace(['/', '@'], "_")));
        self.machine
            .write(&format!("{}/package.json", folder.file_name().unwrap().to_string_lossy()), r#"{"private":true}"#);
        let cache = self.machine.folder("empty-cache");
        std::fs::remove_dir_all(&cache).expect("a folder");
        self.npm(&folder, &["install", spec, "--cache", &cache.to_string_lossy()]).ok();
        let script = format!("console.log(require('{module}'))");
        self.machine.run(&folder, "node", &["-e", &script]).ok().trim().to_owned()
    }
}

fn server() -> (Server, tempfile::TempDir) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    (server, data)
}

#[test]
fn publishes_views_and_installs_scoped_and_unscoped() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    for project in [PUBLIC, PRIVATE] {
        let npm = Npm::new(&server, project, DEVELOPER);
        for name in ["plain", "@acme/lib"] {
            npm.publish(name, "1.0.0").ok();
            npm.publish(name, "1.1.0").ok();
            assert_eq!(
                npm.here(&["view", name, "versions", "--json"]).ok().replace(char::is_whitespace, ""),
                r#"["1.0.0","1.1.0"]"#
            );
            assert_eq!(npm.here(&["view", name, "dist-tags.latest"]).ok().trim(), "1.1.0");
            assert_eq!(npm.install(name, name), format!("{name} 1.1.0"));
            assert_eq!(npm.install(&format!("{name}@1.0.0"), name), format!("{name} 1.0.0"));
        }
    }
}

#[test]
fn installs_dependencies_through_the_same_registry_and_again_from_the_lock_file() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    let npm = Npm::new(&server, PUBLIC, DEVELOPER);
    npm.publish("@acme/base", "1.2.3").ok();
    let top = npm.package("top", "2.0.0", r#","dependencies":{"@acme/base":"^1.0.0"}"#);
    npm.npm(&top, &["publish"]).ok();
    assert_eq!(npm.install("top", "@acme/base"), "@acme/base 1.2.3");
    let app = npm.machine.folder("app-top");
    std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
    npm.npm(&app, &["ci", "--cache", &npm.machine.folder("second-cache").to_string_lossy()]).ok();
    let lock = std::fs::read_to_string(app.join("package-lock.json")).expect("a lock file");
    assert!(lock.contains("sha512-") && lock.contains("/@acme/base/-/base-1.2.3.tgz"), "{lock}");
}

#[test]
fn moves_tags() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    let npm = Npm::new(&server, PUBLIC, MAINTAINER);
    npm.publish("@acme/lib", "1.0.0").ok();
    npm.publish("@acme/lib", "2.0.0").ok();
    npm.here(&["dist-tag", "add", "@acme/lib@1.0.0", "stable"]).ok();
    let tags = npm.here(&["dist-tag", "ls", "@acme/lib"]).ok();
    assert_eq!(tags.trim(), "latest: 2.0.0\nstable: 1.0.0");
    assert_eq!(npm.install("@acme/lib@stable", "@acme/lib"), "@acme/lib 1.0.0");
    npm.here(&["dist-tag", "rm", "@acme/lib", "stable"]).ok();
    assert_eq!(npm.here(&["dist-tag", "ls", "@acme/lib"]).ok().trim(), "latest: 2.0.0");
}

#[test]
fn a_second_publish_of_a_version_is_refused_with_the_reason() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    let npm = Npm::new(&server, PUBLIC, DEVELOPER);
    npm.publish("twice", "1.0.0").ok();
    // Other bytes under the same version; npm's own look at the registry is not to stop it.
    let folder = npm.package("twice", "1.0.0", r#","description":"changed""#);
    let printed = npm.npm(&folder, &["publish", "--force"]).refused();
    assert!(printed.contains("403") && printed.contains("Package already exists."), "{printed}");
}

#[test]
fn a_wrong_token_and_a_low_role_are_refused() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    let npm = Npm::new(&server, PUBLIC, "glpat-nobody-knows-this-token");
    let printed = npm.publish("closed", "1.0.0").refused();
    assert!(printed.contains("E401"), "{printed}");
    npm.sign_in(GUEST);
    let printed = npm.publish("closed", "1.0.0").refused();
    assert!(printed.contains("E403") && printed.contains("403 Forbidden"), "{printed}");
    npm.sign_in(DEVELOPER);
    npm.publish("closed", "1.0.0").ok();
}

#[test]
fn deprecates_and_undeprecates() {
    if !wanted() {
        return;
    }
    let (server, _data) = server();
    let npm = Npm::new(&server, PUBLIC, MAINTAINER);
    npm.publish("@acme/old", "1.0.0").ok();
    npm.publish("@acme/old", "2.0.0").ok();
    npm.here(&["deprecate", "@acme/old@1.0.0", "use 2"]).ok();
    assert_eq!(npm.here(&["view", "@acme/old@1.0.0", "deprecated"]).ok().trim(), "use 2");
    assert_eq!(npm.here(&["view", "@acme/old@2.0.0", "deprecated"]).ok().trim(), "");
    npm.here(&["deprecate", "@acme/old@1.0.0", ""]).ok();
    assert_eq!(npm.here(&["view", "@acme/old@1.0.0", "deprecated"]).ok().trim(), "");
}
