//! Limits on what clients and components use: permits, instances, memory, processor time, bytes read.

pub mod anonymous_work;
pub mod concurrency_limit;
pub mod cpu_scheduler;
pub mod instance_permit;
pub mod memory_budget;
pub mod read_bounds;
