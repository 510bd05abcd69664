//! Parsers of kernel text and of other tools' files: never a panic, whatever the text.
#![no_main]

use cpushield_linux::text;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = text::interrupts::parse(text);
    let _ = text::softirqs::parse(text);
    let _ = text::stat::parse(text);
    let _ = text::schedstat::parse(text);
    let _ = text::kconfig::parse(text);
    let _ = text::mounts::parse(text);
    let _ = text::size::kib(text);
    let _ = text::cpuinfo::parse(text);
    let _ = text::timer_list::parse(text);
    let _ = text::kmsg::kernel_message(text);
    let _ = text::kallsyms::KernelSymbols::parse(text);
    let _ = text::partition::PartitionState::from_text(text);
    let _ = text::routes::default_interfaces(text);
    let _ = text::routes::default_interfaces_v6(text);
    let _ = text::kernel_version::KernelVersion::from_release(text);
    let _ = text::kernel_version::may_be_vendor_build(text);
    let _ = text::modinfo::module_names(text);
    let _ = text::modinfo::module_file(text, "snd");
    let _ = text::modinfo::builtin_parameters(text.as_bytes(), "snd");
    let _ = text::modinfo::file_parameters(text.as_bytes());
    let _ = text::modinfo::field_parameters(text.as_bytes());
});
