//! Parameters in forms that they do not have, and filters by what nothing has.

use super::*;

#[test]
fn a_list_in_place_of_a_value_is_refused() {
    let forge = Forge::filled();
    for (path, names) in [
        ("users", "username search order_by sort active blocked page per_page cursor pagination"),
        (
            "projects",
            "search visibility owned membership archived simple min_access_level id_after id_before order_by sort \
             pagination starred topic_id with_programming_language last_activity_after page",
        ),
        ("projects/100", "simple"),
        ("groups", "search visibility owned all_available min_access_level top_level_only order_by sort page"),
        ("groups/10/projects", "search include_subgroups with_shared"),
        ("groups/10/subgroups", "search owned"),
        ("users/2/projects", "search visibility"),
        ("namespaces", "search owned_only top_level_only full_path_search requested_hosted_plan page per_page"),
        ("namespaces/10", "requested_hosted_plan"),
        ("namespaces/acme/exists", "parent_id"),
    ] {
        for name in names.split_whitespace() {
            for form in ["[]=1", "[x]=1", "[]=", "=&NAME[]=1"] {
                let query = format!("{name}{}", form.replace("NAME", name));
                let answer = forge.get("t2", &format!("{path}?{query}"));
                let refused = (400, json!({"error": format!("{name} is invalid")}));
                assert_eq!((answer.status, answer.body), refused, "{path}?{query}");
            }
        }
    }
}

#[test]
fn projects_have_no_stars_topics_languages_and_times() {
    let forge = Forge::filled();
    forge.project(100, 10, vec![], None);
    let found = |query: &str| forge.get("t2", query).ids();
    for nothing in [
        "starred=true",
        "topic=rust",
        "topic[]=rust&topic[]=wasm",
        "topic_id=1",
        "with_programming_language=Rust",
        "last_activity_after=2001-01-01",
        "last_activity_before=2999-01-01T00:00:00Z",
    ] {
        assert_eq!(found(&format!("projects?{nothing}")), [0; 0], "{nothing}");
        assert_eq!(found(&format!("groups/10/projects?{nothing}")), [0; 0], "{nothing}");
    }
    for everything in ["starred=false", "topic=", "topic[]=", "with_programming_language=", "last_activity_after="] {
        assert_eq!(found(&format!("projects?{everything}")), [100], "{everything}");
    }
    let answer = forge.get("t2", "projects?starred=some&topic[x]=1&topic_id=x&last_activity_after=soon");
    assert_eq!(
        answer.body["error"],
        "starred is invalid, topic is invalid, topic_id is invalid, last_activity_after is invalid"
    );
}

#[test]
fn groups_can_be_left_out() {
    let forge = Forge::filled();
    let found = |query: &str| forge.get("", &format!("groups?order_by=id&{query}")).ids();
    assert_eq!(found(""), [10, 11, 12, 20]);
    for query in ["skip_groups[]=11&skip_groups[]=20", "skip_groups=11,20", "skip_groups[]=x,20&skip_groups=11"] {
        assert_eq!(found(query), [10, 12], "{query}");
    }
    assert_eq!(forge.get("", "groups?skip_groups[0]=11").body, json!({"error": "skip_groups is invalid"}));
    let page = forge.get("", "groups?order_by=id&skip_groups=11&skip_groups=20&per_page=1");
    assert!(page.header("link").contains("skip_groups=11&skip_groups=20>; rel=\"next\""), "{}", page.header("link"));
}
