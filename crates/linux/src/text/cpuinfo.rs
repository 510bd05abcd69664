//! `/proc/cpuinfo`. Its format depends on the architecture (`show_cpuinfo()` in arch/*/kernel/,
//! 6.12): blocks of `key : value`, one for each online CPU. 32-bit ARM before 3.8 has one block for
//! all CPUs, which describes the CPU that read the file.

use std::collections::BTreeMap;

/// Keys of the processor's name, in order of preference: x86, ARM and LoongArch; MIPS; RISC-V;
/// PowerPC.
const NAMES: &[&str] = &["model name", "cpu model", "uarch", "cpu"];

/// The data of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Processor {
    /// The name of the processor.
    pub name: Option<String>,
    /// ARM: the designer of the core (`CPU implementer`), and its part number.
    pub part: Option<(u32, u32)>,
    /// x86: the core's number within its package (`core id`).
    pub core: Option<i64>,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpuinfo {
    /// The name of the first processor.
    pub model: Option<String>,
    /// The CPUs that have their own block.
    pub processors: BTreeMap<usize, Processor>,
}

impl Cpuinfo {
    /// The ARM part of each CPU; `None` if a CPU has no part of its own.
    #[must_use]
    pub fn parts(&self) -> Option<BTreeMap<usize, (u32, u32)>> {
        self.processors.iter().map(|(cpu, processor)| Some((*cpu, processor.part?))).collect()
    }
}

/// Parses the whole file. Unknown lines are skipped.
#[must_use]
pub fn parse(text: &str) -> Cpuinfo {
    let mut found = Cpuinfo::default();
    // ARM: `Processor : ARMv7 Processor rev 2 (v7l)` comes before the blocks.
    let mut heading = None;
    let mut block: Option<ProcessorBlock> = None;
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        match (key, value.parse()) {
            ("processor", Ok(cpu)) => {
                found.add(block.take());
                block = Some(ProcessorBlock { cpu: Some(cpu), ..ProcessorBlock::default() });
            }
            ("Processor", Err(_)) => heading = heading.or_else(|| single_spaced(value)),
            _ => block.get_or_insert_default().add_line(key, value),
        }
    }
    found.add(block);
    found.model = found.model.or(heading);
    found
}

/// The lines of one CPU; lines before the first number belong to no CPU.
#[derive(Default)]
struct ProcessorBlock {
    cpu: Option<usize>,
    names: [Option<String>; 4],
    implementer: Option<u32>,
    part: Option<u32>,
    core: Option<i64>,
}

impl ProcessorBlock {
    fn add_line(&mut self, key: &str, value: &str) {
        match key {
            "CPU implementer" => self.implementer = parse_hex(value),
            "CPU part" => self.part = parse_hex(value),
            "core id" => self.core = value.parse().ok(),
            _ => {
                let index = NAMES.iter().position(|name| name.eq_ignore_ascii_case(key));
                if let Some(name) = index.and_then(|index| self.names.get_mut(index)) {
                    *name = single_spaced(value);
                }
            }
        }
    }
}

impl Cpuinfo {
    fn add(&mut self, block: Option<ProcessorBlock>) {
        let Some(block) = block else { return };
        let name = block.names.into_iter().flatten().next();
        if self.model.is_none() {
            self.model.clone_from(&name);
        }
        if let Some(cpu) = block.cpu {
            let part = block.implementer.zip(block.part);
            self.processors.insert(cpu, Processor { name, part, core: block.core });
        }
    }
}

fn parse_hex(value: &str) -> Option<u32> {
    u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}

/// The text with single blanks; `None` if it is empty.
fn single_spaced(value: &str) -> Option<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_name_of_a_processor_is_found_on_each_architecture() {
        for (text, name) in [
            (
                "processor\t: 0\nmodel\t: 79\nmodel name\t: Intel(R)  Xeon(R) CPU\n",
                "Intel(R) Xeon(R) CPU",
            ),
            (
                "system type\t: generic\n\nprocessor\t: 0\nModel Name\t: Loongson-3A5000-HV\n",
                "Loongson-3A5000-HV",
            ),
            (
                "processor\t: 0\ncpu\t\t: POWER7 (architected), altivec supported\n",
                "POWER7 (architected), altivec supported",
            ),
            ("processor\t: 0\nhart\t: 1\nuarch\t: sifive,u74-mc\n", "sifive,u74-mc"),
            // 2.6.35 on a phone: the board also has a name, which is not that of the CPU.
            (
                "Processor\t: ARMv7 Processor rev 2 (v7l)\nCPU part\t: 0xc08\n\nHardware\t: herring\n",
                "ARMv7 Processor rev 2 (v7l)",
            ),
            // 4.4 on a phone has both.
            (
                "Processor\t: AArch64 Processor rev 4\nprocessor\t: 0\nmodel name\t: ARMv8 Processor\n",
                "ARMv8 Processor",
            ),
        ] {
            assert_eq!(parse(text).model.as_deref(), Some(name), "{text}");
        }
        assert_eq!(parse("Hardware\t: herring\nSerial\t: 1\n").model, None);
    }

    #[test]
    fn parts_are_known_if_each_cpu_has_its_own() {
        let core = |cpu: usize, part: &str| {
            format!("processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n")
        };
        let found = parse(&(core(0, "0xd05") + &core(4, "0xd0b")));
        assert_eq!(found.parts(), Some([(0, (0x41, 0xd05)), (4, (0x41, 0xd0b))].into()));
        // 3.4: the only part at the end is that of the CPU that read the file.
        let shared =
            "processor\t: 0\n\nprocessor\t: 1\n\nCPU implementer\t: 0x41\nCPU part\t: 0xc0f\n";
        assert_eq!(parse(shared).parts(), None);
        let two = core(0, "0xc07 & 0xc0f");
        assert_eq!(parse(&two).parts(), None);
    }

    #[test]
    fn cores_have_the_ids_of_x86() {
        let found = parse("processor : 0\ncore id : 3\n\nprocessor : 1\ncore id : 4\n");
        let cores: Vec<_> =
            found.processors.iter().map(|(cpu, processor)| (*cpu, processor.core)).collect();
        assert_eq!(cores, [(0, Some(3)), (1, Some(4))]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-zP:0-9x \t\n]{0,200}") {
            let _ = parse(&text);
            let _ = parse(&format!("processor : 0\nCPU part : {text}"));
        }
    }
}
