//! Where people see a namespace or project.

use kit::path;

/// The page of a full path below `base`: each segment is encoded, the slashes are not.
pub fn page(base: &str, full_path: &str) -> String {
    let segments: Vec<String> = full_path.split('/').map(path::encode).collect();
    format!("{base}/{}", segments.join("/"))
}

/// The page of a group.
pub fn group(base: &str, full_path: &str) -> String {
    page(&format!("{base}/groups"), full_path)
}
