//! npm's commands about accounts and tokens.

use super::*;
use hexad_tests::forge::ADMIN;

/// `npm login` without a terminal: npm's own library. Like the command, it tries a web login first, and then name and
/// password.
const LOGIN: &str = r#"
const [folder, registry, username, password] = process.argv.slice(1);
const profile = require(`${folder}/node_modules/npm10/node_modules/npm-profile`);
const opener = async () => { throw new Error("a web page was opened"); };
const prompter = async () => ({ username, password });
profile.login(opener, prompter, { registry }).then(
  (answer) => console.log(JSON.stringify(answer)),
  (why) => { console.error(why.code, why.message); process.exit(1); },
);
"#;

/// `npm token create` of npm 10 without a terminal: npm's own library, for a read-only token.
const CREATE: &str = r#"
const [folder, registry, token, password] = process.argv.slice(1);
const profile = require(`${folder}/node_modules/npm10/node_modules/npm-profile`);
const options = { registry, [`${registry.replace("http:", "")}:_authToken`]: token };
profile.createToken(password, true, [], options).then(
  (answer) => console.log(JSON.stringify(answer)),
  (why) => { console.error(why.code, why.message); process.exit(1); },
);
"#;

struct User {
    machine: Machine,
    server: Server,
    registry: String,
}

impl User {
    fn new() -> Option<Self> {
        let server = server()?;
        let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", server.url);
        Some(User { machine: Machine::new(), server, registry })
    }

    fn log_in(&self, username: &str, password: &str) -> ProgramOutput {
        let clients = installed("clients").display().to_string();
        let arguments = ["-e", LOGIN, &clients, &self.registry, username, password];
        self.machine.run(&self.machine.folder("here"), "node", &arguments)
    }

    fn use_token(&self, token: &str) {
        self.machine.write_npmrc(&self.registry, token, "fetch-retries=0\nupdate-notifier=false\n");
    }

    fn npm(&self, arguments: &[&str]) -> ProgramOutput {
        self.machine.run(&self.machine.folder("here"), "npm", arguments)
    }

    /// A token of the developer, and its text.
    fn mint(&self, name: &str) -> String {
        let wanted = serde_json::json!({"username": "dev", "name": name, "scopes": ["api"]});
        let answer = self.server.send("POST", "personal_access_tokens", ADMIN, wanted.to_string()).json();
        answer["token"].as_str().expect("its text").to_owned()
    }
}

#[test]
fn npm_logs_in_with_a_personal_token_and_out_again() {
    let Some(user) = User::new() else { return };
    let spare = user.mint("spare");
    user.log_in("dev", "wrong").refused();
    user.log_in("mia", DEVELOPER).refused();
    let answer: Value = serde_json::from_str(&user.log_in("dev", DEVELOPER).ok()).expect("JSON");
    let token = answer["token"].as_str().expect("a token").to_owned();
    user.use_token(&token);
    assert_eq!(user.npm(&["whoami"]).ok().trim(), "dev");
    let profile: Value = serde_json::from_str(&user.npm(&["profile", "get", "--json"]).ok()).expect("JSON");
    assert_eq!((&profile["name"], &profile["fullname"]), (&"dev".into(), &"Dev Developer".into()));
    let listed = user.npm(&["token", "list", "--json"]).ok();
    assert!(!listed.contains(&token) && !listed.contains(&spare), "{listed}");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 2, "{listed:?}");
    let spare_entry = listed.iter().find(|entry| entry["name"] == "spare").expect("the other token");
    let key = spare_entry["key"].as_str().expect("a key");
    user.npm(&["token", "revoke", &key[..12]]).ok();
    user.use_token(&spare);
    user.npm(&["whoami"]).refused();
    user.use_token(&token);
    user.npm(&["logout"]).ok();
    user.use_token(&token);
    assert!(user.npm(&["whoami"]).refused().contains("E401"), "the token ends everywhere");
}

#[test]
fn npm_creates_tokens() {
    let Some(user) = User::new() else { return };
    user.use_token(DEVELOPER);
    let password = format!("--password={DEVELOPER}");
    let create = |more: &[&str]| {
        let mut arguments = vec!["token", "create", "--name=ci", "--json", &password];
        arguments.extend(more);
        user.npm(&arguments)
    };
    let text = |printed: String| {
        let answer: Value = serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{why}: {printed}"));
        answer["token"].as_str().expect("its text").to_owned()
    };
    let writer = text(create(&["--packages-and-scopes-permission=read-write", "--expires=30"]).ok());
    let printed = create(&["--cidr=10.0.0.0/8"]).refused();
    assert!(printed.contains("cidr_whitelist is not supported"), "{printed}");

    let clients = installed("clients").display().to_string();
    let arguments = ["-e", CREATE, &clients, &user.registry, &writer, DEVELOPER];
    let reader = text(user.machine.run(&user.machine.folder("here"), "node", &arguments).ok());
    for token in [&writer, &reader] {
        user.use_token(token);
        assert_eq!(user.npm(&["whoami"]).ok().trim(), "dev");
    }
    let printed = create(&[]).refused();
    assert!(printed.contains("E403"), "a token that only reads makes none: {printed}");
    let listed: Value = serde_json::from_str(&user.npm(&["token", "list", "--json"]).ok()).expect("JSON");
    let readonly: Vec<bool> =
        listed.as_array().expect("a list").iter().map(|entry| entry["readonly"] == true).collect();
    assert_eq!(readonly.iter().filter(|readonly| **readonly).count(), 1, "{listed}");
}
