//! The allocator: jemalloc. It costs a request less time than the system's allocator, and can return free memory to the
//! system (decision 0046).

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Returns free memory to the system at once, after rare work that uses much, such as compiling a component. Otherwise
/// jemalloc returns it slowly, and some of it only during the next such work.
pub fn release_free_memory() {
    #[cfg(target_os = "linux")]
    // SAFETY: the name ends with a zero byte, and this control reads and writes no value.
    unsafe {
        use std::ptr::null_mut;
        // 4096 stands for all arenas (MALLCTL_ARENAS_ALL). On a failure, the process keeps the memory.
        tikv_jemalloc_sys::mallctl(c"arena.4096.purge".as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}
