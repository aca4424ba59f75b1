//! Why an instance ended early.

use hexad_support::named_values;
use wasmtime::Trap;

named_values! {
    /// Why an instance ended early.
    pub enum InstanceFailure {
        /// It executed an `unreachable`, which panics and aborts become.
        Unreachable = "unreachable",
        /// It read or wrote outside of its memory.
        Memory = "memory",
        StackOverflow = "stack_overflow",
        /// Another trap: arithmetic, tables, casts, the rules of the component model.
        OtherTrap = "other_trap",
        /// It used up its processor time.
        CpuTime = "cpu_time",
        /// Its request timed out.
        TimedOut = "timed_out",
        /// It was denied memory that its limit allows, because the host had none left.
        HostMemory = "host_memory",
        /// It called a function that this host does not supply.
        UnsupportedImport = "unsupported_import",
        /// The host ended it: too many handles, or too large a call.
        Refused = "refused",
        /// The host itself failed while it ran the instance.
        Panicked = "host_panicked",
        /// The host stopped before the instance was done.
        Cancelled = "cancelled",
    }
}

impl InstanceFailure {
    /// Classifies the error of an instance that ended on the current thread.
    pub fn from_error(error: &wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => Self::Unreachable,
            Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned) => Self::Memory,
            Some(Trap::StackOverflow) => Self::StackOverflow,
            Some(_) => Self::OtherTrap,
            None if error.is::<OutOfCpuTime>() => Self::CpuTime,
            None if error.is::<UnsupportedImport>() => Self::UnsupportedImport,
            // A panic around an instance drops it, and so does the end of the thread's runtime.
            None => match error.downcast_ref::<InstanceEnd>() {
                Some(InstanceEnd::TimedOut) => Self::TimedOut,
                Some(InstanceEnd::Panicked) => Self::Panicked,
                Some(InstanceEnd::Dropped) if std::thread::panicking() => Self::Panicked,
                Some(InstanceEnd::Dropped) => Self::Cancelled,
                None => Self::Refused,
            },
        }
    }
}

/// A guest used more processor time for one request than its component's limit.
#[derive(Debug, thiserror::Error)]
#[error("the guest used up its processor time")]
pub struct OutOfCpuTime;

/// A guest called a function of an interface that the host links without supplying it.
#[derive(Debug, thiserror::Error)]
#[error("the guest called `{0}`, which this host does not supply")]
pub struct UnsupportedImport(pub String);

/// The host ended an instance.
#[derive(Debug, thiserror::Error)]
pub enum InstanceEnd {
    #[error("the guest timed out")]
    TimedOut,
    #[error("the host panicked")]
    Panicked,
    #[error("the host stopped")]
    Dropped,
}
