//! Feature flags.

use crate::features;
use crate::line_error::{InvalidLine, LineError};
use directory::feature::{self, FeatureGates};
use kit::Env;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Feature {
    name: String,
    value: Option<bool>,
    gates: Option<Vec<Value>>,
}

impl Feature {
    pub fn apply(self, env: &Env, deleted: bool) -> Result<(), LineError> {
        if !features::is_name(&self.name) {
            return Err(InvalidLine::Fields("name has characters that no feature's name has, or is too long").into());
        }
        if deleted {
            return Ok(feature::delete(env, &self.name)?);
        }
        let gates = match (&self.gates, self.value) {
            (Some(list), _) => {
                features::parse_gates(list).ok_or(InvalidLine::Fields("gates has a gate that is not known"))?
            }
            (None, Some(boolean)) => FeatureGates { boolean, ..FeatureGates::default() },
            (None, None) => return Err(InvalidLine::Fields("gates or value is missing").into()),
        };
        feature::save(env, &self.name, |current| *current = gates.clone())?;
        Ok(())
    }
}
