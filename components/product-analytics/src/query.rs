//! A query: the client's request, and the request to the engine.

use http::Method;
use kit::params::{Params, Validation};
use kit::{Error, Request};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, Value};
use std::fmt::Display;

/// The largest request body, in bytes. Engines accept up to 50 MB; a query has some hundred bytes.
pub const MAX_BODY: u64 = 4 << 20;

/// The default `queryType`: the engine responds with a list of results.
const DEFAULT_TYPE: &str = "multi";

/// A validated query. The engine validates the inside of `text`.
#[derive(Debug, Clone)]
pub struct Query {
    /// A JSON object, or a list of objects to be blended, in the client's own spelling.
    pub text: Box<RawValue>,
    pub query_type: String,
    /// Whether the response includes the engine's token.
    pub include_token: bool,
}

/// The members of a request body; others are dropped.
#[derive(Deserialize)]
struct RequestBody {
    query: Option<Box<RawValue>>,
    #[serde(rename = "queryType")]
    query_type: Option<Value>,
    include_token: Option<Value>,
}

/// The body of the engine's request.
#[derive(Serialize)]
struct EngineBody<'a> {
    query: &'a RawValue,
    #[serde(rename = "queryType")]
    query_type: &'a str,
}

impl Query {
    /// Reads a request. A GET has `query` as JSON text in the query string, as the engine's client sends it. Any other
    /// method has it in the body, whose parameters take precedence over the query string's.
    pub async fn read(request: Request) -> Result<Self, Error> {
        let mut params = request.params();
        if matches!(request.method, Method::GET | Method::HEAD) {
            let query = params.text("query").and_then(|text| serde_json::from_str(text).ok());
            return Query::check(query, &params);
        }
        let media_type = request.media_type();
        let body = request.body.collect(MAX_BODY).await?;
        let mut query = None;
        match media_type.as_deref() {
            _ if body.trim_ascii().is_empty() => {}
            None | Some("application/json") => {
                let invalid = |why: &dyn Display| Error::validation(format!("the body is not valid JSON: {why}"));
                // serde would also read an array as the fields of a struct.
                if !body.trim_ascii_start().starts_with(b"{") {
                    return Err(invalid(&"an object is expected"));
                }
                let given: RequestBody = serde_json::from_slice(&body).map_err(|why| invalid(&why))?;
                query = given.query;
                let others = [("queryType", given.query_type), ("include_token", given.include_token)];
                let others = others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
                params.extend(Params::from_json(&others.collect())?);
            }
            Some(other) => return Err(Error::unsupported_media_type(other)),
        }
        Query::check(query, &params)
    }

    fn check(query: Option<Box<RawValue>>, params: &Params) -> Result<Self, Error> {
        let checks = Validation::new(params);
        let query = query.filter(|query| query.get() != "null");
        match &query {
            Some(query) if is_query(query) => {}
            None if !params.has("query") => checks.reject("query is missing"),
            _ => checks.reject("query is invalid"),
        }
        let query_type = checks.text("queryType").unwrap_or(DEFAULT_TYPE);
        let include_token = checks.boolean("include_token").unwrap_or(false);
        checks.finish()?;
        let text = query.ok_or_else(|| Error::validation("query is missing"))?;
        Ok(Query { text, query_type: query_type.to_owned(), include_token })
    }

    /// The body of the engine's request.
    pub fn body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&EngineBody { query: &self.text, query_type: &self.query_type })
    }
}

