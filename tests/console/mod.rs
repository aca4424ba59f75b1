//! The pages in a real browser: users' actions reach the real areas, no text of a user runs as code, and nothing is
//! loaded from elsewhere.

mod demo;
mod hostile;
mod journeys;
mod operator;
mod quality;
mod site;

use self::site::{Site, check_accessible, check_quiet, check_width, screenshots};
use hexad_tests::browser::{Browser, Options, is_enabled};
use hexad_tests::forge::{ADMIN, DEVELOPER};
use hexad_tests::repository::Repository;
use hexad_tests::server::{BOOTSTRAP_TOKEN, root};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A site and a browser, or none if these tests do not run.
fn visit() -> Option<(Site, Browser)> {
    is_enabled().then(|| (Site::start(), Browser::start(&Options::default())))
}

fn visit_without_scripts() -> Option<(Site, Browser)> {
    let options = Options { without_scripts: true, ..Options::default() };
    is_enabled().then(|| (Site::start(), Browser::start(&options)))
}
