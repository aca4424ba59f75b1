//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [reads("directory/", 1), kit::wasi::owns_formats("suggestions/", &[1, 2]), shares("token-use/", 1)],
}
