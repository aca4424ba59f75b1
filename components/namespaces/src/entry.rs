//! The component's exports: foreign types become plain data here, and nothing else happens.

use crate::api;
use kit::wasi::{self, Description, Storage};

struct Component;
wasi::export_http!(Component with_types_in wasi::wasip3);
wasi::export_area!(Component with_types_in kit::wasi::bindings);

impl wasi::Handler for Component {
    async fn handle(request: wasi::Incoming) -> wasi::Outcome {
        wasi::serve(request, api::VARIABLES, api::handle).await
    }
}

impl wasi::Area for Component {
    fn describe() -> Description {
        Description {
            area: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            api: "v4".into(),
            storage: vec![
                Storage { prefix: "directory/".into(), reads: vec![1], writes: None },
                Storage { prefix: "namespaces/".into(), reads: vec![1], writes: Some(1) },
            ],
        }
    }

    async fn check() -> Result<(), String> {
        wasi::check("directory/").await
    }
}
