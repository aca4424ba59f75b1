//! The JSON of users in other answers.

use super::context::RequestContext;
use directory::user::{self, UserKey};
use kit::store::StoreError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Renders each user once for a request.
pub struct UserRenderer<'a> {
    context: &'a RequestContext,
    users: BTreeMap<UserKey, Value>,
}

impl<'a> UserRenderer<'a> {
    pub fn new(context: &'a RequestContext) -> Self {
        UserRenderer { context, users: BTreeMap::new() }
    }

    /// The JSON of a user; null if they were deleted. 1 read for each user who is not the caller.
    pub fn render(&mut self, key: &UserKey) -> Result<Value, StoreError> {
        if let Some(json) = self.users.get(key) {
            return Ok(json.clone());
        }
        let user = match self.context.caller.user() {
            Some(user) if user.key() == *key => Some(user.clone()),
            _ => user::by_key(&self.context.env, key)?,
        };
        let url = &self.context.url;
        let json = user.map_or(Value::Null, |user| {
            json!({
                "id": user.id,
                "username": user.username,
                "name": user.name,
                "state": user.state.as_str(),
                "avatar_url": null,
                "web_url": match directory::path::begins_like_page(&user.username) {
                    true => format!("{url}/namespaces/{}", user.username),
                    false => format!("{url}/{}", user.username),
                },
            })
        });
        self.users.insert(key.clone(), json.clone());
        Ok(json)
    }

    /// As [`Self::render`]; null without a user.
    pub fn render_if_known(&mut self, key: Option<&UserKey>) -> Result<Value, StoreError> {
        key.map_or(Ok(Value::Null), |key| self.render(key))
    }
}
