//! What holds when the process is killed or stopped, and when many clients come at once.

mod backup;
mod crash;
mod directory;
mod import;
mod maintenance;
mod memory;
mod operator;
mod probe;
mod process;
mod races;
mod reload;
mod stopping;
mod suggestions;
mod validate;
