//! Why instances end before their time.

use wasmtime::Trap;

use super::name;

/// Why an instance ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It executed an `unreachable`, which is what a panic or an abort becomes.
    Unreachable,
    /// It read or wrote outside its memory.
    Memory,
    StackOverflow,
    /// Another trap: arithmetic, tables, casts, the rules of the component model.
    OtherTrap,
    /// It used up its processor time.
    CpuTime,
    /// Its time was over.
    TimedOut,
    /// The host refused to go on: too many handles or too much in one call.
    Refused,
    /// The host itself failed while it drove the instance.
    Panicked,
    /// The host stopped and had no more time for it.
    Cancelled,
}

impl Failure {
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Unreachable, "unreachable"),
        (Self::Memory, "memory"),
        (Self::StackOverflow, "stack_overflow"),
        (Self::OtherTrap, "other_trap"),
        (Self::CpuTime, "cpu_time"),
        (Self::TimedOut, "timed_out"),
        (Self::Refused, "refused"),
        (Self::Panicked, "host_panicked"),
        (Self::Cancelled, "cancelled"),
    ];

    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Of an instance that ends on this thread.
    pub fn of(error: &wasmtime::Error) -> Self {
        match error.downcast_ref::<Trap>() {
            Some(Trap::UnreachableCodeReached) => Self::Unreachable,
            Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned) => Self::Memory,
            Some(Trap::StackOverflow) => Self::StackOverflow,
            Some(_) => Self::OtherTrap,
            None if error.is::<OutOfCpuTime>() => Self::CpuTime,
            // What takes an instance away is a panic around it, or the end of the thread's runtime.
            None => match error.downcast_ref::<Ended>() {
                Some(Ended::TimedOut) => Self::TimedOut,
                Some(Ended::Panicked) => Self::Panicked,
                Some(Ended::Dropped) if std::thread::panicking() => Self::Panicked,
                Some(Ended::Dropped) => Self::Cancelled,
                None => Self::Refused,
            },
        }
    }
}

/// A guest used more processor time for one request than its component may.
#[derive(Debug, thiserror::Error)]
#[error("the guest used up its processor time")]
pub struct OutOfCpuTime;

/// An instance ended through no fault of its code.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    #[error("the guest's time was over")]
    TimedOut,
    #[error("the host panicked")]
    Panicked,
    #[error("the host went away")]
    Dropped,
}
