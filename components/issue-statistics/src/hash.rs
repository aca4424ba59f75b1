//! Maps with a fast hash that an attacker could collide: their keys come from administrators only.

use rustc_hash::FxBuildHasher;
use std::collections::HashMap;

pub type FxHashMap<K, V> = HashMap<K, V, FxBuildHasher>;
