//! Packages as a client would publish them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha512};

/// A gzipped tar with a `package/package.json` and a file of `size` incompressible bytes, which depend only on `seed`.
pub fn tarball(name: &str, version: &str, size: usize, seed: u64) -> Vec<u8> {
    let manifest =
        json!({"name": name, "version": version, "main": "index.js", "dependencies": {"left": "^1.0.0"}}).to_string();
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, bytes) in [("package/package.json", manifest.into_bytes()), ("package/data.bin", noise(size, seed))] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        tar.append_data(&mut header, path, bytes.as_slice()).expect("memory");
    }
    tar.into_inner().expect("memory").finish().expect("memory")
}

/// Bytes that do not compress.
fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

/// The SHA-1 of a tarball in hexadecimal, as registries have it in `dist.shasum`.
pub fn shasum(tarball: &[u8]) -> String {
    hex::encode(Sha1::digest(tarball))
}

/// The publish document of npm 11 for `tarball`.
pub fn document(name: &str, version: &str, tag: &str, tarball: &[u8]) -> Vec<u8> {
    let file = format!("{name}-{version}.tgz");
    let shasum = shasum(tarball);
    let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(tarball)));
    json!({
        "_id": name,
        "name": name,
        "dist-tags": {tag: version},
        "versions": {version: {
            "name": name,
            "version": version,
            "description": "A package of the tests",
            "main": "index.js",
            "license": "MIT",
            "dependencies": {"left": "^1.0.0"},
            "readme": "ERROR: No README data found!",
            "_id": format!("{name}@{version}"),
            "_nodeVersion": "20.20.2",
            "_npmVersion": "11.19.1",
            "dist": {"integrity": integrity, "shasum": shasum, "tarball": format!("http://registry.test/{name}/-/{file}")},
        }},
        "access": null,
        "_attachments": {file: {
            "content_type": "application/octet-stream",
            "data": STANDARD.encode(tarball),
            "length": tarball.len(),
        }},
    })
    .to_string()
    .into_bytes()
}
