//! `hexad validate` refuses what a start or a swap would refuse, without a server.

use super::*;
use std::process::Output;

/// Writes the probe's manifest, in which `from` is replaced by `to`, into a folder.
fn manifest(folder: &Path, from: &str, to: &str) -> String {
    let path = write_manifest(folder);
    edit(&path, |text| {
        assert!(text.contains(from), "{from} is not in the manifest");
        text.replace(from, to)
    });
    path.to_str().expect("UTF-8").to_owned()
}

fn errors(output: &Output) -> String {
    assert!(!output.status.success(), "accepted: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn fixture(name: &str) -> String {
    root().join(format!("dist/fixtures/{name}.wasm")).to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_manifest_that_can_be_served_is_valid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = manifest(folder.path(), "default = \"none\"", "required = true");
    let output = run(&["validate", &manifest], &[("SPIN_VARIABLE_EXTERNAL_URL", "http://a.test")]);
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert!(text.contains("component `probe`: 0.1.0, sha256 "), "{text}");
    assert!(text.contains("1 component and 1 route can be served"), "{text}");
    assert!(text.contains("note: store \"default\": every key may be written by probe"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left behind");
    assert!(errors(&run(&["validate", &manifest], &[])).contains("SPIN_VARIABLE_EXTERNAL_URL"));
}

#[test]
fn each_problem_of_a_manifest_is_named() {
    for (from, to, words) in [
        ("[component.probe]", "[component.probe.tool.hexad]\nmemori = \"1MiB\"\n[component.probe]", "memori"),
        ("[component.probe]", "[component.probe.tool.hexad]\nmemory = \"2GiB\"\n[component.probe]", "1.0 GiB"),
        (
            "[component.probe]",
            "[component.probe.tool.hexad]\nidle_timeout = \"soon\"\n[component.probe]",
            "idle_timeout",
        ),
        (
            "[component.probe]",
            "[component.probe.tool.hexd]\nwrite = [\"probe/\"]\n[component.probe]",
            "line 10, [component.probe.tool.hexd]: `hexd` is not a tool; write [component.probe.tool.hexad]",
        ),
        (
            "[component.probe]",
            "[component.note]\nsource = \"x\"\nkey_value_stores = [\"default\"]\ntool.hexad.write = [\"note/\"]\n\
             [component.probe]",
            "component probe: say write = [\"probe/\"], or write = [\"\"] for every key",
        ),
        ("[component.probe]", "[[component.probe]]", "line 10, component.probe: a list of tables is there"),
        ("application = { name = \"test\" }", "application = []", "line 3, application: a list is there"),
        ("{{ check }}", "{{ chek }}", "line 14, [component.probe]: variables.check: "),
        ("spin_manifest_version = 2", "spin_manifest_version = 1", "version 2"),
        ("route = \"/probe/...\"", "route = \"/probe/*x\"", "`*x`"),
        ("route = \"/probe/...\"", "route = \"/pro be/...\"", "\"/pro be/...\" has ' '"),
        ("component = \"probe\"", "component = \"other\"", "[component.other]"),
        ("key_value_stores = [\"default\"]", "", "`key_value_stores`"),
        ("allowed_outbound_hosts = []", "", "`allowed_outbound_hosts`"),
        ("{{ check }}", "{{ chek }}", "`chek`, which is not in [variables]"),
        ("check = { default = \"\" }", "check = { default = \"fails\" }", "says that it fails"),
        ("component.probe]", "component.area]\n", "there is no [component.probe]"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = errors(&run(&["validate", &manifest(folder.path(), from, to)], &[]));
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    let error = errors(&run(&["validate", "/nowhere/spin.toml"], &[]));
    assert!(error.contains("/nowhere/spin.toml"), "{error}");
}

#[test]
fn every_component_that_cannot_be_served_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hello = fixture("hello");
    let more = format!(
        "[component.missing]\nsource = \"missing.wasm\"\n[component.text]\nsource = \"text.wasm\"\n\
         [component.hello]\nsource = {hello:?}\n[component.small]\nsource = {hello:?}\n\
         [component.small.tool.hexad]\nmemory = \"64KiB\"\n[component.probe]"
    );
    std::fs::write(folder.path().join("text.wasm"), "text").expect("a file");
    let output = run(&["validate", &manifest(folder.path(), "[component.probe]", &more)], &[]);
    let error = errors(&output);
    for words in ["component `missing`: cannot read", "component `text`: ", "component `small`", "has 3 problems"] {
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    let valid = String::from_utf8_lossy(&output.stdout);
    assert!(valid.contains("component `hello`: no area") && valid.contains("component `probe`"), "{valid}");
    let error = errors(&run(&["validate", &manifest(folder.path(), "x", "x"), "--memory", "300MiB"], &[]));
    assert!(error.contains("component `probe`") && error.contains("300.0 MiB"), "{error}");
}

#[test]
fn a_swap_is_checked_against_the_slot() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = manifest(folder.path(), "x", "x");
    let swap =
        |component: &str, file: &str| run(&["validate", &manifest, "--component", component, "--file", file], &[]);
    let output = swap("probe", &fixture("probe"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (component, file, words) in [
        ("probe", fixture("hello"), "does not say which area it is"),
        ("nobody", fixture("hello"), "there is no component `nobody` in the manifest, which has `"),
        ("probe", "/nowhere.wasm".to_owned(), "cannot read /nowhere.wasm"),
        ("probe", manifest.clone(), "not a usable component"),
    ] {
        let error = errors(&swap(component, &file));
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    let list = folder.path().join("digests");
    std::fs::write(&list, "0".repeat(64)).expect("a file");
    let output = run(&["validate", &manifest, "--allow-digests", list.to_str().expect("UTF-8")], &[]);
    assert!(errors(&output).contains("is not trusted"), "{}", errors(&output));
}
