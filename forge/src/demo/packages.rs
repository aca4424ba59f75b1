//! The packages of the demo, published as npm does.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use crate::server::Server;

/// A package with its history.
struct Package {
    name: &'static str,
    description: &'static str,
    keywords: &'static [&'static str],
    versions: &'static [&'static str],
    dependencies: &'static [(&'static str, &'static str)],
    readme: &'static str,
}

const PACKAGES: [Package; 3] = [
    Package {
        name: "@showcase/colors",
        description: "Colors for terminals, without dependencies",
        keywords: &["terminal", "color", "cli"],
        versions: &[
            "0.9.0",
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "1.2.0",
            "1.2.1",
            "2.0.0-beta.1",
            "2.0.0",
            "2.1.0",
            "2.1.1",
            "2.2.0",
        ],
        dependencies: &[],
        readme: include_str!("readmes/colors.markdown"),
    },
    Package {
        name: "@showcase/router",
        description: "A router for web servers that fits on one page",
        keywords: &["http", "router", "server"],
        versions: &["0.1.0", "0.2.0", "0.3.0", "1.0.0", "1.1.0", "1.1.1"],
        dependencies: &[("@showcase/colors", "^2.0.0")],
        readme: include_str!("readmes/router.markdown"),
    },
    Package {
        name: "@showcase/cli",
        description: "A command line that says what it does",
        keywords: &["cli", "arguments"],
        versions: &["1.0.0", "1.1.0", "1.2.0", "1.3.0"],
        dependencies: &[("@showcase/colors", "^2.1.0"), ("@showcase/router", "^1.0.0")],
        readme: include_str!("readmes/cli.markdown"),
    },
];

/// Publishes every version of every package to a project.
pub fn publish(server: &Server, project: u64) -> Result<()> {
    for package in &PACKAGES {
        for (index, version) in package.versions.iter().enumerate() {
            let name = package.name.replace('/', "%2f");
            let path = format!("projects/{project}/packages/npm/{name}");
            server.put_json(&path, &document(package, version, index)?)?;
        }
    }
    Ok(())
}

/// The publish document of one version.
fn document(package: &Package, version: &str, index: usize) -> Result<Value> {
    let dependencies: serde_json::Map<String, Value> =
        package.dependencies.iter().map(|(name, range)| ((*name).to_owned(), Value::from(*range))).collect();
    let manifest = json!({
        "name": package.name, "version": version, "description": package.description, "keywords": package.keywords,
        "license": "MIT", "main": "index.js", "dependencies": dependencies, "engines": {"node": ">=20"},
        "repository": {"type": "git", "url": format!("git+https://forge.example.com/showcase/libraries/{}.git", package.name.trim_start_matches("@showcase/"))},
    });
    let tarball = tarball(package, &manifest, index)?;
    let file = format!("{}-{version}.tgz", package.name);
    let tag = if version.contains('-') { "next" } else { "latest" };
    let mut record = manifest;
    if let Some(record) = record.as_object_mut() {
        record.insert("readme".into(), package.readme.into());
        // The registry compares only the digest. It serves the file at its own address.
        let address = format!("https://registry.example.com/{}/-/{file}", package.name);
        record.insert("dist".into(), json!({"tarball": address, "shasum": hex::encode(Sha1::digest(&tarball))}));
    }
    Ok(json!({
        "_id": package.name, "name": package.name, "description": package.description, "readme": package.readme,
        "dist-tags": {tag: version}, "versions": {version: record},
        "_attachments": {file: {
            "content_type": "application/octet-stream", "data": STANDARD.encode(&tarball), "length": tarball.len(),
        }},
    }))
}

/// A gzipped tar with the manifest, the readme, and code that grows with each version. Its bytes are the same each
/// time, so that an interrupted demo can be loaded again.
fn tarball(package: &Package, manifest: &Value, index: usize) -> Result<Vec<u8>> {
    let code: String = (0..40 + index * 12)
        .map(|line| format!("exports.f{line} = (text) => `\\u001b[{line}m${{text}}\\u001b[0m`;\n"))
        .collect();
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (name, contents) in [
        ("package.json", serde_json::to_string_pretty(manifest)?),
        ("README.md", package.readme.to_owned()),
        ("index.js", code),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, format!("package/{name}"), contents.as_bytes())?;
    }
    Ok(archive.into_inner()?.finish()?)
}
