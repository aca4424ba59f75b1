//! New packs: those that clients send, and those of the objects that a request makes.

mod apply;
mod deltas;
mod receive;
mod received;
mod resolve;
mod resolver;
mod rewrite;
mod small;

pub use receive::PackReceiver;
pub use received::{BadPack, PackError, PackOrigin};
pub use small::{NewObject, save};
