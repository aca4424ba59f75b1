//! The JSON form of a user, by what a caller may see.

use crate::web_url;
use directory::user::User;
use serde_json::{Map, Value, json};

/// The set of fields that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserView {
    /// For users, in lists.
    Basic,
    /// For users, about one user.
    Profile,
    /// For the user.
    Own,
    /// For administrators.
    Admin,
}

/// `base` is the base URL of the service. The only known address is the one in commits.
pub fn to_json(user: &User, avatar_url: Option<String>, view: UserView, base: &str) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    add("id", user.id.into());
    add("username", user.username.clone().into());
    add("name", user.name.clone().into());
    add("state", user.state.as_str().into());
    add("locked", false.into());
    add("public_email", Value::Null);
    add("avatar_url", avatar_url.into());
    add("web_url", web_url::page(base, &user.username).into());
    if view >= UserView::Profile {
        add("bot", user.bot.into());
    }
    if view >= UserView::Own {
        add("email", json!(user.commit_email));
        add("commit_email", json!(user.commit_email));
        add("external", user.external.into());
    }
    if view == UserView::Admin {
        add("is_admin", user.is_admin.into());
        add("namespace_id", user.namespace_id.into());
    }
    Value::Object(fields)
}
