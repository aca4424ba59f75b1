//! The types that installers expect of each field.

use super::bin;
use super::{BUNDLED, BUNDLED_ALIAS, DEPENDENCIES, DIRECTORIES, INSTALL_SCRIPTS, InstallFields, SCRIPTS};
use serde_json::Value;

impl InstallFields {
    /// The values of a field, under each of its names.
    pub(super) fn written(&self, field: &'static str) -> [Option<&Value>; 2] {
        let alias = if field == BUNDLED { BUNDLED_ALIAS } else { field };
        [field, alias].map(|name| self.fields.get(name))
    }

    /// Whether the file has `null` for a dependency's version, and the document an empty text, as yarn 1 writes it.
    pub(super) fn is_without_version(&self, field: &str, name: &str, spec: &str) -> bool {
        spec.is_empty() && self.fields.get(field).and_then(|map| map.get(name)).is_some_and(Value::is_null)
    }

    /// Whether both write a field in the same way. In a list of commands, yarn 1 drops `./` from paths.
    pub(super) fn is_written_as(&self, document: &InstallFields, field: &'static str) -> bool {
        let (ours, theirs) = (self.written(field), document.written(field));
        let are_same_commands =
            || matches!((ours, theirs), ([Some(ours), _], [Some(theirs), _]) if bin::are_same_list(ours, theirs));
        ours == theirs || field == "bin" && are_same_commands()
    }

    /// Whether a field has the types that installers expect, or is absent.
    pub(super) fn is_well_formed(&self, field: &'static str) -> bool {
        self.written(field).into_iter().flatten().all(|value| match field {
            _ if DEPENDENCIES.contains(&field) => is_object_of_texts(value),
            BUNDLED => value.is_boolean() || is_list_of_names(value),
            "bin" => value.is_string() || is_object_of_texts(value),
            DIRECTORIES => value.is_object() && value.get("bin").is_none_or(Value::is_string),
            "engines" => is_object_of_texts(value) || is_list_of_texts(value),
            "os" | "cpu" | "libc" => value.is_string() || is_list_of_texts(value),
            SCRIPTS => {
                let is_text = |name: &&str| value.get(*name).is_none_or(Value::is_string);
                value.is_object() && INSTALL_SCRIPTS.iter().all(is_text)
            }
            "gypfile" => value.is_boolean(),
            _ => value.as_object().is_some_and(|object| object.values().all(Value::is_object)),
        })
    }
}

fn is_object_of_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.values().all(Value::is_string))
}

fn is_list_of_names(value: &Value) -> bool {
    let is_name = |name: &Value| name.as_str().is_some_and(|name| !name.is_empty());
    value.as_array().is_some_and(|list| list.iter().all(is_name))
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}
