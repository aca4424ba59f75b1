//! Configuration: the application variables that the manifest grants to this component.

use std::collections::BTreeMap;

/// The values of variables at the start of the instance, by name.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The value of `name`; `None` if it is undefined or empty. So the manifest can disable it by an empty default.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of `name` as a number; `default` if it is undefined, empty or not a number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Variables(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_no_value() {
        let variables = Variables::from_iter([("a", ""), ("b", "x"), ("n", "12"), ("m", "many")]);
        assert_eq!((variables.get("a"), variables.get("b"), variables.get("c")), (None, Some("x"), None));
        assert_eq!((variables.number("n", 1), variables.number("m", 1), variables.number("z", 1)), (12, 1, 1));
    }
}
