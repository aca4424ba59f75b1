//! The allocator: jemalloc, which costs a request less than the system's, and whose memory can be
//! given back.

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Gives free memory back to the system at once. To be called after work that takes much and is
/// seldom done, such as compiling a component: otherwise it comes back little by little, and some of
/// it only with the next such work.
pub fn give_back() {
    #[cfg(target_os = "linux")]
    // SAFETY: the name ends with a zero; this control takes and gives nothing.
    unsafe {
        use std::ptr::null_mut;
        // 4096 stands for all arenas (MALLCTL_ARENAS_ALL). Without success the memory stays free.
        tikv_jemalloc_sys::mallctl(c"arena.4096.purge".as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}
