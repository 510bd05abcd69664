//! Files of boot loaders and command lines: never a panic, and words that were added are there.
#![no_main]

use cpushield::boot::grub::{env, generator, menu};
use cpushield::boot::line;
use cpushield_linux::text::kernel_image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = env::parse(bytes);
    let _ = kernel_image::banner(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(menu) = menu::parse(text) {
        let saved = text.lines().last().unwrap_or("").to_owned();
        let _ = menu.next(&[("saved_entry".to_owned(), saved)]);
    }
    let _ = generator::without_ours(text, &["/etc/grub.d/07_cpushield"]);
    let wanted = ["nohz_full=2-3".to_owned()];
    if let Ok(merged) = line::merge(text, &wanted, 2048, Some(3)) {
        assert!(line::has(&line::with_words(text, &merged.add), &wanted[0]));
    }
});
