//! Components in the store that hosts share.

use super::DeployError;
use super::policy::Signature;
use crate::digest::Digest;
use crate::store::StoreError;
use crate::store::postgres::FleetStore;

/// Gives a component to the hosts of a store.
pub fn publish(
    store: &FleetStore,
    digest: &Digest,
    wasm: Vec<u8>,
    signature: Option<&Signature>,
) -> Result<(), DeployError> {
    let signature = signature.map(|signature| signature.as_bytes().to_vec());
    store.put_component(&digest.to_string(), wasm, signature).map_err(DeployError::Store)
}

/// Reads a component that was given to the hosts of a store.
pub fn fetch(store: &FleetStore, digest: &Digest) -> Result<(Vec<u8>, Option<Signature>), DeployError> {
    let damaged = |reason: &str| {
        let reason = format!("the component {digest} in the store {reason}; swap in a component anew");
        DeployError::Store(StoreError::Engine(reason.into()))
    };
    let found = store.component(&digest.to_string()).map_err(DeployError::Store)?;
    let (wasm, signature) = found.ok_or_else(|| damaged("is not there"))?;
    if Digest::of(&wasm) != *digest {
        return Err(damaged("has other bytes than its digest says"));
    }
    let signature =
        signature.map(|bytes| Signature::from_bytes(&bytes).ok_or_else(|| damaged("has no usable signature")));
    Ok((wasm, signature.transpose()?))
}

/// What the store has of a component, or else the host's own copy of it. A store that is away may have a better one.
pub fn or_own(
    fetched: Result<(Vec<u8>, Option<Signature>), DeployError>,
    own: Result<(Vec<u8>, Option<Signature>), DeployError>,
) -> Result<(Vec<u8>, Option<Signature>), DeployError> {
    match (fetched, own) {
        (Err(error), Ok(own)) if !error.is_passing() => Ok(own),
        (fetched, _) => fetched,
    }
}
