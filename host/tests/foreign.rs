//! Guests that others wrote: the same store and variables, under the names that they know.

use crate::fixture::{self, guest, store};

fn manifest(stores: &str) -> String {
    let foreign = guest("foreign");
    format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [[trigger.http]]
        route = "/foreign/..."
        component = "foreign"
        [component.foreign]
        source = {foreign:?}
        key_value_stores = [{stores}]
        variables = {{ colour = "green" }}
        [[trigger.http]]
        route = "/incoming"
        component = "incoming"
        [component.incoming]
        source = {:?}
        key_value_stores = ["elsewhere"]
        "#,
        guest("incoming")
    )
}

#[tokio::test]
async fn older_names_lead_to_the_same_store_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest("\"default\""), &[], store()).unwrap();
    for (path, expected) in [
        ("spin2", r#"1 false ["a"]"#),
        ("draft", r#"7 [Some("c=3"), None] ["a", "c", "n"] None 1"#),
        ("variables", r#"Ok("green") Err(Error::Undefined("the component has no variable `nothing`"))"#),
        ("rc", r#"Ok(Some("green")) Ok(None) Ok([("colour", "green")])"#),
        ("config", r#"Ok(Some("green"))"#),
        ("denied", "Err(Error::AccessDenied)"),
        ("unknown", "Err(Error::NoSuchStore)"),
    ] {
        let request = http::Request::get(format!("/foreign/{path}")).header("host", "forge.test");
        let response = host.handle(request.body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(fixture::text(response).await, (200, expected.to_owned()), "{path}");
    }
}

#[test]
fn a_store_that_is_imported_and_not_granted_stops_the_load_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = fixture::start(&folder, &manifest(""), &[], store()).err().unwrap().to_string();
    assert!(error.contains("`foreign`") && error.contains("key_value_stores"), "{error}");
    assert!(
        error.contains("fermyon:spin/key-value@2.0.0") || error.contains("wasi:keyvalue/store@0.2.0-draft"),
        "{error}"
    );
}
