//! The vendored interfaces are byte for byte those of the guest SDK that the components are built with. So a component
//! and its contract cannot drift apart.

use super::*;
use std::process::Command;

/// Our folder below `wit/deps`, and the SDK's.
const FROM_SDK: [(&str, &str); 8] = [
    ("cli@0.3.0", "cli@0.3.0"),
    ("clocks@0.3.0", "clocks@0.3.0"),
    ("filesystem@0.3.0", "filesystem@0.3.0"),
    ("http@0.3.0", "http@0.3.0"),
    ("random@0.3.0", "random@0.3.0"),
    ("sockets@0.3.0", "sockets@0.3.0"),
    ("keyvalue@0.2.0-draft2", "wasi-keyvalue-2024-10-17"),
    ("spin-variables@3.0.0", "spin-variables@3.0.0"),
];

/// Where cargo keeps the sources of spin-sdk.
fn sdk() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "wasm32-wasip2"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let sdk = packages.iter().find(|package| package["name"] == "spin-sdk").expect("spin-sdk is a dependency");
    Path::new(sdk["manifest_path"].as_str().expect("a path")).parent().expect("a folder").join("wit/deps")
}

#[test]
fn vendored_interfaces_match_the_sdk() {
    let sdk = sdk();
    for (ours, theirs) in FROM_SDK {
        let folder = root().join("wit/deps").join(ours);
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display())) {
            let name = entry.expect("an entry").file_name();
            let read = |path: PathBuf| {
                std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
            };
            let (vendored, original) = (read(folder.join(&name)), read(sdk.join(theirs).join(&name)));
            // The key-value package is taken without its watcher, which no area exports.
            let expected = original.split("\nworld watch-service").next().unwrap_or_default();
            assert_eq!(vendored.trim_end(), expected.trim_end(), "{ours}/{}", name.to_string_lossy());
        }
    }
}
