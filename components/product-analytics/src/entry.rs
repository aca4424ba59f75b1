//! The component's exports.

kit::area! {
    handle: crate::api::handle,
    variables: crate::api::VARIABLES,
    storage: [reads("directory/", 1), shares("token-use/", 1)],
    network: sequential,
}
