//! Errors in a manifest. The texts are for its author.

use std::io;
use std::path::{Path, PathBuf};

/// How many reasons an error has at most, and how many characters of each.
const MAX_REASONS: usize = 30;
const MAX_REASON_CHARS: usize = 1000;

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot read the manifest {path}: {source}; --manifest names one, for `hexad validate` its argument")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Each reason names the line, the key, its value and the remedy.
    #[error("the manifest {path} cannot be used: {}", reasons.join("; "))]
    Invalid { path: PathBuf, reasons: Vec<String> },
}

impl ManifestError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    pub(super) fn invalid(path: &Path, mut reasons: Vec<String>) -> Self {
        let more = reasons.len().saturating_sub(MAX_REASONS);
        reasons.truncate(MAX_REASONS);
        for reason in &mut reasons {
            *reason = shortened(reason.trim_end());
        }
        if more > 0 {
            reasons.push(format!("and {more} more"));
        }
        Self::Invalid { path: path.to_owned(), reasons }
    }

    /// The error of a `text` that is no valid TOML. The log shows reasons, so they omit the line: it can have a secret.
    pub(super) fn unparsable(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().and_then(|span| text.get(..span.start)).map_or_else(String::new, |before| {
            let (line, start) = (before.split('\n').count(), before.rfind('\n').map_or(0, |end| end + 1));
            let column = before.get(start..).unwrap_or_default().chars().count() + 1;
            format!(" at line {line}, column {column}")
        });
        Self::invalid(path, vec![format!("TOML parse error{place}: {}", error.message())])
    }
}

/// The beginning of a reason, without control characters that a terminal would act on.
fn shortened(reason: &str) -> String {
    let is_shown = |c: &char| !c.is_control() || *c == '\n';
    let mut chars = reason.chars().filter(is_shown);
    let mut shown: String = chars.by_ref().take(MAX_REASON_CHARS).collect();
    shown.extend(chars.next().map(|_| '…'));
    shown
}

/// Why a manifest cannot be used, as far as it was read.
#[derive(Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub fn add(&mut self, reason: String) {
        self.0.push(reason);
    }

    /// The value of `result`. An error is added to the problems.
    pub fn keep<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|reason| self.add(reason)).ok()
    }

    /// An error if there is a problem.
    pub fn check(&self, path: &Path) -> Result<(), ManifestError> {
        if self.0.is_empty() { Ok(()) } else { Err(ManifestError::invalid(path, self.0.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use crate::Manifest;

    #[test]
    fn no_secret_is_in_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spin.toml");
        let rest = "[application]\nname = \"app\"\n[component.hello]\nsource = \"hello.wasm\"\n\
                    [[trigger.http]]\nroute = \"/...\"\ncomponent = \"hello\"\n";
        for (text, place) in [
            ("[variables]\ntoken = { default = \"sesame\" secret = true }\n", "line 3, column 30: "),
            ("[variables]\ntoken = { default = \"sesame\", secret = true\n", "TOML parse error at line "),
            ("[variables]\ntoken = \"sesame\n", "TOML parse error at line "),
            ("[variables]\ntoken = sesame\n", "TOML parse error at line "),
            ("[variables]\ntoken = \"sesame\"\n", "line 3, variables.token: "),
            ("[variables]\ntoken = { default = [\"sesame\"], secret = true }\n", "line 3, variables.token.default: "),
            ("[variables]\ntoken = { required = \"sesame\" }\n", "line 3, variables.token.required: "),
            (
                "[component.other]\nsource = \"other.wasm\"\nallowed_outbound_hosts = [\"https://{{ token }}@x/\"]\n\
                 [variables]\ntoken = { default = \"sesame\", secret = true }\n",
                "allowed_outbound_hosts: \"https://{{ token }}@x/\" ",
            ),
            (
                "[component.other]\nsource = \"other.wasm\"\nallowed_outbound_hosts = [\"https://mia:sesame@x\"]\n",
                "allowed_outbound_hosts: \"…\" has a user's name or password",
            ),
            (
                "[component.other]\nsource = \"other.wasm\"\nvariables = { k = \"sesame{{\" }\n",
                "variables.k: it has `{{`",
            ),
            (
                "[component.other]\nsource = \"other.wasm\"\nvariables = { k = \"sesame{{ nope }}\" }\n",
                "variables.k: it refers to `nope`",
            ),
        ] {
            std::fs::write(&path, format!("spin_manifest_version = 2\n{text}{rest}")).unwrap();
            let Err(error) = Manifest::load(&path, &|_| None, None) else { panic!("accepted: {text}") };
            let error = error.to_string();
            assert!(error.contains(place), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
