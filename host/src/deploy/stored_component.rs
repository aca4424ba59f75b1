//! Components in a store that hosts share.

use super::DeployError;
use super::policy::Signature;
use crate::digest::Digest;
use crate::store::StoreError;
use crate::store::postgres::FleetStore;

/// Publishes a component to the hosts of a store.
pub fn publish(
    store: &FleetStore,
    digest: &Digest,
    wasm: Vec<u8>,
    signature: Option<&Signature>,
) -> Result<(), DeployError> {
    let signature = signature.map(|signature| signature.as_bytes().to_vec());
    store.put_component(&digest.to_string(), wasm, signature).map_err(DeployError::Store)
}

/// Reads a component that a host has published.
pub fn fetch(store: &FleetStore, digest: &Digest) -> Result<Signed, DeployError> {
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

/// A component and its signature.
pub type Signed = (Vec<u8>, Option<Signature>);

/// The host's own copy of a component if it is trusted, otherwise the store's copy, which may have a newer signature.
/// While the store is unavailable, an untrusted own copy is no substitute: the store's copy may be trusted.
pub fn own_or_fetched(
    own: Result<Signed, DeployError>,
    is_trusted: impl FnOnce(&Signed) -> bool,
    fetch: impl FnOnce() -> Result<Signed, DeployError>,
) -> Result<Signed, DeployError> {
    let own = match own {
        Ok(own) if is_trusted(&own) => return Ok(own),
        own => own,
    };
    match (fetch(), own) {
        (Err(error), Ok(own)) if !error.is_passing() => Ok(own),
        (fetched, _) => fetched,
    }
}
