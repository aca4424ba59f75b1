//! Request parameters from the query string, a form or a JSON object, in one representation, and their coercion to
//! types. A JSON `{"not":{"labels":["a"]}}` is the form `not[labels][]=a`, and `{"labels":[]}` is `labels[]=`.
//!
//! Coercions collect errors, so that one response names every invalid parameter.

use crate::clock::Timestamp;
use crate::error::Error;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashSet;

/// The most memory that the parameters of a JSON object take, in bytes. Each item of a list repeats the whole name, so
/// a small body can have very large parameters.
const MAX_FLAT_BYTES: usize = 64 << 20;

/// The size of a pair without its texts, in bytes.
const PAIR_BYTES: usize = 64;

/// Parameters in the order of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    pairs: Vec<(String, String)>,
    /// Fields of a JSON object that are `null`. The pairs omit them.
    nulls: Vec<String>,
}

impl Params {
    /// Parses a query string or a form body (`+` is a space).
    pub fn parse(encoded: &str) -> Self {
        Params { pairs: form_urlencoded::parse(encoded.as_bytes()).into_owned().collect(), nulls: Vec::new() }
    }

    /// Adds parameters from another source. A later value overrides an earlier one of the same name.
    pub fn extend(&mut self, more: Params) {
        self.pairs.extend(more.pairs);
        self.nulls.extend(more.nulls);
    }

    /// The parameters of a JSON object; `null` counts as absent. 400 if they would take more than 64 MiB.
    pub fn from_json(object: &serde_json::Map<String, Value>) -> Result<Self, Error> {
        let (mut params, mut budget) = (Params::default(), MAX_FLAT_BYTES);
        for (name, value) in object {
            params.flatten(&mut name.clone(), value, &mut budget)?;
            if value.is_null() {
                params.nulls.push(name.clone());
            }
        }
        Ok(params)
    }

    /// Adds `value` under `name`, and restores `name`. `budget` is the remaining memory, in bytes.
    fn flatten(&mut self, name: &mut String, value: &Value, budget: &mut usize) -> Result<(), Error> {
        let length = name.len();
        let text = match value {
            Value::Null => return Ok(()),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::String(text) => text.clone(),
            Value::Array(items) if !items.is_empty() => {
                name.push_str("[]");
                items.iter().try_for_each(|item| self.flatten(name, item, budget))?;
                name.truncate(length);
                return Ok(());
            }
            Value::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    name.extend(["[", key, "]"]);
                    self.flatten(name, value, budget)?;
                    name.truncate(length);
                }
                return Ok(());
            }
            Value::Array(_) | Value::Object(_) => {
                name.push_str("[]");
                String::new()
            }
        };
        let rest = budget.checked_sub(name.len() + text.len() + PAIR_BYTES);
        *budget = rest.ok_or_else(|| Error::bad_request("the parameters are too many, or their names too long"))?;
        self.pairs.push((name.clone(), text));
        name.truncate(length);
        Ok(())
    }

    /// Every pair, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The last value of `name`, even if it is empty.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The last value of `name`, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.last(name).filter(|value| !value.is_empty())
    }

    /// Whether `name` is given in any form: plain, as a list, or with keys.
    pub fn has(&self, name: &str) -> bool {
        self.pairs
            .iter()
            .any(|(key, _)| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('[')))
    }

    /// Whether a JSON body has `null` for `name`, and no other source gives a value.
    pub fn is_null(&self, name: &str) -> bool {
        self.nulls.iter().any(|null| null == name) && !self.has(name)
    }

    /// The elements of a list: every `name[]` and the plain `name`, each split on commas and trimmed. Empty elements
    /// are dropped. `None` if the parameter was not given.
    pub fn list(&self, name: &str) -> Option<Vec<&str>> {
        let mut given = false;
        let mut elements = Vec::new();
        for (key, value) in &self.pairs {
            if key == name || key.strip_suffix("[]") == Some(name) {
                given = true;
                elements.extend(value.split(',').map(str::trim).filter(|element| !element.is_empty()));
            }
        }
        given.then_some(elements)
    }

    /// The parameters below `name[…]`, with their inner names: `not[labels][]` below `not` is `labels[]`.
    pub fn below(&self, name: &str) -> Params {
        let inner = |key: &str| -> Option<String> {
            let rest = key.strip_prefix(name)?.strip_prefix('[')?;
            let (field, rest) = rest.split_once(']')?;
            (!field.is_empty()).then(|| format!("{field}{rest}"))
        };
        let pairs = self.pairs.iter().filter_map(|(key, value)| Some((inner(key)?, value.clone())));
        pairs.collect()
    }
}

