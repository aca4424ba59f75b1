//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [
        reads("directory/", 1),
        kit::wasi::reads_formats("suggestions/", &[1, 2]),
        owns("namespaces/", 1),
        shares("token-use/", 1),
    ],
}
