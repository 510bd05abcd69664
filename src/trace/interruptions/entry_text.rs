//! [`EntryText`]: the kernel's entry code, by which the stack of an interrupt shows what it
//! interrupted. Pure.

use cpushield_linux::text::kallsyms::KernelSymbols;

/// What an interrupt or exception interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// User mode.
    User,
    /// Kernel code: a system call, a page fault, a kernel thread, the idle loop.
    Kernel,
}

/// The address ranges of the kernel's entry code, into which its callees return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryText(Vec<(u64, u64)>);

/// Start and end of the entry code (include/asm-generic/vmlinux.lds.h, 5.18 to 6.18). On x86 the
/// entries of interrupts are in a section of their own.
const SECTIONS: [(&str, &str); 2] =
    [("__entry_text_start", "__entry_text_end"), ("__irqentry_text_start", "__irqentry_text_end")];

/// The entry code of processors with FRED, which is outside those sections. The entry from the
/// kernel begins 256 bytes after the one from user mode (arch/x86/entry/entry_64_fred.S, 6.9 to
/// 6.18).
const FRED: (&str, u64) = ("asm_fred_entrypoint_user", 512);

impl EntryText {
    /// Finds the entry code of this kernel; `None` where its symbols are hidden or missing.
    #[must_use]
    pub fn find(symbols: &KernelSymbols) -> Option<EntryText> {
        let sections = SECTIONS
            .into_iter()
            .filter_map(|(start, end)| Some((symbols.address(start)?, symbols.address(end)?)));
        let (fred, length) = FRED;
        let fred = symbols.address(fred).map(|start| (start, start.saturating_add(length)));
        let found: Vec<_> = sections.chain(fred).collect();
        (!found.is_empty()).then_some(EntryText(found))
    }

    /// The part of a stack inside the innermost entry: what runs in an interrupt, without what the
    /// interrupt hit. Innermost caller first.
    #[must_use]
    pub fn innermost<'a>(&self, callers: &'a [u64]) -> &'a [u64] {
        let entry = callers.iter().position(|at| self.contains(*at));
        entry.map_or(callers, |entry| &callers[..entry])
    }

    /// Whether this is the address of a return into the entry code. It may be the first one after
    /// the end.
    fn contains(&self, at: u64) -> bool {
        self.0.iter().any(|(start, end)| *start < at && at <= *end)
    }

    /// What an interrupt with this stack interrupted; innermost caller first.
    #[must_use]
    pub fn privilege(&self, callers: impl Iterator<Item = u64>) -> Privilege {
        let (mut entries, mut outermost) = (0, false);
        for at in callers {
            outermost = self.contains(at);
            entries += usize::from(outermost);
        }
        if outermost && entries == 1 { Privilege::User } else { Privilege::Kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interrupt_from_user_mode_has_the_entry_code_as_its_outermost_caller() {
        // Shortened from 6.12: the addresses of `asm_sysvec_apic_timer_interrupt`,
        // `asm_exc_page_fault` and `ret_from_fork_asm` relative to each other.
        let symbols = KernelSymbols::parse(
            "1000 T ret_from_fork_asm\n2000 T __entry_text_start\n2280 T asm_exc_page_fault\n\
             25f0 T asm_sysvec_apic_timer_interrupt\n3000 T __entry_text_end\n",
        );
        let entry_text = EntryText::find(&symbols).unwrap();
        let privilege = |callers: &[u64]| entry_text.privilege(callers.iter().copied());
        assert_eq!(privilege(&[0x500, 0x600, 0x2606]), Privilege::User);
        assert_eq!(
            privilege(&[0x500, 0x2606, 0x700, 0x2296]),
            Privilege::Kernel,
            "in a page fault"
        );
        assert_eq!(
            privilege(&[0x500, 0x2606, 0x700, 0x101a]),
            Privilege::Kernel,
            "in a kernel thread"
        );
        assert_eq!(
            privilege(&[0x500, 0x2606, 0x700]),
            Privilege::Kernel,
            "in the idle loop, or truncated"
        );
        assert_eq!(privilege(&[]), Privilege::Kernel);
        assert_eq!(EntryText::find(&KernelSymbols::default()), None);
    }

    #[test]
    fn entries_of_processors_with_fred_are_found_outside_the_sections() {
        let symbols = KernelSymbols::parse(
            "1000 T asm_fred_entrypoint_user\n1100 T asm_fred_entrypoint_kernel\n\
             2000 T __entry_text_start\n3000 T __entry_text_end\n",
        );
        let entry_text = EntryText::find(&symbols).unwrap();
        let privilege = |callers: &[u64]| entry_text.privilege(callers.iter().copied());
        assert_eq!(privilege(&[0x500, 0x104a]), Privilege::User);
        assert_eq!(privilege(&[0x500, 0x114a, 0x700, 0x104a]), Privilege::Kernel, "in a call");
        assert_eq!(privilege(&[0x500, 0x114a, 0x700]), Privilege::Kernel, "in the idle loop");
    }
}
