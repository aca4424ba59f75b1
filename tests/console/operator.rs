//! The operator's pages in the browser: a component is replaced, promoted and rolled back.

use super::*;
use hexad_tests::operator::{self, Operator, open_in_browser};
use hexad_tests::server::run;

const COMPONENT: &str = "experiments";

/// A file with another build of the component.
fn variant(folder: &Path, mark: u8) -> PathBuf {
    let path = folder.join(format!("{mark}.wasm"));
    std::fs::write(&path, operator::variant(COMPONENT, mark)).expect("a file");
    path
}

fn serving(site: &Site) -> Value {
    Operator::of(&site.server).get(&format!("/components/{COMPONENT}")).json()
}

fn digest(site: &Site) -> String {
    serving(site)["digest"].as_str().expect("a digest").to_owned()
}

/// The address that `hexad status --web` prints.
fn address(site: &Site) -> String {
    let data = site.server.data.display().to_string();
    let output = run(&["status", "--web", "--data", &data], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// Chooses a file and sends the form.
fn swap(browser: &Browser, file: &Path, percent: Option<&str>) {
    if let Some(percent) = percent {
        browser.type_into("#swap input[name=percent]", percent);
    }
    browser.type_into("#swap input[type=file]", &file.display().to_string());
    browser.click("#swap input[name=confirmed]");
    browser.click("#swap button");
}

#[test]
fn a_component_is_swapped_promoted_and_rolled_back_in_the_browser() {
    let Some((site, browser)) = visit_without_scripts() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, second) = (variant(folder.path(), 1), variant(folder.path(), 2));
    let original = digest(&site);
    let address = address(&site);
    let origin = address.split("/operator").next().expect("an origin").to_owned();

    browser.open(&address);
    browser.expect_text("main h1", "Components");
    assert!(!browser.url().contains("code="), "{}", browser.url());
    for width in [360, 1280, 2560] {
        browser.resize(width, 900);
        browser.open(&format!("{origin}/operator"));
        check_quiet(&browser, &origin);
        std::fs::write(screenshots().join(format!("operator-{width}.png")), browser.picture()).expect("a file");
    }
    browser.resize(1280, 900);
    browser.open(&format!("{origin}/operator/components/{COMPONENT}"));
    swap(&browser, &first, None);
    browser.expect_text("main .alert", "is serving: revision 2");
    let swapped = digest(&site);
    assert_ne!(swapped, original);

    swap(&browser, &second, Some("10"));
    browser.expect_text("main .alert", "is on trial");
    assert_eq!(serving(&site)["state"], "canary");
    browser.click("#canary a[href$=promote]");
    browser.expect_text("main", "The trial ends, and all callers get");
    browser.click("main form button");
    browser.expect_text("main .alert", "is serving");
    let promoted = digest(&site);
    assert!(promoted != swapped && promoted != original, "{promoted}");

    browser.click("a[href$=rollback]");
    browser.expect_text("main", &swapped[..12]);
    browser.click("main form button");
    browser.expect_text("main .alert", &swapped);
    assert_eq!(digest(&site), swapped);

    browser.open(&format!("{origin}/operator"));
    for action in ["swap", "canary", "promote", "rollback"] {
        browser.expect_text("section[aria-label='Audit log']", action);
    }
    check_quiet(&browser, &origin);
    browser.click("header form button");
    browser.expect_text("main h1", "Sign in");
    browser.open(&address);
    browser.expect_text("main .alert", "used already");
}

#[test]
fn a_browser_is_signed_in_by_the_page_that_the_command_opens() {
    let Some((site, browser)) = visit_without_scripts() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (arguments, _) = open_in_browser(&site.server, folder.path());
    browser.open(&format!("file://{}", arguments[0]));
    browser.expect_text("main h1", "Components");
    assert!(browser.url().ends_with("/operator"), "{}", browser.url());
}

#[test]
fn the_operators_pages_are_accessible() {
    if !is_enabled() {
        return;
    }
    let site = Site::start();
    for dark in [false, true] {
        let browser = Browser::start(&Options { dark, ..Options::default() });
        let address = address(&site);
        let origin = address.split("/operator").next().expect("an origin").to_owned();
        browser.open(&address);
        browser.expect_text("main h1", "Components");
        for path in ["", "/components/experiments", "/components/experiments/rollback", "/x", "/sign-in"] {
            browser.open(&format!("{origin}/operator{path}"));
            check_width(&browser, path);
            check_quiet(&browser, &origin);
            check_accessible(&browser, &format!("{path}, dark {dark}"));
        }
    }
}
