//! Maps with a quick hash, for what an administrator imports.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

pub type Map<K, V> = HashMap<K, V, FxBuildHasher>;
