//! The host when its process is killed or stopped, and when many clients connect at once.

mod access_log;
mod backup;
mod crash;
mod deploy;
mod directory;
mod fleet;
mod import;
mod locked_store;
mod log;
mod maintenance;
mod many_hosts;
mod memory;
mod operator;
mod probe;
mod process;
mod proxies;
mod pushes;
mod races;
mod reload;
mod secrets;
mod stopping;
mod suggestions;
mod validate;
