//! A small forge: users with tokens, groups, and projects of every visibility.

use crate::server::{BOOTSTRAP_TOKEN, Server};

pub const ADMIN: &str = "glpat-admin-0000000000000001";
/// Maintainer of `acme` and of all its projects.
pub const MAINTAINER: &str = "glpat-maintainer-000000000001";
/// Developer of `acme`.
pub const DEVELOPER: &str = "glpat-developer-0000000000001";
/// Guest of `acme`.
pub const GUEST: &str = "glpat-guest-00000000000000001";
/// A user without any membership.
pub const OUTSIDER: &str = "glpat-outsider-00000000000001";

/// Ids of `acme`'s projects by their visibility.
pub const PUBLIC: u64 = 7;
pub const INTERNAL: u64 = 8;
pub const PRIVATE: u64 = 9;

/// The records of the forge, as an import takes them.
pub const RECORDS: &str = r#"
{"kind":"user","id":1,"username":"root","name":"Administrator","state":"active","is_admin":true}
{"kind":"user","id":2,"username":"mia","name":"Mia Maintainer","state":"active"}
{"kind":"user","id":3,"username":"dev","name":"Dev Developer","state":"active"}
{"kind":"user","id":4,"username":"gus","name":"Gus Guest","state":"active"}
{"kind":"user","id":5,"username":"otto","name":"Otto Outsider","state":"active"}
{"kind":"token","user_id":1,"token":"glpat-admin-0000000000000001","scopes":["api"]}
{"kind":"token","user_id":2,"token":"glpat-maintainer-000000000001","scopes":["api"]}
{"kind":"token","user_id":3,"token":"glpat-developer-0000000000001","scopes":["api"]}
{"kind":"token","user_id":4,"token":"glpat-guest-00000000000000001","scopes":["api"]}
{"kind":"token","user_id":5,"token":"glpat-outsider-00000000000001","scopes":["api"]}
{"kind":"group","id":10,"name":"Acme","path":"acme","full_path":"acme","parent_id":null,"visibility":"public"}
{"kind":"group","id":11,"name":"Labs","path":"labs","full_path":"acme/labs","parent_id":10,"visibility":"private"}
{"kind":"project","id":7,"name":"Open","path":"open","path_with_namespace":"acme/open","namespace_id":10,"visibility":"public"}
{"kind":"project","id":8,"name":"Inner","path":"inner","path_with_namespace":"acme/inner","namespace_id":10,"visibility":"internal"}
{"kind":"project","id":9,"name":"Secret","path":"secret","path_with_namespace":"acme/labs/secret","namespace_id":11,"visibility":"private"}
{"kind":"member","source_type":"group","source_id":10,"user_id":2,"access_level":40}
{"kind":"member","source_type":"group","source_id":10,"user_id":3,"access_level":30}
{"kind":"member","source_type":"group","source_id":10,"user_id":4,"access_level":10}
"#;

/// A server of its own with the forge's records. Its data folder ends with it.
pub fn server(variables: &[(&str, &str)]) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start_with(folder.path(), variables).with_folder(folder);
    seed(&server);
    server
}

/// Imports the forge's records.
pub fn seed(server: &Server) {
    import(server, RECORDS);
}

/// Imports records of users, groups and projects, all of which must be valid.
#[track_caller]
pub fn import(server: &Server, lines: &str) {
    let answer = server.send("POST", "import/directory", BOOTSTRAP_TOKEN, lines);
    assert_eq!(answer.json()["failed"], 0, "{}", answer.text());
}
