use super::*;
use directory::access::Role;
use directory::catalog::change::{Changes, announce};
use directory::member::{Membership, Share, Source};
use directory::namespace::{Details, NewGroup, Visibility};
use directory::project::{FeatureAccess, JobTokens, NewProject};
use directory::token::{self, Fingerprint, Holder, Token};
use directory::user::{self, NewUser, State};
use directory::{member as membership, project};
use futures::executor::block_on;
use http::Method;
use kit::Timestamp;
use kit::double::{FailingStore, MemoryStore, env};
use serde_json::{Map, Value, json};

mod oracle;

/// A forge that is filled step by step; the catalog follows each.
pub struct Forge(pub Env);

impl Forge {
    pub fn empty() -> Self {
        Forge(env(MemoryStore::default(), &[("external_url", "https://forge.test/")]))
    }

    /// Users 1 (administrator), 2 alice, 3 bob, 4 eve, 5 a bot; groups 10 acme, 11 acme/core, 12
    /// acme/core/deep, 20 guild; their tokens are `t` and the id.
    pub fn filled() -> Self {
        let forge = Forge::empty();
        [(1, "root"), (2, "alice"), (3, "bob"), (4, "eve")].into_iter().for_each(|(id, name)| forge.user(id, name));
        forge.save_user(NewUser { bot: true, ..new_user(5, "robot") });
        forge.group(10, "acme", None);
        forge.group(11, "core", Some(10));
        forge.group(12, "deep", Some(11));
        forge.group(20, "guild", None);
        forge
    }

    pub fn user(&self, id: u64, username: &str) {
        self.save_user(NewUser { is_admin: id == 1, ..new_user(id, username) });
    }

    pub fn save_user(&self, new: NewUser) {
        let mut changes = Changes::default();
        changes.user(new.id, None);
        let (announcement, id) = (announce(&self.0, changes).unwrap(), new.id);
        user::save(&self.0, new).unwrap();
        announcement.settle(&self.0).unwrap();
        for (prefix, scope) in [("t", "api"), ("r", "read_api"), ("x", "read_user")] {
            let token = Token {
                holder: Holder::User(id),
                name: String::new(),
                scopes: vec![scope.into()],
                expires_at: None,
                revoked: false,
            };
            token::save(&self.0, &Fingerprint::of(format!("{prefix}{id}").as_bytes()), Some(token)).unwrap();
        }
    }

    pub fn group(&self, id: u64, path: &str, parent_id: Option<u64>) {
        self.save_group(new_group(id, path, parent_id));
    }

    pub fn save_group(&self, new: NewGroup) {
        let mut changes = Changes::default();
        changes.group(new.id);
        let announcement = announce(&self.0, changes).unwrap();
        namespace::save_group(&self.0, new).unwrap();
        announcement.settle(&self.0).unwrap();
    }

    pub fn project(&self, id: u64, namespace_id: u64, shares: Vec<Share>, pages: Option<&str>) {
        let mut changes = Changes::default();
        changes.project(id);
        let announcement = announce(&self.0, changes).unwrap();
        let project = NewProject {
            id,
            name: format!("P{id}"),
            path: format!("p{id}"),
            namespace_id,
            visibility: Visibility::Public,
            registry: FeatureAccess::Enabled,
            issues: FeatureAccess::Enabled,
            archived: false,
            default_branch: None,
            creator_id: None,
            shares,
            job_tokens: JobTokens { restricted: true, projects: vec![], groups: vec![] },
            protected_branches: vec![],
            suggestion_commit_message: None,
            analytics: Default::default(),
            pages_unique_domain: pages.map(str::to_owned),
        };
        project::save(&self.0, project).unwrap();
        announcement.settle(&self.0).unwrap();
    }

    pub fn join(&self, user_id: u64, source: Source, role: Role, expires_at: Option<Timestamp>) {
        let mut changes = Changes::default();
        changes.member(source, user_id);
        let announcement = announce(&self.0, changes).unwrap();
        let membership = Membership { role, expires_at };
        membership::save(&self.0, user_id, &[(source, Some(membership))].into()).unwrap();
        announcement.settle(&self.0).unwrap();
    }

