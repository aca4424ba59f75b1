//! The most that the versions of a package can have together.

use super::*;

/// In bytes.
const MAX_METADATA: u64 = 24 << 20;
const LIMIT: (&str, &str) = ("registry_max_metadata_bytes", "25165824");

const PATH: &str = "/projects/7/packages/npm/lib";

fn large(version: &str) -> Publication {
    publication("lib", version).change(|d| d["versions"][version]["funding"] = json!("y".repeat(1_950_000)))
}

#[test]
fn a_package_grows_until_its_metadata_could_not_be_rendered() {
    let mut forge = Forge::new();
    forge.variables.extend([("bootstrap_admin_token", "boot"), LIMIT]);
    for n in 0..12 {
        assert_eq!(forge.send(large(&format!("1.0.{n}")).to(PUBLIC)).status, 200, "{n}");
    }
    let refused = forge.send(large("2.0.0").to(PUBLIC));
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains(&MAX_METADATA.to_string()) && refused.text().contains("registry_max_metadata_bytes")
    );
    let fsck = request(Method::POST, "/maintenance/package-registry/fsck").by("boot").body("{}");
    assert_eq!(forge.send(fsck).json()["failed"], 0);

    // As clients unpublish a version: with the document without it.
    let mut document = forge.get(PATH).json();
    let revision = document["_rev"].as_str().unwrap().to_owned();
    document["versions"].as_object_mut().unwrap().remove("1.0.0").unwrap();
    let path = format!("{PATH}/-rev/{revision}");
    let answer = forge.send(request(Method::PUT, &path).by("maintainer").body(document.to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(forge.send(large("2.0.0").to(PUBLIC)).status, 200);
}

#[test]
fn deprecations_make_a_package_no_larger() {
    let mut forge = super::cost::forge(650);
    forge.variables.push(LIMIT);
    let deprecate = |from: u64, message: &str| {
        let mut document = json!({"name": "lib", "versions": {}});
        for n in from..from + 160 {
            document["versions"][format!("1.0.{n}")] = json!({"deprecated": message});
        }
        forge.send(request(Method::PUT, PATH).by("maintainer").body(document.to_string()))
    };
    let long = "y".repeat(64 * 1024);
    let answers: Vec<TestResponse> = [1, 161, 321, 481].map(|from| deprecate(from, &long)).into();
    assert_eq!((answers[0].status, answers[3].status), (200, 400));
    assert!(answers[3].text().contains("shorten the messages"), "{}", answers[3].text());
    assert!(forge.get(PATH).body.len() as u64 <= MAX_METADATA + (1 << 20));
    assert_eq!(deprecate(1, "").status, 200);
}
