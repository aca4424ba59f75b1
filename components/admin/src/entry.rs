//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [owns("directory/", 1), shares("token-use/", 1)],
}
