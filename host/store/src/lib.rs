//! Key-value storage: the trait [`Backend`] and its engines, SQLite and PostgreSQL.
//!
//! # When a write is durable
//!
//! The engine *applies* a write inside its open transaction. The write becomes *durable* when that transaction is
//! committed, with one flush to disk. Because applying and waiting are separate, a request that writes several keys
//! needs one flush, and concurrent requests share it:
//!
//! 1. [`Backend::set`] and [`Backend::delete`] only queue. [`Backend::increment`] and [`Backend::cas`] return once
//!    applied. Each is an entry in the request's [`Ledger`].
//! 2. The host holds back the head of the response until the ledger is settled ([`Backend::durable`]). So a client gets
//!    no response before its writes are durable.
//! 3. After its response head, a guest waits after each write until it is durable.
//! 4. If a commit fails, every ledger with an entry in it fails. The host answers 503, or 500 if a retry is useless
//!    ([`ErrorKind`]). The engine refuses the operations that the request queued after the failed ones. A read inside
//!    the open transaction, such as a lost swap, is an entry too: its result may depend on another request's write that
//!    was rolled back.
//!
//! Reads see committed data only. `imports::keyvalue` settles a request's ledger before the request
//! reads a key that it wrote.

mod backend;
mod change_clock;
mod error;
pub mod health;
mod ledger;
pub mod lock;
pub mod near_cache;
mod problem;
mod server_clock;
mod watch;

pub use backend::{Backend, CasOutcome, CatchUp, CaughtUp};
pub use backend::{Key, MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use change_clock::{ChangeClock, VersionBucket};
pub use error::{ErrorKind, StoreError};
pub use health::StoreHealth;
pub use ledger::{Ledger, LedgerEntry};
pub use lock::LockError;
pub use near_cache::CAPACITY as NEAR_CACHE_BYTES;
pub use problem::{StoreFailure, StoreProblem};
pub use server_clock::{ClockReading, ServerClock};
pub use watch::Watch;
