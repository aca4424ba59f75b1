//! The outcome of a reload of the manifest.

use std::fmt;
use std::time::SystemTime;

/// The changes that a reload has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The components with other settings, and the names of these settings.
    pub components: Vec<(String, Vec<&'static str>)>,
    pub routes: bool,
}

impl fmt::Display for Reloaded {
    /// For example `probe (limits, variables), routes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let components = self.components.iter().map(|(id, names)| format!("{id} ({})", names.join(", ")));
        let changes: Vec<_> = components.chain(self.routes.then(|| "routes".to_owned())).collect();
        f.write_str(if changes.is_empty() { "none" } else { "" })?;
        f.write_str(&changes.join(", "))
    }
}

/// The last reload of the manifest.
#[derive(Clone, Debug)]
pub struct ReloadRecord {
    pub at: SystemTime,
    pub outcome: ReloadOutcome,
}

#[derive(Clone, Debug)]
pub enum ReloadOutcome {
    Applied(Reloaded),
    /// A sentence with the reason.
    Refused(String),
}
