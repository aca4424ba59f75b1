//! Parameters of a request, from its query and from a JSON or form body.

use kit::input::Input;
use kit::params::Params;
use kit::{Error, Request};
use serde_json::{Map, Value};

/// The largest body of parameters, in bytes. All settings together are far smaller.
pub const MAX_BODY: u64 = 1 << 20;

/// Parameters that authenticate the caller. `read` removes them.
const CREDENTIALS: [&str; 4] = ["private_token", "access_token", "job_token", "sudo"];

/// The parameters of `request`. Values in the body take precedence over the query.
pub async fn read(request: Request) -> Result<Map<String, Value>, Error> {
    read_typed(request, |_, text| text.into()).await
}

/// The same, but `from_text` converts the value of each form field.
pub async fn read_typed(
    request: Request,
    from_text: impl Fn(&str, &str) -> Value,
) -> Result<Map<String, Value>, Error> {
    let mut fields = from_form(&request.params(), &from_text);
    match Input::read(request, MAX_BODY).await? {
        Input::Json(object) => fields.extend(object),
        Input::Form(form) => fields.extend(from_form(&form, &from_text)),
    }
    CREDENTIALS.iter().for_each(|name| drop(fields.remove(*name)));
    Ok(fields)
}

/// The fields of a form. A repeated `name[]` becomes a list.
fn from_form(form: &Params, from_text: impl Fn(&str, &str) -> Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in form.pairs() {
        match name.strip_suffix("[]") {
            None => drop(fields.insert(name.to_owned(), from_text(name, value))),
            Some(list) => match fields.get_mut(list) {
                Some(Value::Array(items)) => items.push(value.into()),
                _ => drop(fields.insert(list.to_owned(), vec![value].into())),
            },
        }
    }
    fields
}
