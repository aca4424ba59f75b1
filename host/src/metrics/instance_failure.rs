//! Why an instance ended early.

use wasmtime::Trap;

use super::name_of;

/// Why an instance ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceFailure {
    /// It executed an `unreachable`, which panics and aborts become.
    Unreachable,
    /// It read or wrote outside of its memory.
    Memory,
    StackOverflow,
    /// Another trap: arithmetic, tables, casts, the rules of the component model.
    OtherTrap,
    /// It used up its processor time.
    CpuTime,
    /// Its request timed out.
    TimedOut,
    /// It was denied memory that its limit allows, because the host had none left.
    HostMemory,
    /// The host ended it: too many handles, or too large a call.
    Refused,
    /// The host itself failed while it ran the instance.
    Panicked,
    /// The host stopped before the instance was done.
    Cancelled,
}

impl InstanceFailure {
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Unreachable, "unreachable"),
        (Self::Memory, "memory"),
        (Self::StackOverflow, "stack_overflow"),
        (Self::OtherTrap, "other_trap"),
        (Self::CpuTime, "cpu_time"),
        (Self::TimedOut, "timed_out"),
        (Self::HostMemory, "host_memory"),
        (Self::Refused, "refused"),
        (Self::Panicked, "host_panicked"),
        (Self::Cancelled, "cancelled"),
    ];

    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }

    /// Classifies the error of an instance that ended on the current thread.
    pub fn from_error(error: &wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => Self::Unreachable,
            Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned) => Self::Memory,
            Some(Trap::StackOverflow) => Self::StackOverflow,
            Some(_) => Self::OtherTrap,
            None if error.is::<OutOfCpuTime>() => Self::CpuTime,
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