impl FromIterator<(String, String)> for Params {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Params { pairs: pairs.into_iter().collect(), nulls: Vec::new() }
    }
}

/// Coerces parameters and collects errors.
///
/// The reading method decides whether a parameter has one value (`name=`) or is a list (`name=` or `name[]=`). Any
/// other form is invalid: if it were ignored, a filter would let everything pass.
///
/// Read every parameter first, and call [`Validation::finish`] before using a value.
pub struct Validation<'a> {
    params: &'a Params,
    errors: RefCell<Vec<String>>,
}

impl<'a> Validation<'a> {
    /// Checks `params`.
    pub fn new(params: &'a Params) -> Self {
        Validation { params, errors: RefCell::default() }
    }

    /// Adds an error in the endpoint's words, for example `a, b are mutually exclusive`.
    pub fn reject(&self, text: impl Into<String>) {
        self.errors.borrow_mut().push(text.into());
    }

    /// Whether `name` is given only in the plain form or in one of `forms` (without the name). Adds an error if not.
    fn has_valid_form(&self, name: &str, forms: &[&str]) -> bool {
        let mut given = self.params.pairs().filter_map(|(key, _)| key.strip_prefix(name));
        let has_other = given.any(|form| form.starts_with('[') && !forms.contains(&form));
        if has_other {
            self.reject(format!("{name} is invalid"));
        }
        !has_other
    }