    fn set(&self, settings: Value) {
        let settings: Map<String, Value> = settings.as_object().unwrap().clone();
        setting::save(&self.0, &settings).unwrap();
    }

    pub fn get(&self, token: &str, path: &str) -> Answer {
        get(&self.0, token, path)
    }

    fn fields(&self, token: &str, path: &str) -> String {
        let answer = self.get(token, path);
        let names = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        names(&answer.body)
    }
}

pub fn new_user(id: u64, username: &str) -> NewUser {
    NewUser {
        id,
        username: username.into(),
        name: username.to_uppercase(),
        state: State::Active,
        is_admin: false,
        external: false,
        bot: false,
        namespace_id: None,
        commit_email: None,
        details: Details::default(),
    }
}

pub fn new_group(id: u64, path: &str, parent_id: Option<u64>) -> NewGroup {
    NewGroup {
        id,
        name: path.to_uppercase(),
        path: path.into(),
        parent_id,
        visibility: Visibility::Public,
        shares: vec![],
        details: Details::default(),
    }
}

pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub headers: http::HeaderMap,
}

impl Answer {
    pub fn ids(&self) -> Vec<u64> {
        self.body
            .as_array()
            .unwrap_or_else(|| panic!("{}", self.body))
            .iter()
            .map(|n| n["id"].as_u64().unwrap())
            .collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("(none)", |value| value.to_str().unwrap())
    }
}

fn get(env: &Env, token: &str, path: &str) -> Answer {
    let mut request = Request::new(Method::GET, &format!("/api/v4/{path}"));
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    let response = block_on(handle(env.clone(), request));
    let status = response.status.as_u16();
    let body = block_on(response.body.collect(1 << 20)).unwrap();
    Answer { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null), headers: response.headers }
}

const PERSONAL: u64 = 4_000_000_000;

#[test]
fn anonymous_callers_and_small_tokens_get_nothing() {
    let forge = Forge::filled();
    for path in ["namespaces?page=x", "namespaces/10", "namespaces/acme/exists?parent_id=x"] {
        let answer = forge.get("", path);
        assert_eq!((answer.status, answer.body), (401, json!({"message": "401 Unauthorized"})), "{path}");
        let answer = forge.get("x2", path);
        assert_eq!((answer.status, &answer.body["error"]), (403, &json!("insufficient_scope")), "{path}");
    }
    assert_eq!(forge.get("r2", "namespaces").status, 200);
}

