//! The experiments area: its own definitions, gates of the features, users of the directory.

use super::*;

#[test]
fn experiments_are_for_the_operators_team() {
    let forge = Forge::seeded();
    let settings = r#"{"kind":"setting","name":"operator_group","value":"acme"}"#;
    forge.import(settings);
    let definition = r#"{"kind":"experiment","name":"sign_up_experiment_percentage","milestone":"16.2","group":"group::activation"}"#;
    assert_eq!(forge.send("POST", "/api/v4/import/experiments", DEVELOPER, definition).status, 403);
    let answer = forge.send("POST", "/api/v4/import/experiments", ADMIN, definition);
    assert_eq!(answer.json(), json!({"imported": {"experiment": 1}, "failed": 0, "errors": []}));
    assert_eq!(forge.get("/api/v4/experiments", "").status, 401);
    assert_eq!(forge.get("/api/v4/experiments", OUTSIDER).json(), json!({"message": "403 Forbidden"}));
    assert_eq!(forge.get("/api/v4/experiments", ADMIN).status, 403);
    let first = forge.get("/api/v4/experiments", DEVELOPER);
    assert_eq!(first.json()[0]["key"], "sign_up");
    let expected = json!({"state": "off", "gates": [{"key": "boolean", "value": false}]});
    assert_eq!(first.json()[0]["current_status"], expected);
    let known = [("if-none-match", first.header("etag"))];
    assert_eq!(forge.send_with("GET", "/api/v4/experiments", DEVELOPER, &known, "").status, 304);
    let half = r#"{"value":50,"key":"percentage_of_actors"}"#;
    let path = "/api/v4/features/sign_up_experiment_percentage";
    assert_eq!(forge.send_json("POST", path, ADMIN, half).status, 201);
    let second = forge.send_with("GET", "/api/v4/experiments", DEVELOPER, &known, "");
    assert_eq!((second.status, &second.json()[0]["current_status"]["state"]), (200, &json!("conditional")));
}
