//! Application variables and the templates that refer to them.

use std::collections::BTreeMap;

use bytesize::ByteSize;

use super::error::Problems;
use super::location::Locations;
use super::schema::Variable;

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Spin's prefix: the variable `api_url` is `SPIN_VARIABLE_API_URL` in the environment.
const PREFIX: &str = "SPIN_VARIABLE_";

/// The longest expansion of a template, in bytes: a template can refer to a long value often.
const MAX_EXPANDED_BYTES: usize = 1024 * 1024;

/// The value of each application variable. A variable with a problem has an empty value, so that templates that refer
/// to it still expand.
pub fn resolve(
    variables: &BTreeMap<String, Variable>,
    environment: Environment<'_>,
    locations: &Locations<'_>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let resolved = |(name, variable): (&String, &Variable)| {
        let value = value(name, variable, environment);
        let value = problems.keep(value.map_err(|reason| locations.at(&["variables", name], &reason)));
        (name.clone(), value.unwrap_or_default())
    };
    variables.iter().map(resolved).collect()
}

/// The value of a variable, from the environment or else its default.
fn value(name: &str, variable: &Variable, environment: Environment<'_>) -> Result<String, String> {
    check_name(name)?;
    let at = |reason: &str| format!("[variables] {name}: {reason}");
    if variable.required == variable.default.is_some() {
        return Err(at("needs either `default` or `required = true`; write one of them"));
    }
    let external = format!("{PREFIX}{}", name.to_uppercase());
    environment(&external)
        .or_else(|| variable.default.clone())
        .ok_or_else(|| at(&format!("it is required and has no value; set {external} in the environment")))
}

/// Replaces each `{{ name }}` in `template` with the value of that variable.
pub fn expand(template: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = template;
    while let Some((literal, opened)) = rest.split_once("{{") {
        expanded.push_str(literal);
        let Some((name, after)) = opened.split_once("}}") else {
            // The text around it is not shown, because it can be secret.
            return Err("it has `{{` without `}}`; close it".to_owned());
        };
        let name = name.trim();
        let Some(value) = values.get(name) else {
            return Err(format!("it refers to `{name}`, which is not in [variables]; declare it there"));
        };
        expanded.push_str(value);
        if expanded.len() > MAX_EXPANDED_BYTES {
            return Err(format!(
                "what refers to `{name}` has more than {}; shorten it",
                ByteSize(MAX_EXPANDED_BYTES as u64)
            ));
        }
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Spin's rule for names: lower-case words of letters and digits, joined by single underscores.
fn check_name(name: &str) -> Result<(), String> {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    match name.split('_').all(word) {
        true => Ok(()),
        false => Err(format!(
            "[variables] {name}: a name is lower-case letters and digits in words joined by `_`, \
             each word starting with a letter; rename it"
        )),
    }
}
