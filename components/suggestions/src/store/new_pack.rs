//! New packs: received from clients, or written for the objects that a request makes.

mod apply;
mod receive;
mod received;
mod resolve;
mod resolver;
mod small;

pub use receive::PackReceiver;
pub use received::{BadPack, PackError, PackOrigin};
pub use small::{NewObject, save};
