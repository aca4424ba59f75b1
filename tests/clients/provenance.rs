//! `npm publish --provenance` in a job of a forge. All parts are npm's own, except for the signature, because
//! sigstore's services have fixed addresses.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hexad_tests::registry::Registry;

const NAME: &str = "@acme/built";

/// Replaces npm's signing library, and gives npm a bundle without a signature.
const UNSIGNED: &str = r#"
const { Module } = require("module");
const load = Module._load;
const mediaType = "application/vnd.dev.sigstore.bundle.v0.3+json";
async function attest(payload, payloadType) {
  const dsseEnvelope = { payload: payload.toString("base64"), payloadType, signatures: [] };
  return { mediaType, verificationMaterial: { tlogEntries: [] }, dsseEnvelope };
}
Module._load = (name, ...more) => (name === "sigstore" ? { attest } : load(name, ...more));
"#;

/// Publishes to a private project, which npm refuses after it has asked the registry, and to a public one.
fn publish_with_provenance(npm: &Npm) {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let here = machine.folder("here");
    machine.write("here/unsigned.cjs", UNSIGNED);
    let preload = format!("NODE_OPTIONS=--require={}", here.join("unsigned.cjs").display());
    let publish = |project: u64| {
        let registry = format!("{}/api/v4/projects/{project}/packages/npm/", server.url);
        npm.sign_in(&machine, &registry, DEVELOPER);
        let command = npm.command();
        let mut all = vec!["GITLAB_CI=true", "SIGSTORE_ID_TOKEN=none", &preload];
        all.extend(command.iter().map(String::as_str));
        all.extend(["publish", "--provenance"]);
        machine.run(&package(&machine, NAME, "1.0.0", ""), "env", &all)
    };
    let printed = publish(PRIVATE).refused();
    assert!(printed.contains("Can't generate provenance for new or private package"), "{printed}");
    publish(PUBLIC).ok();

    let printed = npm.run(&machine, &here, &["view", NAME, "dist.attestations", "--json"]).ok();
    let listed: Value = serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{why}: {printed}"));
    let kind = json!("https://slsa.dev/provenance/v0.2");
    assert_eq!(listed["provenance"]["predicateType"], kind, "{listed}");
    let url = listed["url"].as_str().expect("an address");
    let served = Registry::new(&server, PUBLIC, DEVELOPER).fetch(url).expect("an answer").json();
    let attestation = &served["attestations"][0];
    assert_eq!(attestation["predicateType"], kind, "{served}");
    let payload = attestation["bundle"]["dsseEnvelope"]["payload"].as_str().expect("a statement");
    let statement = STANDARD.decode(payload).expect("base64");
    let statement: Value = serde_json::from_slice(&statement).expect("JSON");
    assert_eq!(statement["subject"][0]["name"], "pkg:npm/%40acme/built@1.0.0", "{statement}");
}

tests_of! {
    npm_publishes_with_provenance: publish_with_provenance(&Npm::OnPath);
    npm_10_publishes_with_provenance: publish_with_provenance(&Npm::Ten);
}
