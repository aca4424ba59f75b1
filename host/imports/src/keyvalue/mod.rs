//! Key-value interfaces of guests, over any [`Backend`](hexad_store::Backend) and within the
//! component's grants.
//!
//! | module | interface |
//! |---|---|
//! | `wasi_draft2` | `wasi:keyvalue@0.2.0-draft2`; the others are built on it |
//! | `spin2` | `fermyon:spin/key-value@2.0.0` |
//! | `spin3` | `spin:key-value@3.0.0` |

mod grants;
mod measured_call;
mod request_writes;
mod spin2;
mod spin3;
mod state;
mod wasi_draft2;

use wasmtime::component::Linker;

pub use grants::Grants;
pub use measured_call::MeasuredCall;
pub use request_writes::RequestWrites;
pub use state::{KeyValue, KeyValueView};

/// Adds all key-value interfaces.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> KeyValueView<'_>,
) -> wasmtime::Result<()> {
    wasi_draft2::add_to_linker(linker, view)?;
    spin2::add_to_linker(linker, view)?;
    spin3::add_to_linker(linker, view)
}
