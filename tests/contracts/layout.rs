//! The layout: an area has one name everywhere, and every area has the same modules. The compiler has its profile.

use super::{areas, manifest, rust_files};
use hexad_tests::server::root;

#[test]
fn an_areas_name_is_its_folder_its_contract_and_its_component() {
    for area in areas() {
        let source = manifest()["component"][&area]["source"].as_str().expect("a path").to_owned();
        assert_eq!(source, format!("dist/{area}.wasm"));
        for path in [format!("components/{area}/Cargo.toml"), format!("wit/{area}.wit")] {
            assert!(root().join(&path).is_file(), "{path} is missing");
        }
    }
}

#[test]
fn every_area_has_the_same_modules() {
    for area in areas() {
        for module in ["lib", "entry", "route", "api"] {
            let path = root().join("components").join(&area).join("src").join(format!("{module}.rs"));
            assert!(path.is_file(), "{} is missing", path.display());
        }
    }
}

#[test]
fn only_the_module_route_has_urls() {
    for area in areas() {
        let folder = root().join("components").join(&area).join("src");
        for path in rust_files(&folder) {
            // Tests request URLs, and `route` defines them.
            let within = path.strip_prefix(&folder).expect("a file of the area").with_extension("");
            if within.iter().any(|part| part == "tests" || part == "route") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("readable");
            let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in shipped.lines().enumerate() {
                let code = line.trim_start();
                let is_url = !code.starts_with("//") && code.contains("\"/api/v4");
                assert!(!is_url, "{}:{}: a URL outside route.rs", path.display(), number + 1);
            }
        }
    }
}

/// The file's name is as in the Makefile. Without the file, the build succeeds, but the program is slower.
#[test]
fn there_is_a_profile_of_the_program_for_its_compiler() {
    let text = std::fs::read_to_string(root().join("rust-toolchain.toml")).expect("readable");
    let toolchain: toml::Table = toml::from_str(&text).expect("TOML");
    let version = toolchain["toolchain"]["channel"].as_str().expect("a version");
    let path = root().join(format!("host/profile/rustc-{version}-x86_64-unknown-linux-gnu.profdata"));
    assert!(path.is_file(), "{} is missing; `make profile` makes it", path.display());
}
