//! The web pages of namespaces and projects.

use kit::path;

/// The page of a user or project with this full path. Each segment is encoded, the slashes are not.
pub fn page(base: &str, full_path: &str) -> String {
    match directory::path::begins_like_page(full_path) {
        true => below(&format!("{base}/namespaces"), full_path),
        false => below(base, full_path),
    }
}

fn below(base: &str, full_path: &str) -> String {
    let segments: Vec<String> = full_path.split('/').map(path::encode).collect();
    format!("{base}/{}", segments.join("/"))
}

/// The page of a group.
pub fn group(base: &str, full_path: &str) -> String {
    below(&format!("{base}/groups"), full_path)
}
