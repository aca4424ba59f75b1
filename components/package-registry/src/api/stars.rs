//! Stars, which this registry does not store. `npm star` and `npm unstar` send a document of the package's users
//! ([`super::noop_update`]). `npm stars` lists the packages that a user has starred.

use http::{HeaderName, HeaderValue};
use kit::Response;
use serde_json::{Value, json};

/// npm prints this header (<https://docs.npmjs.com/cli/v11/using-npm/logging>).
const NPM_NOTICE: HeaderName = HeaderName::from_static("npm-notice");

/// `GET <prefix>/-/_view/starredByUser?key="NAME"`: an empty list for every user.
pub fn list() -> Response {
    let notice = HeaderValue::from_static("this registry keeps no stars");
    Response::ok(&json!({"rows": Vec::<Value>::new()})).with_header(NPM_NOTICE, notice)
}
