#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| legato_lab::hostile::loader(data));
