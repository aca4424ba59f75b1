//! Which stores a component may open, and which key prefixes it may read and write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hexad_support::log_throttle::LogThrottle;

/// The key-value grants of one component.
#[derive(Debug)]
pub struct Grants {
    component: String,
    /// Every label in the manifest, of all components.
    all_labels: Arc<BTreeSet<String>>,
    labels: BTreeSet<String>,
    /// Sorted. No prefix starts with another one, so that a listing visits each key once.
    read: Vec<String>,
    write: Vec<String>,
    /// Prefixes of volatile keys: a crash may undo the last changes.
    volatile: Vec<String>,
    denied: AtomicU64,
    throttle: LogThrottle,
}

/// Whether a component may open a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelAccess {
    Granted,
    NotGranted,
    Unknown,
}

impl Grants {
    /// `prefixes` are the prefixes to read and to write; writing implies reading. `None` grants every key, as a
    /// manifest without `read` and `write` does.
    pub fn new(
        component: &str,
        all_labels: Arc<BTreeSet<String>>,
        labels: impl IntoIterator<Item = String>,
        prefixes: Option<(&[String], &[String])>,
    ) -> Self {
        let all = [String::new()];
        let (read, write) = prefixes.unwrap_or((&all, &all));
        Self {
            component: component.to_owned(),
            all_labels,
            labels: labels.into_iter().collect(),
            read: outermost(read.iter().chain(write)),
            write: outermost(write),
            volatile: Vec::new(),
            denied: AtomicU64::new(0),
            throttle: LogThrottle::new(1, 5),
        }
    }

    /// The same grants with volatile keys: swaps and increments of them need not survive a crash. The error names a
    /// prefix that the component may not write.
    pub fn with_volatile(self, prefixes: &[String]) -> Result<Self, String> {
        for prefix in prefixes {
            if prefix.is_empty() || !self.may_write(prefix) {
                return Err(format!("`volatile` has \"{prefix}\", which is not below a prefix of `write`"));
            }
        }
        Ok(Self { volatile: outermost(prefixes), ..self })
    }

    /// The same grants without writable prefixes.
    pub fn read_only(&self) -> Self {
        Self {
            component: self.component.clone(),
            all_labels: self.all_labels.clone(),
            labels: self.labels.clone(),
            read: self.read.clone(),
            write: Vec::new(),
            volatile: Vec::new(),
            denied: AtomicU64::new(0),
            throttle: LogThrottle::new(1, 5),
        }
    }

    /// The labels that the component may open.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str)
    }

    /// Continues the count of the component's `earlier` grants.
    pub fn continue_count(&self, earlier: &Self) {
        self.denied.store(earlier.denied(), Ordering::Relaxed);
    }

    pub fn label_access(&self, label: &str) -> LabelAccess {
        if self.labels.contains(label) {
            LabelAccess::Granted
        } else if self.all_labels.contains(label) {
            LabelAccess::NotGranted
        } else {
            LabelAccess::Unknown
        }
    }

    pub fn may_read(&self, key: &str) -> bool {
        self.read.iter().any(|prefix| key.starts_with(prefix))
    }

    pub fn may_write(&self, key: &str) -> bool {
        self.write.iter().any(|prefix| key.starts_with(prefix))
    }

    pub fn is_volatile(&self, key: &str) -> bool {
        self.volatile.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The readable prefixes in key order; no key is under two of them.
    pub fn readable(&self) -> &[String] {
        &self.read
    }

    /// The writable prefixes, as [`readable`](Self::readable).
    pub fn writable(&self) -> &[String] {
        &self.write
    }

    /// Number of refused accesses.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// Counts and logs a refused access.
    pub fn deny(&self, operation: &'static str, subject: &str) {
        self.denied.fetch_add(1, Ordering::Relaxed);
        if let Some(suppressed) = self.throttle.pass() {
            let component = &self.component;
            tracing::warn!(
                component, operation, subject = %subject.escape_debug(), suppressed,
                "access to the key-value store denied: the manifest does not grant it"
            );
        }
    }
}

/// Equal if they grant the same accesses.
impl PartialEq for Grants {
    fn eq(&self, other: &Self) -> bool {
        let Self { component, all_labels, labels, read, write, volatile, denied: _, throttle: _ } = self;
        (component, all_labels, labels) == (&other.component, &other.all_labels, &other.labels)
            && (read, write, volatile) == (&other.read, &other.write, &other.volatile)
    }
}

fn outermost<'a>(prefixes: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let sorted: BTreeSet<&String> = prefixes.into_iter().collect();
    let mut outermost: Vec<String> = Vec::new();
    for prefix in sorted {
        // A prefix sorts directly before the keys that start with it.
        if !outermost.last().is_some_and(|outer| prefix.starts_with(outer)) {
            outermost.push(prefix.clone());
        }
    }
    outermost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(read: &[&str], write: &[&str]) -> Grants {
        let owned = |list: &[&str]| list.iter().map(|p| p.to_string()).collect::<Vec<_>>();
        let all_labels = Arc::new(BTreeSet::from(["default".to_owned(), "cache".to_owned()]));
        let prefixes = (&*owned(read), &*owned(write));
        Grants::new("area", all_labels, ["default".to_owned()], Some(prefixes))
    }

    #[test]
    fn a_label_is_granted_not_granted_or_unknown() {
        let grants = grants(&[], &[]);
        assert_eq!(grants.label_access("default"), LabelAccess::Granted);
        assert_eq!(grants.label_access("cache"), LabelAccess::NotGranted);
        assert_eq!(grants.label_access("nowhere"), LabelAccess::Unknown);
    }

    #[test]
    fn writing_implies_reading_and_nothing_else_is_granted() {
        let grants = grants(&["shared/"], &["own/"]);
        assert!(grants.may_read("shared/v1/user/1"));
        assert!(!grants.may_write("shared/v1/user/1"));
        assert!(grants.may_read("own/x") && grants.may_write("own/x"));
        assert!(!grants.may_read("shared") && !grants.may_read("other/x"));
    }

    #[test]
    fn an_empty_list_grants_nothing_and_no_list_grants_all() {
        assert!(!grants(&[], &[]).may_read("a"));
        let all = Grants::new("area", Arc::default(), [], None);
        assert!(all.may_read("a") && all.may_write("a"));
        assert!(all.read_only().may_read("a") && !all.read_only().may_write("a"));
    }

    #[test]
    fn volatile_keys_are_a_part_of_the_writable_keys() {
        let volatile = |prefix: &str| grants(&["shared/"], &["own/"]).with_volatile(&[prefix.to_owned()]);
        let rates = volatile("own/rate/").unwrap();
        assert!(rates.is_volatile("own/rate/1") && !rates.is_volatile("own/rates") && !rates.is_volatile("own/x"));
        assert_ne!(rates, grants(&["shared/"], &["own/"]));
        assert!(!rates.read_only().is_volatile("own/rate/1"));
        for wrong in ["", "own", "shared/rate/"] {
            assert!(volatile(wrong).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
        }
    }

    #[test]
    fn readable_prefixes_do_not_overlap() {
        let grants = grants(&["b/", "a/x", "a/", "b/c"], &["ab"]);
        assert_eq!(grants.readable(), ["a/", "ab", "b/"]);
    }
}
