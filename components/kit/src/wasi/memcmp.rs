//! `memcmp` of every component. The C library's version compares one byte at a time. Comparing keys and records with it
//! took a tenth of a request's instructions.

use crate::compare::compare;

/// # Safety
///
/// As in C: `n` bytes can be read at `a` and at `b`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    if n == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (std::slice::from_raw_parts(a, n), std::slice::from_raw_parts(b, n)) };
    compare(a, b) as i32
}
