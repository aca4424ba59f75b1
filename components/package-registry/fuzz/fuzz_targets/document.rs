#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| package_registry::fuzz::document(bytes));
