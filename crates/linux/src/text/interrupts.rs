//! `/proc/interrupts` (`show_interrupts()`, kernel/irq/proc.c): a header with the online CPUs, then
//! a row for each IRQ and for each interrupt type of the architecture.

use super::{TextError, split_cpu_header};

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptTable {
    /// The CPUs of the columns; only online ones, so numbers can be missing.
    pub cpus: Vec<usize>,
    /// The rows in order.
    pub rows: Vec<InterruptRow>,
}

/// A row of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptRow {
    /// `24`, or `LOC` and the like.
    pub label: String,
    /// Counts in the order of the columns; `ERR` and `MIS` have a single count.
    pub counts: Vec<u64>,
    /// The interrupt controller (`IO-APIC`, `PCI-MSIX-0000:00:02.0`); empty for rows of the
    /// architecture.
    pub chip: String,
    /// The actions, comma-separated, or the description of a row of the architecture.
    pub name: String,
}

impl InterruptRow {
    /// The IRQ number; `None` for rows of the architecture.
    #[must_use]
    pub fn irq(&self) -> Option<u32> {
        self.label.parse().ok()
    }
}

impl InterruptTable {
    /// The counts of a row other than zero, by CPU.
    pub fn by_cpu<'a>(&'a self, row: &'a InterruptRow) -> impl Iterator<Item = (usize, u64)> + 'a {
        let pairs = self.cpus.iter().copied().zip(row.counts.iter().copied());
        pairs.filter(|(_, count)| *count > 0)
    }
}

/// Parses the whole file.
///
/// # Errors
/// There is no header, or a row does not start with a label.
pub fn parse(text: &str) -> Result<InterruptTable, TextError> {
    let (cpus, lines) = split_cpu_header(text)?;
    let mut rows = Vec::new();
    for (number, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let row = parse_row(line, cpus.len());
        rows.push(row.ok_or_else(|| TextError::new(number, "`label: counts`", line))?);
    }
    Ok(InterruptTable { cpus, rows })
}

fn parse_row(line: &str, columns: usize) -> Option<InterruptRow> {
    let (label, mut rest) = line.split_once(':')?;
    let label = label.trim();
    if label.is_empty() || label.contains(char::is_whitespace) {
        return None;
    }
    let mut row = InterruptRow { label: label.to_owned(), ..InterruptRow::default() };
    while row.counts.len() < columns {
        let (word, after) = split_word(rest);
        let Ok(count) = word.parse() else { break };
        row.counts.push(count);
        rest = after;
    }
    if row.irq().is_some() {
        (row.chip, row.name) = chip_and_name(rest);
    } else {
        row.name = rest.trim().to_owned();
    }
    Some(row)
}

/// Splits off the first word.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// Splits `PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0` into controller and actions. Between
/// them are two optional words: the number in the controller (with the flow handler after a hyphen)
/// and the trigger. Kernels up to 4.x join the flow handler to the controller (`IO-APIC-edge`). The
/// name of a controller may contain blanks (`R-Car PCIe MSI`, `MVEBU PCIe MSI`). Then it ends
/// before a number that has a flow handler or is followed by a trigger.
fn chip_and_name(text: &str) -> (String, String) {
    let (mut chip, mut rest) = split_chip_with_blanks(text).unwrap_or_else(|| split_word(text));
    chip = chip.trim();
    let (word, after) = split_word(rest);
    if is_hardware_number(word) {
        rest = after;
    }
    let (word, after) = split_word(rest);
    if is_trigger(word) {
        rest = after;
    }
    let (word, after) = split_word(rest);
    if word.starts_with('-') {
        rest = after;
    }
    (chip.to_owned(), rest.trim().to_owned())
}

/// Splits off the name of a controller that has several words.
fn split_chip_with_blanks(text: &str) -> Option<(&str, &str)> {
    let (first, mut rest) = split_word(text);
    let (second, _) = split_word(rest);
    if first.is_empty() || is_hardware_number(second) || is_trigger(second) {
        return None;
    }
    loop {
        let trimmed = rest.trim_start();
        let (word, after) = split_word(trimmed);
        if word.is_empty() {
            return None;
        }
        let has_flow = word.contains('-');
        if is_hardware_number(word) && (has_flow || is_trigger(split_word(after).0)) {
            return Some(text.split_at(text.len() - trimmed.len()));
        }
        rest = after;
    }
}

