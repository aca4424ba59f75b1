//! Parameters of a wrong form: if the server ignored them, it would find or change other records than the client means.

use super::merge_requests::{LIST, create, forge, listed};
use super::*;

#[test]
fn a_list_in_place_of_a_value_is_refused() {
    let forge = forge().0;
    forge.merge_request(1, json!({}));
    let scalars = "state scope source_branch source_project_id target_branch author_id author_username merge_user_id \
        merge_user_username search wip draft approved created_after updated_before merged_after order_by sort page \
        not[author_id] not[author_username]";
    for name in scalars.split_whitespace() {
        for form in ["[]=1", "[x]=1"] {
            for list in [LIST, "merge_requests", "groups/10/merge_requests"] {
                let answer = forge.get(&format!("{list}?{name}{form}"), "dev");
                assert_eq!(answer.refusal(), (400, format!("{name} is invalid")), "{list}?{name}{form}");
            }
        }
    }
    for name in ["iids", "labels", "assignee_username", "in"] {
        let answer = forge.get(&format!("{LIST}?{name}[x]=1"), "dev");
        assert_eq!(answer.refusal(), (400, format!("{name} is invalid")), "{name}[x]=1");
    }
    for query in ["not=1", "not[]=1"] {
        let answer = forge.get(&format!("{LIST}?{query}"), "dev");
        assert_eq!(answer.refusal(), (400, "not is invalid".into()), "{query}");
    }
    assert_eq!(listed(&forge, "?not[labels]=x&not="), [1]);
    for path in [format!("{LIST}/1/notes?sort[]=asc"), format!("{LIST}/1/notes?order_by[x]=1")] {
        assert_eq!(forge.get(&path, "dev").status, 400, "{path}");
    }
}

#[test]
fn a_list_in_place_of_a_text_changes_nothing() {
    let forge = forge().0;
    let refusal = |error: &str| (400, error.to_owned());
    assert_eq!(create(&forge, "dev", json!({"description": ["x"]})).refusal(), refusal("description is invalid"));
    assert_eq!(create(&forge, "dev", json!({"title": {"a": 1}})).refusal(), refusal("title is invalid"));
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let update = |body: Value| forge.send(Method::PUT, &format!("{LIST}/1"), "dev", body).refusal();
    for name in ["title", "description", "target_branch", "state_event"] {
        for value in [json!(["close"]), json!([]), json!({"a": "close"})] {
            assert_eq!(update(json!({name: value})), (400, format!("{name} is invalid")), "{name}");
        }
    }
    let comment = |body: Value| forge.comment(1, "rep", body).refusal();
    assert_eq!(comment(json!({"body": ["x"]})), refusal("body is invalid"));
    let position = json!({"position_type": "text", "base_sha": "a", "start_sha": "a", "head_sha": ["a"],
        "new_path": ["a.txt"], "new_line": [1]});
    let error = "position[head_sha] is invalid, position[new_path] is invalid, position[new_line] is invalid";
    assert_eq!(comment(json!({"body": "x", "position": position})), refusal(error));
    let note = forge.send(Method::POST, &format!("{LIST}/1/notes"), "dev", json!({"body": "b"})).json()["id"].clone();
    let edit = |body: Value| forge.send(Method::PUT, &format!("{LIST}/1/notes/{note}"), "dev", body).refusal();
    assert_eq!(edit(json!({"body": ["x"]})), refusal("body is invalid"));
    assert_eq!(edit(json!({"resolved": [true]})), refusal("resolved is invalid"));
    let apply = |body: Value| forge.send(Method::PUT, "suggestions/batch_apply", "dev", body).refusal();
    assert_eq!(apply(json!({"ids": {"a": 1}})), refusal("ids is invalid"));
    assert_eq!(apply(json!({"ids": [1], "commit_message": ["x"]})), refusal("commit_message is invalid"));
}
