//! Which namespaces a list has, and the links to its pages.

use super::*;

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
