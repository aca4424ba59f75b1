//! What must hold whatever happens to the process, and whoever comes at the same moment.

mod backup;
mod crash;
mod directory;
mod import;
mod maintenance;
mod races;
mod suggestions;
