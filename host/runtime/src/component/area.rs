//! Checks a component through its platform interface (`wit/platform.wit`): it is the area of its service, it can read
//! the stored formats, and it works with its grants.

use std::sync::Arc;

use hexad_imports::keyvalue::RequestWrites;
use hexad_store::{Backend, StoreError};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use self::exports::hexad::platform::area;
pub use self::exports::hexad::platform::area::Storage;
use super::by_value::{self, ByValueExport};
use crate::guest::Guest;

wasmtime::component::bindgen!({
    path: [
        "../../wit/deps/io@0.2.6",
        "../../wit/deps/clocks@0.2.6",
        "../../wit/deps/random@0.2.6",
        "../../wit/deps/filesystem@0.2.6",
        "../../wit/deps/sockets@0.2.6",
        "../../wit/deps/cli@0.2.6",
        "../../wit/deps/clocks@0.3.0",
        "../../wit/deps/random@0.3.0",
        "../../wit/deps/filesystem@0.3.0",
        "../../wit/deps/sockets@0.3.0",
        "../../wit/deps/cli@0.3.0",
        "../../wit/deps/http@0.3.0",
        "../../wit/deps/keyvalue@0.2.0-draft2",
        "../../wit/deps/spin-variables@3.0.0",
        "../../wit/platform.wit",
    ],
    inline: "package hexad:host; world identified { export hexad:platform/area@0.1.0; }",
    world: "hexad:host/identified",
    exports: { default: async },
});

pub use area::Description;

/// The export that makes a component an area.
const EXPORT: &str = "hexad:platform/area@0.1.0";

/// Why a component cannot be the area of its service.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    #[error("its export `{export}` is not as the platform words it: {source:#}")]
    Mistyped { export: &'static str, source: wasmtime::Error },
    #[error("no instance of it can be made: {0:#}")]
    NotInstantiated(wasmtime::Error),
    #[error("its export `{EXPORT}` failed: {0:#}")]
    Failed(wasmtime::Error),
    #[error("it is the area `{0}`; give this service the component of its own area")]
    AnotherArea(String),
    #[error("it does not say which area it is, and this service is that of the area `{0}`")]
    NoArea(String),
    #[error(
        "store `{label}` has records of format {stored} below `{prefix}`, and it reads {reads:?}; \
         use a version that reads that format"
    )]
    UnreadableFormat { label: String, prefix: String, stored: u32, reads: Vec<u32> },
    #[error("the store cannot be read: {0}")]
    Store(StoreError),
    #[error("its check failed: {0}")]
    CheckFailed(String),
}

impl AreaError {
    /// The store's failure, if it made an export of the area fail; otherwise this error. The area reports to its host
    /// only a text.
    pub fn or_outage(self, scope: &RequestWrites) -> Self {
        match (self, scope.outage()) {
            (Self::CheckFailed(_) | Self::Failed(_), Some(outage)) => Self::Store(outage.clone()),
            (error, _) => error,
        }
    }
}

/// Whether a component says which area it is.
pub fn is_area(component: &Component) -> bool {
    component.component_type().get_export(component.engine(), EXPORT).is_some()
}

/// Makes an instance of the component, and calls it for its description and its check. `None` if the component is no
/// area. Fails if an export does not have the types of the platform's interface.
///
/// `store` must be fresh and must not let the component write.
pub async fn identify(
    id: &str,
    pre: &InstancePre<Guest>,
    by_value: Option<ByValueExport>,
    mut store: Store<Guest>,
    backend: &dyn Backend,
    labels: impl IntoIterator<Item = &str>,
) -> Result<Option<Description>, AreaError> {
    let instance = pre.instantiate_async(&mut store).await.map_err(AreaError::NotInstantiated)?;
    if let Some(by_value) = by_value {
        let found = by_value.of_instance(&mut store, &instance);
        found.map_err(|source| AreaError::Mistyped { export: by_value::EXPORT, source })?;
    }
    if !is_area(pre.component()) {
        return Ok(None);
    }
    let identified = IdentifiedIndices::new(pre).and_then(|indices| indices.load(&mut store, &instance));
    let identified = identified.map_err(|source| AreaError::Mistyped { export: EXPORT, source })?;
    let area = identified.hexad_platform_area();
    let description = area.call_describe(&mut store).await.map_err(AreaError::Failed)?;
    if description.area != id {
        return Err(AreaError::AnotherArea(description.area));
    }
    check_formats(backend, labels, &description.storage).await?;
    let checked = store.run_concurrent(async |accessor| area.call_check(accessor).await).await;
    match checked.flatten().map_err(AreaError::Failed)? {
        Ok(()) => Ok(Some(description)),
        Err(reason) => Err(AreaError::CheckFailed(reason)),
    }
}

/// Checks that an area can read every format that a store has below its prefixes.
pub async fn check_formats(
    backend: &dyn Backend,
    labels: impl IntoIterator<Item = &str>,
    storages: &[Storage],
) -> Result<(), AreaError> {
    for label in labels {
        for Storage { prefix, reads, .. } in storages {
            let found = stored_formats(backend, label, prefix).await.map_err(AreaError::Store)?;
            if let Some(&stored) = found.iter().find(|stored| !reads.contains(stored)) {
                let (label, prefix, reads) = (label.to_owned(), prefix.clone(), reads.clone());
                return Err(AreaError::UnreadableFormat { label, prefix, stored, reads });
            }
        }
    }
    Ok(())
}

/// The first prefix and format that an area writes, without being its oldest format or one that a store has.
pub async fn unwritten_format(
    backend: &dyn Backend,
    labels: impl IntoIterator<Item = &str>,
    storages: &[Storage],
) -> Result<Option<(String, u32)>, AreaError> {
    for label in labels {
        for Storage { prefix, reads, writes } in storages {
            let Some(format) = writes.filter(|format| reads.iter().min() != Some(format)) else { continue };
            if !stored_formats(backend, label, prefix).await.map_err(AreaError::Store)?.contains(&format) {
                return Ok(Some((prefix.clone(), format)));
            }
        }
    }
    Ok(None)
}

/// The formats that a store has below a prefix. Keys are `<prefix>v<format>/...`.
async fn stored_formats(backend: &dyn Backend, label: &str, prefix: &str) -> Result<Vec<u32>, StoreError> {
    let store: Arc<str> = Arc::from(label);
    let prefix = format!("{prefix}v");
    let (mut after, mut formats) = (String::new(), Vec::new());
    while let Some(key) = backend.list(&store, &prefix, &after, 1).await?.into_iter().next() {
        let format = key.strip_prefix(&prefix).and_then(|rest| rest.split_once('/')).map(|(format, _)| format);
        formats.extend(format.and_then(|format| format.parse::<u32>().ok()));
        // The last key that this format can have; the next listing begins after it.
        after = match format {
            Some(format) => format!("{prefix}{format}/{}", char::MAX),
            None => key,
        };
    }
    Ok(formats)
}