#[test]
fn parameters_are_checked_together() {
    let forge = Forge::filled();
    let error = |query: &str| {
        let answer = forge.get("t2", &format!("namespaces?{query}"));
        (answer.status, answer.body["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(error("owned_only=maybe"), (400, "owned_only is invalid".into()));
    assert_eq!(
        error("top_level_only=x&full_path_search=y&page=z&per_page=0"),
        (
            400,
            "top_level_only is invalid, full_path_search is invalid, page is invalid, per_page has a value not allowed"
                .into()
        )
    );
    let answer = forge.get("t2", "namespaces/acme/exists?parent_id=x");
    assert_eq!((answer.status, answer.body), (400, json!({"error": "parent_id is invalid"})));
    assert_eq!(forge.get("t2", "namespaces?unknown=1&owned_only=&search=").status, 200);
}

#[test]
fn a_user_sees_their_own_and_the_groups_they_are_directly_in() {
    let forge = Forge::filled();
    let ended = Some(forge.0.now);
    forge.join(2, Source::Group(11), Role::Guest, None);
    forge.join(2, Source::Group(20), Role::Owner, None);
    forge.join(3, Source::Group(10), Role::MinimalAccess, None);
    forge.join(3, Source::Group(20), Role::Owner, ended);
    assert_eq!(forge.get("t2", "namespaces").ids(), [11, 20, PERSONAL + 2], "not deep, which is inherited");
    assert_eq!(forge.get("t2", "namespaces?owned_only=true").ids(), [20, PERSONAL + 2]);
    assert_eq!(forge.get("t2", "namespaces?top_level_only=1").ids(), [20, PERSONAL + 2]);
    assert_eq!(forge.get("t3", "namespaces").ids(), [PERSONAL + 3]);
    let all = [10, 11, 12, 20, PERSONAL + 1, PERSONAL + 2, PERSONAL + 3, PERSONAL + 4, PERSONAL + 5];
    assert_eq!(forge.get("t1", "namespaces").ids(), all);
    assert_eq!(forge.get("t1", "namespaces?owned_only=true").ids(), all, "not for administrators");
    assert_eq!(forge.get("t1", "namespaces?top_level_only=t").ids().len(), 7);
}

#[test]
fn searches() {
    let forge = Forge::filled();
    forge.save_group(NewGroup { name: "Äpfel & Birnen".into(), ..new_group(30, "fruit", Some(10)) });
    forge.group(31, "ab", None);
    let found = |query: &str| forge.get("t1", &format!("namespaces?{query}")).ids();
    assert_eq!(found("search=CORE"), [11]);
    assert_eq!(found("search=%C3%A4PFEL+birnen"), [30]);
    assert_eq!(found("search=%22pfel+%26%22"), [30], "a phrase");
    assert_eq!(found("search=fruit+birnen"), [0; 0], "all words in the same text");
    assert_eq!(found("search=ab"), [31], "a short word is the whole text");
    assert_eq!(found("search=co"), [0; 0]);
    assert_eq!(found("search=co+acme"), [10], "beside a longer one it is nothing");
    assert_eq!(found("search=acme/core"), [0; 0]);
    assert_eq!(found("search=acme/core&full_path_search=true"), [11, 12]);
    assert_eq!(found("search=ME/core/d&full_path_search=true"), [12]);
    assert_eq!(found("search=acme/&full_path_search=true"), [11, 12, 30]);
    assert_eq!(found("search=/core&full_path_search=true"), [11, 12]);
    assert_eq!(found("search=acme&full_path_search=true"), [10, 11, 12, 30]);
    assert_eq!(found("search=acme+deep&full_path_search=true"), [12]);
    assert_eq!(found("search=%22acme+/+core%22&full_path_search=true"), [11, 12], "in the full name");
    assert_eq!(found("search=%22acme+/%22&full_path_search=true"), [11, 12, 30]);
    assert_eq!(found("search=ab&full_path_search=true"), [31]);
    assert_eq!(found("search=acme&full_path_search=true&top_level_only=true"), [10]);
    forge.join(2, Source::Group(12), Role::Guest, None);
    let mine = |query: &str| forge.get("t2", &format!("namespaces?{query}")).ids();
    assert_eq!(mine("search=core"), [0; 0]);
    assert_eq!(mine("search=core&full_path_search=true"), [12]);
    assert_eq!(mine("search=ALICE"), [PERSONAL + 2]);
}

#[test]
fn pages_and_their_links_keep_the_filters() {
    let forge = Forge::empty();
    forge.user(1, "root");
    (100..145).for_each(|id| forge.group(id, &format!("group-{id}"), None));
    let answer = forge.get("t1", "namespaces?search=Group+x&page=2&per_page=20&private_token=t1&owned_only=0");
    assert_eq!(answer.ids(), (120..140).collect::<Vec<_>>());
    let totals = ["x-total", "x-total-pages", "x-page", "x-per-page", "x-next-page", "x-prev-page"];
    assert_eq!(totals.map(|name| answer.header(name)), ["45", "3", "2", "20", "3", "1"]);
    let link = |page: u32, rel: &str| {
        format!(
            "<https://forge.test/api/v4/namespaces?full_path_search=false&owned_only=false&page={page}&per_page=20&search=Group+x&top_level_only=false>; rel=\"{rel}\""
        )
    };
    assert_eq!(answer.header("link"), [link(1, "prev"), link(3, "next"), link(1, "first"), link(3, "last")].join(", "));
    let past = forge.get("t1", "namespaces?page=9");
    assert_eq!((past.ids().len(), past.header("x-next-page"), past.header("x-prev-page")), (0, "", ""));
    assert_eq!(forge.get("t1", "namespaces?per_page=1000").header("x-per-page"), "100");
    assert_eq!(forge.get("t1", "namespaces?page=-1&per_page=-1&pagination=keyset").header("x-per-page"), "20");
}

#[test]
fn who_belongs_to_a_namespace_sees_it() {
    let forge = Forge::filled();
    forge.project(100, 11, vec![], None);
    forge.join(2, Source::Group(10), Role::Guest, None);
    forge.join(3, Source::Project(100), Role::Owner, None);
    let share = Share { group_id: 10, role: Role::Developer, expires_at: None };
    forge.save_group(NewGroup { shares: vec![share], ..new_group(20, "guild", None) });
    let status = |token: &str, id: &str| forge.get(token, &format!("namespaces/{id}")).status;
    for id in ["10", "11", "acme%2Fcore", "ACME%2fCore%2Fdeep", "20", "alice", "4000000002"] {
        assert_eq!(status("t2", id), 200, "{id}");
    }
    for (token, id) in [
        ("t2", "bob"),
        ("t3", "11"),
        ("t3", "acme"),
        ("t4", "10"),
        ("t1", "99"),
        ("t1", "acme%2Fp100"),
        ("t1", "nobody"),
        ("t1", ".."),
    ] {
        let answer = forge.get(token, &format!("namespaces/{id}"));
        assert_eq!((answer.status, answer.body), (404, json!({"message": "404 Namespace Not Found"})), "{token} {id}");
    }
    assert_eq!((status("t1", "bob"), status("t1", "guild")), (200, 200));
    let shown = forge.get("t2", "namespaces/acme%2Fcore").body;
    assert_eq!(
        shown,
        json!({"id": 11, "name": "CORE", "path": "core", "kind": "group", "full_path": "acme/core", "parent_id": 10, "avatar_url": null, "web_url": "https://forge.test/groups/acme/core", "billable_members_count": 1})
    );
    let own = forge.get("t2", "namespaces/alice").body;
    assert_eq!(
        own,
        json!({"id": PERSONAL + 2, "name": "ALICE", "path": "alice", "kind": "user", "full_path": "alice", "parent_id": null, "avatar_url": null, "web_url": "https://forge.test/alice", "billable_members_count": 1, "plan": "free", "trial_ends_on": null, "trial": false})
    );
}

#[test]
fn fields_are_for_those_whom_they_concern() {
    let forge = Forge::filled();
    let basic = "avatar_url billable_members_count full_path id kind name parent_id path web_url";
    let with = |more: &[&str]| -> String {
        let mut names: Vec<&str> = basic.split(' ').chain(more.iter().copied()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let owned =
        ["members_count_with_descendants", "projects_count", "root_repository_size", "plan", "trial", "trial_ends_on"];
    let operated = [
        "additional_purchased_storage_ends_on",
        "additional_purchased_storage_size",
        "extra_shared_runners_minutes_limit",
        "shared_runners_minutes_limit",
    ];
    let subscribed = ["seats_in_use", "max_seats_used", "max_seats_used_changed_at", "end_date"];
    forge.join(2, Source::Group(10), Role::Maintainer, None);
    forge.join(3, Source::Group(10), Role::Owner, None);
    assert_eq!(forge.fields("t2", "namespaces/10"), basic);
    assert_eq!(forge.fields("t3", "namespaces/11"), with(&owned), "an inherited owner");
    assert_eq!(forge.fields("t1", "namespaces/10"), with(&[&owned[..], &operated].concat()));
    assert_eq!(forge.fields("t1", "namespaces/bob"), with(&[&owned[3..], &operated].concat()));
    let details = Details {
        plan: Some("premium".into()),
        end_date: Timestamp::parse("2027-03-01"),
        max_seats_used: Some(7),
        max_seats_used_changed_at: Timestamp::parse("2026-05-15T12:00:02Z"),
        seats_in_use: Some(5),
        root_repository_size: Some(4096),
        avatar_url: Some("https://forge.test/a.png".into()),
        additional_purchased_storage_ends_on: Timestamp::parse("2027-04-01"),
        shared_runners_minutes_limit: Some(133),
        ..Details::default()
    };
    forge.save_group(NewGroup { details, ..new_group(10, "acme", None) });
    assert_eq!(forge.fields("t2", "namespaces/10"), with(&subscribed));
    let shown = forge.get("t1", "namespaces/10").body;
    for (field, value) in [
        ("plan", json!("premium")),
        ("end_date", json!("2027-03-01")),
        ("max_seats_used", json!(7)),
        ("max_seats_used_changed_at", json!("2026-05-15T12:00:02.000Z")),
        ("seats_in_use", json!(5)),
        ("root_repository_size", json!(4096)),
        ("avatar_url", json!("https://forge.test/a.png")),
        ("additional_purchased_storage_size", json!(0)),
        ("additional_purchased_storage_ends_on", json!("2027-04-01")),
        ("shared_runners_minutes_limit", json!(133)),
        ("extra_shared_runners_minutes_limit", json!(null)),
        ("billable_members_count", json!(2)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(forge.get("t3", "namespaces/12").body["plan"], "premium", "the plan is that of the top");
    forge.set(json!({"hosted": false}));
    assert_eq!(forge.fields("t1", "namespaces/10"), with(&owned));
    assert_eq!(forge.get("t1", "namespaces/20").body["plan"], "default");
    forge.set(json!({"license": "free"}));
    let free = with(&owned[..3]).replace(" billable_members_count", "").replace("billable_members_count ", "");
    assert_eq!(forge.fields("t1", "namespaces/10"), free);
}

#[test]
fn billing_can_be_kept_for_owners() {
    let forge = Forge::filled();
    let details = Details {
        plan: Some("gold".into()),
        seats_in_use: Some(5),
        end_date: Timestamp::parse("2027-03-01"),
        ..Details::default()
    };
    forge.save_group(NewGroup { details, ..new_group(10, "acme", None) });
    forge.join(2, Source::Group(10), Role::Maintainer, None);
    forge.join(3, Source::Group(10), Role::Owner, None);
    let billing = |token: &str| {
        let body = forge.get(token, "namespaces/10").body;
        ["billable_members_count", "seats_in_use", "max_seats_used", "end_date"]
            .map(|name| body.get(name).cloned().unwrap())
    };
    let open = [json!(2), json!(5), json!(0), json!("2027-03-01")];
    assert_eq!(billing("t2"), open);
    feature::save(&forge.0, RESTRICTED, |gates| gates.actors = ["Group:10".to_owned()].into()).unwrap();
    assert_eq!(billing("t2"), [Value::Null, Value::Null, Value::Null, Value::Null]);
    assert_eq!((billing("t3"), billing("t1")), (open.clone(), open));
    feature::save(&forge.0, RESTRICTED, |gates| gates.boolean = true).unwrap();
    assert_eq!(forge.get("t4", "namespaces/eve").body["billable_members_count"], 1, "an owner of their own");
}

#[test]
fn members_are_counted_once_and_by_what_they_may_do() {
    let forge = Forge::filled();
    forge.save_user(NewUser { state: State::Blocked, ..new_user(6, "gone") });
    forge.user(7, "guest");
    forge.user(8, "invited");
    let share = |role| vec![Share { group_id: 20, role, expires_at: None }];
    forge.project(100, 12, share(Role::Guest), None);
    forge.project(101, PERSONAL + 2, vec![], None);
    for (user, source, role) in [
        (2, Source::Group(10), Role::Owner),
        (2, Source::Group(12), Role::Guest),
        (3, Source::Group(12), Role::Developer),
        (4, Source::Project(100), Role::Developer),
        (5, Source::Group(10), Role::Owner),
        (6, Source::Group(10), Role::Owner),
        (7, Source::Group(11), Role::Guest),
        (8, Source::Group(20), Role::Owner),
        (9, Source::Group(10), Role::Owner),
    ] {
        forge.join(user, source, role, None);
    }
    let counts = |id: u64, query: &str| {
        let body = forge.get("t1", &format!("namespaces/{id}{query}")).body;
        ["members_count_with_descendants", "billable_members_count", "projects_count"]
            .map(|name| body[name].as_u64().unwrap())
    };
    assert_eq!(counts(10, ""), [4, 5, 1], "2 3 5 7; 2 3 4 7 8");
    assert_eq!(counts(11, ""), [3, 5, 1]);
    assert_eq!(counts(12, ""), [2, 4, 1]);
    assert_eq!(counts(20, ""), [1, 1, 0]);
    assert_eq!(counts(10, "?requested_hosted_plan=ultimate"), [4, 3, 1], "2 3 4: guests are free, also invited ones");
    forge.set(json!({"hosted": false}));
    assert_eq!(counts(10, "?requested_hosted_plan=ultimate"), [4, 5, 1]);
}

#[test]
fn existence_is_about_the_path_below_one_parent() {
    let forge = Forge::filled();
    forge.project(100, 10, vec![], Some("acme-pages-1"));
    let exists = |query: &str| {
        let answer = forge.get("t4", &format!("namespaces/{query}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.body["exists"].as_bool().unwrap(), answer.body["suggests"].clone())
    };
    let free = (false, json!([]));
    for query in [
        "core/exists",
        "p100/exists?parent_id=10",
        "acme/exists?parent_id=10",
        "core/exists?parent_id=99",
        "core/exists?parent_id=-1",
        "GUILDS/exists",
        "a%20b/exists",
    ] {
        assert_eq!(exists(query), free, "{query}");
    }
    assert_eq!(exists("ACME/exists"), (true, json!(["ACME1"])));
    assert_eq!(exists("core/exists?parent_id=10"), (true, json!(["core1"])));
    assert_eq!(exists("alice/exists"), (true, json!(["alice1"])));
    assert_eq!(exists("acme-pages-1/exists"), (true, json!(["acme-pages-11"])));
}

#[test]
fn suggestions_avoid_paths_names_and_pages() {
    let forge = Forge::filled();
    let suggested = || forge.get("t4", "namespaces/acme/exists").body["suggests"][0].as_str().unwrap().to_owned();
    forge.save_group(NewGroup { name: "Acme1".into(), ..new_group(40, "other", None) });
    assert_eq!(suggested(), "acme2", "a name is taken");
    forge.save_group(NewGroup { name: "Acme2".into(), ..new_group(41, "inner", Some(10)) });
    assert_eq!(suggested(), "acme2", "that one is below another parent");
    forge.group(42, "ACME2", None);
    forge.project(100, 10, vec![], Some("acme3"));
    assert_eq!(suggested(), "acme4");
    forge.user(50, "acme4");
    // 2026-09-21T14:13:20.000Z: no milliseconds, minute 13, week 39.
    assert_eq!(suggested(), "acme1339");
    forge.group(43, "acme1339", None);
    assert_eq!(suggested(), "acme1340");
}

#[test]
fn a_storage_that_fails_anywhere_is_a_500() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    forge.user(2, "alice");
    forge.group(10, "acme", None);
    forge.join(2, Source::Group(10), Role::Owner, None);
    for path in ["namespaces?search=acme", "namespaces/acme", "namespaces/acme/exists"] {
        for after in 0.. {
            let failing = FailingStore::after(after, store.clone());
            let answer = get(&env(failing.clone(), &[]), "t2", path);
            if !failing.failed() {
                assert_eq!((answer.status, after > 3), (200, true));
                break;
            }
            assert_eq!(
                (answer.status, answer.body),
                (500, json!({"message": "500 Internal Server Error"})),
                "{path} {after}"
            );
        }
    }
}
