//! Bindings of the world `hexad:platform/kit`. `spin-sdk` binds the rest and re-exports the `wit-bindgen` for both.

#![allow(warnings, clippy::all, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

spin_sdk::wit_bindgen::generate!({
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
    world: "hexad:platform/kit@0.1.0",
    runtime_path: "::spin_sdk::wit_bindgen::rt",
    pub_export_macro: true,
    export_macro_name: "export_platform",
    default_bindings_module: "kit::wasi::bindings",
    with: {
        "wasi:clocks/types@0.3.0": ::spin_sdk::wasip3::clocks::types,
        "wasi:http/types@0.3.0": ::spin_sdk::wasip3::http::types,
    },
    generate_all,
});
