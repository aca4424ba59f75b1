//! Maps with a fast hash. An attacker could make keys collide, but only administrators send the keys.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

pub type FxHashMap<K, V> = HashMap<K, V, FxBuildHasher>;
