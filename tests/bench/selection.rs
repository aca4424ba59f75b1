//! Which rows are measured.

/// Rows whose group or name has one of these words. Without words, all rows.
pub struct Selection(Vec<String>);

impl Selection {
    /// Options among the arguments are cargo's.
    pub fn new(arguments: Vec<String>) -> Self {
        Self(arguments.into_iter().filter(|argument| !argument.starts_with("--")).collect())
    }

    pub fn has(&self, group: &str, row: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|word| group.contains(word.as_str()) || row.contains(word.as_str()))
    }

    pub fn has_any(&self, group: &str, rows: &[&str]) -> bool {
        rows.iter().any(|row| self.has(group, row))
    }
}