/// `5`, `5-edge`.
fn is_hardware_number(word: &str) -> bool {
    let (number, flow) = word.split_once('-').unwrap_or((word, "edge"));
    let is_flow = ["edge", "fasteoi", "level", "percpu", "simple"]
        .iter()
        .any(|known| flow.starts_with(known));
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && is_flow
}

fn is_trigger(word: &str) -> bool {
    matches!(word, "Level" | "Edge")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18, x86-64, CPU 1 offline.
    const X86: &str = "           CPU0       CPU2       \n\
  24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
  36:          7     121517 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
  40:          0          0  IO-APIC   9-fasteoi   acpi, i2c designware\n\
  41:          3          0  PCI-MSI 512-edge\n\
 NMI:          0          0   Non-maskable interrupts\n\
 ERR:          0\n";

    /// Linux 6.1, arm64.
    const ARM: &str = "           CPU0       CPU1       \n\
  11:       1234       5678     GICv3  27 Level     arch_timer\n\
  14:          0          0     GICv3  23 Level     arm-pmu\n\
 IPI0:       100        200       Rescheduling interrupts\n\
 Err:          0\n";

    /// Linux 2.6.32, x86-64.
    const OLD: &str = "           CPU0       \n  0:   5  IO-APIC-edge      timer\n";

    #[test]
    fn a_controller_whose_name_has_blanks_is_one_controller() {
        // Linux 5.10 and 6.1 on ARM: PCIe controllers (drivers/pci/controller), and a GPIO bank.
        let text = "      CPU0       CPU1       \n\
 58:    0    0  MVEBU PCIe MSI   3 Edge      nvme0q1\n\
 59:    9    0  R-Car PCIe MSI 524288 Edge      PCIe PME, aerdrv\n\
 60:    7    0  Brcm_MSI 524288 Edge      xhci_hcd\n\
 61:    7    0  DWC PCIe MSI   0-edge      eth0 4 Edge\n\
 62:    1    0  dummy  mmc0 cd\n";
        let names: Vec<(String, String)> =
            parse(text).unwrap().rows.into_iter().map(|row| (row.chip, row.name)).collect();
        let row = |chip: &str, name: &str| (chip.to_owned(), name.to_owned());
        assert_eq!(
            names,
            [
                row("MVEBU PCIe MSI", "nvme0q1"),
                row("R-Car PCIe MSI", "PCIe PME, aerdrv"),
                row("Brcm_MSI", "xhci_hcd"),
                row("DWC PCIe MSI", "eth0 4 Edge"),
                row("dummy", "mmc0 cd"),
            ]
        );
    }

    fn names(text: &str) -> Vec<(String, String, String)> {
        let rows = parse(text).unwrap().rows;
        rows.into_iter().map(|row| (row.label, row.chip, row.name)).collect()
    }

    #[test]
    fn controller_and_actions_are_separated() {
        let row = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(
            names(X86),
            [
                row("24", "IO-APIC", "ACPI:Ged"),
                row("36", "PCI-MSIX-0000:00:02.0", "virtio1-req.0"),
                row("40", "IO-APIC", "acpi, i2c designware"),
                row("41", "PCI-MSI", ""),
                row("NMI", "", "Non-maskable interrupts"),
                row("ERR", "", ""),
            ]
        );
        assert_eq!(
            names(ARM),
            [
                row("11", "GICv3", "arch_timer"),
                row("14", "GICv3", "arm-pmu"),
                row("IPI0", "", "Rescheduling interrupts"),
                row("Err", "", ""),
            ]
        );
        assert_eq!(names(OLD), [row("0", "IO-APIC-edge", "timer")]);
    }

    #[test]
    fn counts_are_assigned_to_the_cpus_of_the_header() {
        let table = parse(X86).unwrap();
        assert_eq!(table.cpus, [0, 2]);
        assert_eq!(table.by_cpu(&table.rows[1]).collect::<Vec<_>>(), [(0, 7), (2, 121_517)]);
        assert_eq!(table.by_cpu(&table.rows[3]).collect::<Vec<_>>(), [(0, 3)]);
    }

    #[test]
    fn a_table_without_header_or_labels_is_refused() {
        assert_eq!(parse("").unwrap_err().line, 1);
        assert_eq!(parse("  24: 1 2 IO-APIC\n").unwrap_err().line, 1);
        assert_eq!(parse("     CPU0\nno label here\n").unwrap_err().line, 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ CPU0-9:A-Za-z\n\\-]{0,120}") {
            let _ = parse(&text);
            let _ = parse(&format!("    CPU0 CPU1\n{text}"));
        }
    }
}