    /// The last value of `name`, even if it is empty.
    pub fn last(&self, name: &str) -> Option<&'a str> {
        if self.has_valid_form(name, &[]) { self.params.last(name) } else { None }
    }

    /// The last value of `name`, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.last(name).filter(|value| !value.is_empty())
    }

    /// The elements of a list, as in [`Params::list`].
    pub fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        if self.has_valid_form(name, &["[]"]) { self.params.list(name) } else { None }
    }

    fn coerce<T>(&self, name: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = read(text.trim());
        if value.is_none() {
            self.reject(format!("{name} is invalid"));
        }
        value
    }

    /// A decimal integer.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.coerce(name, |text| text.parse().ok())
    }

    /// `true/false`, `t/f`, `yes/no`, `y/n`, `1/0`, `on/off`, in any letter case.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.coerce(name, |text| match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" | "on" => Some(true),
            "false" | "f" | "no" | "n" | "0" | "off" => Some(false),
            _ => None,
        })
    }

    /// ISO 8601 with or without a time, and the forms of [`Timestamp::parse_informal`].
    pub fn datetime(&self, name: &str) -> Option<Timestamp> {
        self.coerce(name, |text| Timestamp::parse(text).or_else(|| Timestamp::parse_informal(text)))
    }

    /// ISO 8601 with or without a time. Use it for a time that decides how long something is valid.
    pub fn strict_datetime(&self, name: &str) -> Option<Timestamp> {
        self.coerce(name, Timestamp::parse)
    }

    /// Exactly one of `allowed`.
    pub fn one_of(&self, name: &str, allowed: &[&str]) -> Option<&'a str> {
        let text = self.text(name)?;
        if !allowed.contains(&text) {
            self.reject(format!("{name} does not have a valid value"));
            return None;
        }
        Some(text)
    }

    /// A parameter that must be given and not be empty.
    pub fn required(&self, name: &str) -> Option<&'a str> {
        let text = self.text(name);
        if text.is_none() && self.has_valid_form(name, &[]) {
            self.reject(format!("{name} is missing"));
        }
        text
    }

    /// The elements of a list that must be given and must not be empty.
    pub fn required_list(&self, name: &str) -> Vec<&'a str> {
        let elements = self.list(name);
        if elements.as_ref().is_none_or(Vec::is_empty) && self.has_valid_form(name, &["[]"]) {
            self.reject(format!("{name} is missing"));
        }
        elements.unwrap_or_default()
    }

    /// Rejects a parameter of the reference service that this server does not support. An empty value and the values in
    /// `neutral`, which ask for the default behaviour, are accepted. Clients would take an ignored one for obeyed.
    pub fn unsupported(&self, name: &str, neutral: &[&str]) {
        let is_name = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
        let mut values = self.params.pairs().filter(|(key, _)| is_name(key)).map(|(_, value)| value.trim());
        if values.any(|value| !value.is_empty() && !neutral.iter().any(|text| text.eq_ignore_ascii_case(value))) {
            self.reject(format!("{name} is not supported by this server"));
        }
    }

    /// At most one of `names` may be given; the error lists the given ones.
    pub fn exclusive(&self, names: &[&str]) {
        let given: Vec<&str> = names.iter().copied().filter(|name| self.params.has(name)).collect();
        if given.len() > 1 {
            self.reject(format!("{} are mutually exclusive", given.join(", ")));
        }
    }

    /// 400 with all errors, joined with `, `, if there are any. A repeated error occurs once.
    pub fn finish(self) -> Result<(), Error> {
        let mut errors = self.errors.into_inner();
        let mut known = HashSet::new();
        errors.retain(|error| known.insert(error.clone()));
        if errors.is_empty() { Ok(()) } else { Err(Error::validation(errors.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_value_wins_and_empty_is_absent() {
        let params = Params::parse("a=1&a=2&b=&c=x+y%2Bz");
        assert_eq!(params.last("a"), Some("2"));
        assert_eq!((params.last("b"), params.text("b")), (Some(""), None));
        assert_eq!(params.text("c"), Some("x y+z"));
    }

    #[test]
    fn lists_take_every_form() {
        for query in ["l=a,b,c", "l[]=a&l[]=b&l[]=c", "l[]=a,b&l[]=c", "l=a&l=b&l=c", "l%5B%5D=a&l=+b+,,c"] {
            assert_eq!(Params::parse(query).list("l"), Some(vec!["a", "b", "c"]), "{query}");
        }
        assert_eq!(Params::parse("l=").list("l"), Some(vec![]));
        assert_eq!(Params::parse("ll=a").list("l"), None);
    }

    #[test]
    fn nested_names_lose_one_level() {
        let params = Params::parse("not[labels][]=a&not[labels][]=b&not[milestone]=m&nothing=1");
        let inner = params.below("not");
        assert_eq!(inner.list("labels"), Some(vec!["a", "b"]));
        assert_eq!(inner.text("milestone"), Some("m"));
        assert!(params.has("not") && !params.has("noth"));
    }

    #[test]
    fn json_is_the_same_as_a_form() {
        let object = json!({"ids": [1, 2], "not": {"labels": ["a"], "iids": []}, "x": null, "ok": true, "y": {}});
        let params = Params::from_json(object.as_object().unwrap()).unwrap();
        assert_eq!(params.list("ids"), Some(vec!["1", "2"]));
        assert_eq!(params.below("not").list("labels"), Some(vec!["a"]));
        assert_eq!(params.below("not").list("iids"), Some(vec![]));
        assert_eq!((params.last("x"), params.last("ok")), (None, Some("true")));
        assert!(params.has("y") && Validation::new(&params).last("y").is_none());
    }

    /// Without the bound, a body of 64 KiB would become half a gigabyte of names.
    #[test]
    fn names_that_are_repeated_are_bounded() {
        let name = "n".repeat(32 << 10);
        let small = json!({&*name: vec![0; 1000]});
        assert_eq!(Params::from_json(small.as_object().unwrap()).unwrap().pairs().count(), 1000);
        let fields: serde_json::Map<_, _> = (0..4000).map(|key| (key.to_string(), json!(0))).collect();
        for value in [json!(vec![0; 4000]), fields.into()] {
            let error = Params::from_json(json!({&*name: value}).as_object().unwrap()).unwrap_err();
            assert_eq!(error.status, 400);
        }
    }

    #[test]
    fn booleans_are_read_as_by_the_reference_service() {
        let read = |text: &str| {
            let params = Params::parse(&format!("b={text}"));
            Validation::new(&params).boolean("b")
        };
        for (text, expected) in [("yes", true), ("Y", true), ("ON", true), ("t", true), ("no", false), ("n", false)] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        assert_eq!(["ja", "yess", "2", "-1", "null"].map(read), [None; 5]);
    }

    #[test]
    fn coerces() {
        let params = Params::parse("i=-7&t=On&f=0&d=2020-01-01&s=all&e=");
        let checks = Validation::new(&params);
        assert_eq!(checks.integer("i"), Some(-7));
        assert_eq!((checks.boolean("t"), checks.boolean("f"), checks.boolean("e")), (Some(true), Some(false), None));
        assert!(checks.datetime("d").is_some());
        assert_eq!(checks.one_of("s", &["all", "mine"]), Some("all"));
        assert!(checks.finish().is_ok());
    }

    #[test]
    fn booleans_have_the_spellings_of_the_reference_service() {
        for (texts, expected) in [
            ("1 on On ON t true True TRUE T y yes Yes YES Y", Some(true)),
            ("0 off Off OFF f false False FALSE F n no No NO N", Some(false)),
            ("2 -1 tru yess null nil", None),
        ] {
            for text in texts.split(' ') {
                let params: Params = [("b".to_owned(), text.to_owned())].into_iter().collect();
                let checks = Validation::new(&params);
                assert_eq!(checks.boolean("b"), expected, "{text}");
                assert_eq!(checks.finish().is_ok(), expected.is_some(), "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_unless_it_asks_for_nothing() {
        let refused = |query: &str| {
            let params = Params::parse(query);
            let checks = Validation::new(&params);
            checks.unsupported("ids", &["0", "false"]);
            checks.finish().err().map(|error| error.to_json()["error"].clone())
        };
        for query in ["", "ids=", "ids[]=", "ids[]=0", "ids=False", "ids= ", "idst=1"] {
            assert_eq!(refused(query), None, "{query}");
        }
        for query in ["ids=1", "ids[]=0&ids[]=2", "ids[a]=x", "ids=0&ids=true"] {
            assert_eq!(refused(query), Some(json!("ids is not supported by this server")), "{query}");
        }
    }

    #[test]
    fn null_is_absent_and_known() {
        let object = json!({"a": null, "b": "", "c": {"d": null}});
        let mut params = Params::parse("a=1");
        params.extend(Params::from_json(object.as_object().unwrap()).unwrap());
        assert!(!params.is_null("a") && !params.is_null("b") && !params.is_null("d"));
        let params = Params::from_json(object.as_object().unwrap()).unwrap();
        assert!(params.is_null("a") && !params.has("a"));
    }

    #[test]
    fn another_form_is_invalid() {
        let error = |read: &dyn Fn(&Validation), query: &str| {
            let params = Params::parse(query);
            let checks = Validation::new(&params);
            read(&checks);
            checks.finish().err().map(|error| error.to_json()["error"].clone())
        };
        let invalid = Some(json!("n is invalid"));
        for query in ["n[]=1", "n[x]=1", "n[]=", "n[]=1&n=1", "n=1&n[]=1", "n[0][a]=1"] {
            let scalars: [&dyn Fn(&Validation); 7] = [
                &|checks| assert_eq!(checks.text("n"), None),
                &|checks| assert_eq!(checks.last("n"), None),
                &|checks| assert_eq!(checks.required("n"), None),
                &|checks| assert_eq!(checks.one_of("n", &["1"]), None),
                &|checks| assert_eq!(checks.integer("n"), None),
                &|checks| assert_eq!(checks.boolean("n"), None),
                &|checks| assert_eq!(checks.datetime("n"), None),
            ];
            for read in scalars {
                assert_eq!(error(read, query), invalid, "{query}");
            }
        }
        for query in ["n[x]=1", "n[0]=1", "n[][]=1", "n=1&n[x]=1"] {
            assert_eq!(error(&|checks| assert_eq!(checks.list("n"), None), query), invalid, "{query}");
        }
        assert_eq!(error(&|checks| assert_eq!(checks.list("n"), Some(vec!["1", "2"])), "n[]=1&n=2"), None);
        assert_eq!(error(&|checks| assert_eq!(checks.text("n"), Some("1")), "n=1&nn[]=2&m[n]=3"), None);
        let twice: &dyn Fn(&Validation) = &|checks| {
            assert_eq!(checks.text("n"), None);
            assert_eq!(checks.integer("n"), None);
        };
        assert_eq!(error(twice, "n[]=1"), invalid);
    }

    #[test]
    fn one_response_names_every_error() {
        let params = Params::parse("i=7x&b=maybe&d=soon&s=none&x=1&y[]=2");
        let checks = Validation::new(&params);
        checks.integer("i");
        checks.boolean("b");
        checks.datetime("d");
        checks.one_of("s", &["all"]);
        checks.required("q");
        checks.exclusive(&["x", "y", "z"]);
        let error = checks.finish().unwrap_err();
        let expected = json!({"error": "i is invalid, b is invalid, d is invalid, s does not have a valid value, q is missing, x, y are mutually exclusive"});
        assert_eq!(error.to_json(), expected);
    }
}
