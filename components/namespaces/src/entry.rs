//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [reads("directory/", 1), reads("suggestions/", 1), owns("namespaces/", 1), shares("token-use/", 1)],
}
