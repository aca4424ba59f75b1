//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [],
    network: concurrent,
}
