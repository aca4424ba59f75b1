//! The users that a search finds, and their order.

use super::*;
use kit::testing::CountingStore;

/// The forge of [`Forge::filled`] with users whose names and usernames resemble each other.
fn forge() -> Forge {
    let forge = Forge::filled();
    add_users(&forge);
    forge
}

fn add_users(forge: &Forge) {
    for (id, username, name, address) in [
        (501, "rob", "Robert", Some("Robert@corp.example")),
        (502, "robcat", "Aaa", None),
        (503, "zrob", "rob", None),
        (504, "arob", "aaa", None),
    ] {
        forge.save_user(NewUser {
            name: name.into(),
            commit_email: address.map(str::to_owned),
            ..new_user(id, username)
        });
    }
}

#[test]
fn the_best_matches_come_first() {
    let forge = forge();
    forge.save_user(NewUser { name: "Else".into(), ..new_user(5, "robot") });
    let found = |token: &str, query: &str| forge.get(token, &format!("users?{query}")).ids();
    for token in ["t1", "t2"] {
        assert_eq!(found(token, "search=rob"), [501, 503, 502, 504, 5], "{token}");
        assert_eq!(found(token, "search=ROB"), [501, 503, 502, 504, 5], "{token}");
        assert_eq!(found(token, "search=aaa"), [502, 504], "{token}: both have the name");
        assert_eq!(found(token, "search=cat%20rob"), [502], "{token}");
        assert_eq!(found(token, "search=%20"), found(token, ""), "{token}");
    }
    let page = forge.get("t2", "users?search=rob&per_page=2&page=2");
    assert_eq!((page.ids(), page.header("x-total"), page.header("x-next-page")), (vec![502, 504], "5", "3"));
    assert_eq!(found("t1", "search=rob&order_by=id"), [504, 503, 502, 501, 5]);
    assert_eq!(found("t1", "search=rob&sort=asc"), [5, 501, 502, 503, 504]);
    assert_eq!(found("t1", "search=rob&order_by=username&sort=asc"), [504, 501, 502, 5, 503]);
    assert_eq!(found("t2", "search=rob&sort=asc"), [501, 503, 502, 504, 5], "only administrators choose");
}

#[test]
fn an_at_sign_before_a_username_is_no_part_of_it() {
    let forge = forge();
    let found = |query: &str| forge.get("t2", &format!("users?search={query}")).ids();
    assert_eq!(found("%40rob"), found("rob"));
    assert_eq!((found("@alice"), found("%40"), found("%40%20"), found("@@rob")), (vec![2], vec![], vec![], vec![]));
}

#[test]
fn administrators_find_users_by_their_whole_address() {
    let forge = forge();
    let found = |token: &str, query: &str| forge.get(token, &format!("users?{query}")).ids();
    assert_eq!(found("t1", "search=robert%40corp.example"), [501]);
    assert_eq!(found("t1", "search=ROBERT@Corp.Example&order_by=name"), [501]);
    assert_eq!(found("t1", "search=robert@corp.example&username=zrob"), [0; 0], "with the other filters");
    for part in ["@corp.example", "robert@", "robert@corp.exampl", "obert@corp.example"] {
        assert_eq!(found("t1", &format!("search={part}")), [0; 0], "{part}");
    }
    for token in ["t2", "t501"] {
        assert_eq!(found(token, "search=robert@corp.example"), [0; 0], "{token}");
    }
    let with = |id, username: &str, name: &str, address: &str| {
        let commit_email = Some(address.to_owned());
        forge.save_user(NewUser { name: name.into(), commit_email, ..new_user(id, username) });
    };
    with(505, "bert", "The other Robert@corp.example", "robert@corp.example");
    assert_eq!(found("t1", "search=robert@corp.example"), [501, 505], "each once");
    with(501, "rob", "Robert", "rob@corp.example");
    assert_eq!(found("t1", "search=robert@corp.example"), [505], "not by a former address");
    assert_eq!(found("t1", "search=rob@corp.example"), [501]);
    let page = forge.get("t1", "users?search=rob%40corp.example&pagination=keyset&per_page=1");
    assert_eq!((page.ids(), page.header("link")), (vec![501], "(none)"));
}

/// A search fails if the record of a user cannot be read, because this user may have the address.
#[test]
fn a_damaged_record_fails_searches_for_addresses_and_no_others() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    [(1, "root"), (2, "alice")].into_iter().for_each(|(id, name)| forge.user(id, name));
    add_users(&forge);
    kit::store::Store::set(&store, "directory/v1/user/2", b"{").unwrap();
    let status = |search: &str| forge.get("t1", &format!("users?search={search}")).status;
    assert_eq!((status("robert@corp.example"), status("rob"), status("@rob")), (500, 200, 200));
}

#[test]
fn an_instance_reads_the_addresses_of_users_once() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    [(1, "root"), (2, "alice")].into_iter().for_each(|(id, name)| forge.user(id, name));
    add_users(&forge);
    (100..150).for_each(|id| forge.user(id, &format!("u{id}")));
    let counting = CountingStore::over(store.clone());
    let warm = env(counting.clone(), &[]);
    let operations = |token: &str, search: &str, found: usize| {
        let before = counting.operations();
        assert_eq!(get(&warm, token, &format!("users?search={search}")).ids().len(), found, "{search}");
        counting.operations() - before
    };
    let (_, none) = (operations("t1", "nothing", 0), operations("t1", "nothing", 0));
    assert_eq!(operations("t2", "robert@corp.example", 0), none, "of other users");
    assert!(operations("t1", "robert@corp.example", 1) > none + 50);
    assert_eq!(operations("t1", "robert@corp.example", 1), none + 3, "the root, and the user to compare and to show");
    assert_eq!(operations("t1", "nobody@corp.example", 0), none + 1);
    assert_eq!(operations("t1", "@nothing", 0), none, "no address");
}
