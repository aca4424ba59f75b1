//! The JSON of users in other answers.

use super::context::RequestContext;
use directory::user;
use kit::store::StoreError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Renders each user once for a request.
pub struct UserRenderer<'a> {
    context: &'a RequestContext,
    /// By id.
    users: BTreeMap<u64, Value>,
}

impl<'a> UserRenderer<'a> {
    pub fn new(context: &'a RequestContext) -> Self {
        UserRenderer { context, users: BTreeMap::new() }
    }

    /// The JSON of a user; null if there is no such user. 1 read for each user who is not the caller.
    pub fn render(&mut self, id: u64) -> Result<Value, StoreError> {
        if let Some(json) = self.users.get(&id) {
            return Ok(json.clone());
        }
        let user = match self.context.caller.user() {
            Some(user) if user.id == id => Some(user.clone()),
            _ => user::by_id(&self.context.env, id)?,
        };
        let url = &self.context.url;
        let json = user.map_or(Value::Null, |user| {
            json!({
                "id": user.id,
                "username": user.username,
                "name": user.name,
                "state": user.state.as_str(),
                "avatar_url": null,
                "web_url": format!("{url}/{}", user.username),
            })
        });
        self.users.insert(id, json.clone());
        Ok(json)
    }

    /// The same; null without an id.
    pub fn render_if_known(&mut self, id: Option<u64>) -> Result<Value, StoreError> {
        id.map_or(Ok(Value::Null), |id| self.render(id))
    }
}
