//! Keyset pagination of lists (`pagination=keyset`): the header `Link` has the sort key of the page's last row, after
//! which the next page begins. So rows that are added or removed do not move others. The headers have no total.

use crate::error::Error;
use crate::params::Validation;
use crate::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use http::header::LINK;
use serde_json::{Map, Value};

/// Whether a request asks for keyset pagination.
pub fn is_asked_for(checks: &Validation) -> bool {
    checks.text("pagination") == Some("keyset")
}

/// 405 for a list, or an order, without keyset pagination.
pub fn unavailable() -> Error {
    let text = "Keyset pagination is not yet available for this type of request";
    Error::error(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// Adds the link to the next page. `url` is the list's URL without a query. `params` are the effective parameters.
/// `next` is the parameter with the beginning of the next page.
pub fn with_next_page(response: Response, url: &str, params: &[(&str, &str)], next: (&str, &str)) -> Response {
    let mut query: Vec<(&str, &str)> = params.iter().copied().filter(|(name, _)| *name != next.0).collect();
    query.push(next);
    query.sort_unstable();
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    response.with_text(LINK, &format!("<{url}?{query}>; rel=\"next\""))
}

/// The position of a row in an ordered list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    /// The text that the list is ordered by; empty if the list is ordered by id.
    pub text: String,
    /// The order of rows with equal text.
    pub id: u64,
}

/// The fields of a cursor with the id and with the direction, which is always `n` (next).
const ID: &str = "id";
const DIRECTION: &str = "_kd";

impl SortKey {
    /// The cursor that clients get, in base64. `column` is the parameter `order_by`.
    pub fn to_cursor(&self, column: &str) -> String {
        let mut fields = Map::new();
        if column != ID {
            fields.insert(column.to_owned(), self.text.clone().into());
        }
        fields.insert(ID.to_owned(), self.id.to_string().into());
        fields.insert(DIRECTION.to_owned(), "n".into());
        URL_SAFE_NO_PAD.encode(Value::Object(fields).to_string())
    }

    /// Parses a cursor of a list that is ordered by `column`; `None` if it has another form.
    pub fn parse_cursor(cursor: &str, column: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor.trim_end_matches('=')).ok()?;
        let fields: Map<String, Value> = serde_json::from_slice(&bytes).ok()?;
        let id = fields.get(ID)?.as_str()?.parse().ok()?;
        let text = if column == ID { "" } else { fields.get(column)?.as_str()? };
        Some(SortKey { text: text.to_owned(), id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_in_the_reference_services_form() {
        let key = |text: &str, id| SortKey { text: text.into(), id };
        for (column, key) in [("name", key("zoë & co", 7)), ("id", key("", u64::MAX))] {
            assert_eq!(SortKey::parse_cursor(&key.to_cursor(column), column), Some(key));
        }
        let cursor = "eyJuYW1lIjoiRmxpZ2h0anMiLCJpZCI6IjI2IiwiX2tkIjoibiJ9";
        assert_eq!(SortKey::parse_cursor(cursor, "name"), Some(key("Flightjs", 26)));
        assert_eq!(SortKey::parse_cursor(cursor, "id"), Some(key("", 26)));
        for invalid in ["", "x", "e30", "!!!!", &URL_SAFE_NO_PAD.encode(r#"{"name":"a","id":7}"#)] {
            assert_eq!(SortKey::parse_cursor(invalid, "name"), None, "{invalid}");
        }
        assert_eq!(SortKey::parse_cursor(cursor, "username"), None);
    }

    #[test]
    fn the_link_replaces_the_place_where_this_page_began() {
        let params = [("sort", "asc"), ("id_after", "7"), ("per_page", "2")];
        let response =
            with_next_page(Response::new(StatusCode::OK), "http://h/api/v4/projects", &params, ("id_after", "42"));
        assert_eq!(response.headers[LINK], "<http://h/api/v4/projects?id_after=42&per_page=2&sort=asc>; rel=\"next\"");
    }
}