/// Whether a value is an object, or a non-empty list of objects.
fn is_query(value: &RawValue) -> bool {
    let is_object = |text: &str| text.starts_with('{');
    let list = || serde_json::from_str::<Vec<&RawValue>>(value.get());
    let is_list = || list().is_ok_and(|list| !list.is_empty() && list.iter().all(|query| is_object(query.get())));
    is_object(value.get()) || is_list()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;
    use serde_json::json;

    fn read(target: &str, body: &str) -> Result<Query, Value> {
        read_as(Some("application/json; charset=utf-8"), target, body)
    }

    fn read_as(media_type: Option<&'static str>, target: &str, body: &str) -> Result<Query, Value> {
        let mut request = Request::new(Method::POST, target);
        request.body = body.to_owned().into();
        if let Some(media_type) = media_type {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        block_on(Query::read(request)).map_err(|error| error.to_json())
    }

    fn put(query: Query) -> String {
        String::from_utf8(query.body().unwrap()).unwrap()
    }

    #[test]
    fn a_query_is_put_as_it_came_and_nothing_else_with_it() {
        let query = r#"{ "limit" : 1.50e3, "x": 123456789012345678901234567890 }"#;
        let read = read("/", &format!(r#"{{"query": {query}, "other": [1], "include_token": null}}"#)).unwrap();
        assert!(!read.include_token);
        assert_eq!(put(read), format!(r#"{{"query":{query},"queryType":"multi"}}"#));
    }

    #[test]
    fn queries_to_be_blended_are_a_list() {
        let list = r#"[ {"limit": 1.50}, {} ]"#;
        let expected = format!(r#"{{"query":{list},"queryType":"multi"}}"#);
        assert_eq!(put(read("/", &format!(r#"{{"query":{list}}}"#)).unwrap()), expected);
    }

    #[test]
    fn a_get_has_its_query_in_the_query_string() {
        let get = |target: &str| {
            let read = block_on(Query::read(Request::new(Method::GET, target)));
            read.map(|query| (put(query.clone()), query.include_token)).map_err(|error| error.to_json())
        };
        let encoded = "%7B%20%22limit%22%3A%201.50%7D";
        let expected = Ok((r#"{"query":{ "limit": 1.50},"queryType":"a"}"#.to_owned(), true));
        assert_eq!(get(&format!("/?query={encoded}&queryType=a&include_token=1")), expected);
        let expected = Ok((r#"{"query":[{ "limit": 1.50}],"queryType":"multi"}"#.to_owned(), false));
        assert_eq!(get(&format!("/?query=%5B{encoded}%5D")), expected);
        assert_eq!(get("/?queryType=multi"), Err(json!({"error": "query is missing"})));
        for bad in ["x", "%7B", "5", "%5B%5D", "", "%7B%7D%7B%7D"] {
            assert_eq!(get(&format!("/?query={bad}")), Err(json!({"error": "query is invalid"})), "{bad}");
        }
    }

    #[test]
    fn the_type_comes_from_the_body_or_else_from_the_query_string() {
        for (target, body, expected) in [
            ("/?queryType=multi", r#"{"query":{}}"#, "multi"),
            ("/?queryType=a%20b", r#"{"query":{}}"#, "a b"),
            ("/?queryType=a", r#"{"query":{},"queryType":"b\""}"#, "b\""),
            ("/?queryType=a", r#"{"query":{},"queryType":null}"#, "a"),
            ("/", r#"{"query":{},"queryType":5}"#, "5"),
            ("/", r#"{"query":{},"queryType":""}"#, "multi"),
        ] {
            assert_eq!(read(target, body).unwrap().query_type, expected, "{target} {body}");
        }
    }

    #[test]
    fn the_token_is_asked_for_in_either_place() {
        for (target, body, expected) in [
            ("/?include_token=true", r#"{"query":{}}"#, true),
            ("/?include_token=true", r#"{"query":{},"include_token":false}"#, false),
            ("/", r#"{"query":{},"include_token":"1"}"#, true),
            ("/", r#"{"query":{},"include_token":true}"#, true),
            ("/", r#"{"query":{},"include_token":""}"#, false),
        ] {
            assert_eq!(read(target, body).unwrap().include_token, expected, "{target} {body}");
        }
    }

    #[test]
    fn one_response_names_every_error() {
        let error = |target: &str, body: &str| read(target, body).unwrap_err();
        for body in ["", " ", "{}", r#"{"query":null}"#, r#"{"queryType":"multi"}"#] {
            assert_eq!(error("/", body), json!({"error": "query is missing"}), "{body}");
        }
        for query in ["[]", "[5]", "[{}, null]", "\"{}\"", "5", "true"] {
            assert_eq!(error("/", &format!(r#"{{"query":{query}}}"#)), json!({"error": "query is invalid"}), "{query}");
        }
        assert_eq!(error("/?query=%7B%7D", ""), json!({"error": "query is invalid"}));
        let expected = json!({"error": "query is missing, queryType is invalid, include_token is invalid"});
        assert_eq!(error("/", r#"{"queryType":[1],"include_token":"perhaps"}"#), expected);
        for (target, body) in
            [("/?include_token[]=1", r#"{"query":{}}"#), ("/", r#"{"query":{},"include_token":[true]}"#)]
        {
            assert_eq!(error(target, body), json!({"error": "include_token is invalid"}), "{target} {body}");
        }
    }

    #[test]
    fn a_body_that_is_no_json_object_is_refused() {
        for body in
            ["{", "[{}]", "null", "query=1", r#"{"query":{},"query":{}}"#, r#"{"query":{}} x"#, r#"{"query":{"a":}}"#]
        {
            let error = read("/", body).unwrap_err()["error"].as_str().unwrap().to_owned();
            assert!(error.starts_with("the body is not valid JSON: "), "{body}: {error}");
        }
        let form = read_as(Some("application/x-www-form-urlencoded"), "/", "query=x").unwrap_err();
        assert_eq!(form["error"], "The provided content-type 'application/x-www-form-urlencoded' is not supported.");
        assert!(read_as(None, "/", r#"{"query":{}}"#).is_ok());
    }

    #[test]
    fn a_body_has_a_bound() {
        let body = format!(r#"{{"query":{{"x":"{}"}}}}"#, "y".repeat(MAX_BODY as usize));
        assert!(read("/", &body).unwrap_err()["error"].as_str().unwrap().starts_with("413 "));
    }
}
