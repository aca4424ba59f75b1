//! The component's exports.

use crate::api;
use directory::caller::BOOTSTRAP_ADMIN_TOKEN;
use directory::seal;
use kit::env::EXTERNAL_URL;
use kit::wasi::{self, Area, Description, Handler, Incoming, Outcome, Storage};

struct Component;

wasi::export_http!(Component);
wasi::export_area!(Component with_types_in kit::wasi::bindings);

impl Handler for Component {
    async fn handle(request: Incoming) -> Outcome {
        wasi::serve(request, &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, seal::KEY], api::handle).await
    }
}

impl Area for Component {
    fn describe() -> Description {
        Description {
            area: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            api: "v4".into(),
            storage: vec![Storage { prefix: "directory/".into(), reads: vec![1], writes: Some(1) }],
        }
    }

    async fn check() -> Result<(), String> {
        wasi::check("directory/").await
    }
}
