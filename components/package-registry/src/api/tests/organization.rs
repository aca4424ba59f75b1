//! The requests of `npm access`, `npm org`, `npm team` and `npm hook`.

use super::*;

#[track_caller]
fn shows(forge: &Forge, user: &str, path: &str, expected: &Value) {
    let answer = forge.send(request(Method::GET, &format!("/packages/npm/-/{path}")).by(user));
    assert_eq!((answer.status, answer.json()), (200, expected.clone()), "{user} {path}");
}

fn status(forge: &Forge, method: Method, user: &str, path: &str) -> u16 {
    forge.send(request(method, &format!("/packages/npm/-/{path}")).by(user)).status
}

#[test]
fn collaborators_are_the_members_of_the_project() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.publish(PRIVATE, "@acme/core", "1.0.0");
    let members = json!({"maintainer": "write", "developer": "write", "reporter": "read"});
    shows(&forge, "outsider", "package/@acme%2flib/collaborators?format=cli", &members);
    shows(&forge, "reporter", "package/@acme%2fcore/collaborators", &members);
    shows(&forge, "reporter", "package/@acme%2flib/collaborators?user=Developer", &json!({"developer": "write"}));
    for (user, name, expected) in
        [("", "lib", 200), ("", "core", 401), ("outsider", "core", 403), ("developer", "none", 404)]
    {
        let path = format!("package/@acme%2f{name}/collaborators");
        assert_eq!(status(&forge, Method::GET, user, &path), expected, "{user} {name}");
    }
}

#[test]
fn an_organization_is_a_group() {
    let forge = Forge::new();
    for (project, name) in [(PUBLIC, "@acme/lib"), (INTERNAL, "tool"), (PRIVATE, "@acme/core"), (17, "@other/lib")] {
        forge.publish(project, name, "1.0.0");
    }
    shows(
        &forge,
        "developer",
        "org/acme/package",
        &json!({"@acme/lib": "write", "tool": "write", "@acme/core": "write"}),
    );
    shows(&forge, "outsider", "org/@acme/package?format=cli", &json!({"@acme/lib": "read", "tool": "read"}));
    let members =
        json!({"guest": "developer", "reporter": "developer", "developer": "developer", "maintainer": "admin"});
    shows(&forge, "outsider", "org/acme/user", &members);
    shows(&forge, "outsider", "org/acme/team", &json!([]));
    shows(&forge, "outsider", "npm/v1/hooks", &json!({"objects": [], "urls": {}}));
    shows(&forge, "", "org/acme/package", &json!({"@acme/lib": "read"}));
    for path in ["org/acme%2fsub/package", "org/acme%2fsub/user", "org/acme%2fsub/team", "npm/v1/hooks"] {
        assert_eq!(status(&forge, Method::GET, "", path), 401, "{path}");
    }
    for path in ["org/none/package", "org/none/user", "org/none/team", "org/acme%2fsub/user"] {
        assert_eq!(status(&forge, Method::GET, "outsider", path), 404, "{path}");
    }
}

#[test]
fn what_is_not_here_is_refused_with_a_way_out() {
    let forge = Forge::new();
    let teams = "there are no teams: add members to a group or to a project";
    let members = "the members of an organization are those of the group with its path: add and remove them there";
    let hooks = "this registry calls no hooks: ask for the metadata of a package with If-None-Match, whose ETag changes with \
                 every publication";
    for (method, path, text) in [
        (Method::PUT, "org/acme/team", teams),
        (Method::DELETE, "team/acme/developers", teams),
        (Method::PUT, "team/acme/developers/user", teams),
        (Method::DELETE, "team/acme/developers/package", teams),
        (Method::PUT, "org/acme/user", members),
        (Method::DELETE, "org/acme/user", members),
        (Method::POST, "npm/v1/hooks/hook", hooks),
        (Method::PUT, "npm/v1/hooks/hook/1", hooks),
    ] {
        let answer = forge.send(request(method.clone(), &format!("/packages/npm/-/{path}")).body("{}"));
        answer.is_refused(400, &format!("nothing was changed: {text}"));
        assert_eq!(status(&forge, method, "", path), 401, "{path}");
    }
    for (path, text) in [
        ("team/acme/developers/user", teams),
        ("team/acme/developers/package", teams),
        ("npm/v1/hooks/hook/1", hooks),
        ("user/guest/package", "packages belong to projects and not to users: ask for those of a group"),
    ] {
        forge.get(&format!("/packages/npm/-/{path}")).is_refused(404, text);
    }
}
