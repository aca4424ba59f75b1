//! Compares a component's imports with the manifest's grants.
//!
//! WASI's interfaces for files and sockets need no grant. Standard libraries import them even if the program does not
//! use them, and the host offers no files or sockets there.

use wasmtime::component;

use crate::manifest::Component;

/// The interfaces of a key-value store, without their versions.
const KEY_VALUE: [&str; 3] = ["wasi:keyvalue/store", "spin:key-value/key-value", "fermyon:spin/key-value"];

/// The interfaces through which a component sends requests.
const OUTBOUND: [&str; 2] = ["wasi:http/client", "wasi:http/outgoing-handler"];

/// The first import without the grant that it needs, and a remedy for the operator.
pub fn check_imports(code: &component::Component, component: &Component) -> Option<(String, &'static str)> {
    let has_store = component.grants.labels().next().is_some();
    let imports = code.component_type();
    let mut names = imports.imports(code.engine()).map(|(name, _)| name.to_owned());
    names.find_map(|name| {
        let interface = name.split_once('@').map_or(&*name, |(interface, _)| interface);
        if KEY_VALUE.contains(&interface) && !has_store {
            Some((name, "name a store in `key_value_stores`, or use a component without it"))
        } else if OUTBOUND.contains(&interface) && !component.declares_outbound {
            Some((name, "name hosts in `allowed_outbound_hosts`, or write `[]` there to deny it every request"))
        } else {
            None
        }
    })
}
