//! `/proc/kallsyms`: addresses of kernel functions and their names.

use std::fmt::Write;

/// The functions of a running kernel, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSymbols {
    /// Address and offset of the name in `names`, ascending by address.
    functions: Vec<(u64, u32)>,
    /// All names, each followed by a NUL.
    names: String,
}

impl KernelSymbols {
    /// Parses `/proc/kallsyms`. Lines of data and of anything but symbols are skipped. The result
    /// is empty if the kernel hides its addresses (`kptr_restrict`), which it shows as zeroes.
    #[must_use]
    pub fn parse(text: &str) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let (Ok(address), Ok(start)) =
                (u64::from_str_radix(address, 16), u32::try_from(symbols.names.len()))
            else {
                continue;
            };
            if address != 0 && matches!(kind, "t" | "T" | "w" | "W") {
                symbols.functions.push((address, start));
                symbols.names.push_str(name);
                symbols.names.push('\0');
            }
        }
        // Of several names with the same address, the first in the file stays first.
        symbols.functions.sort_by_key(|(address, _)| *address);
        symbols
    }

    /// Whether it contains no function.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The name of the function that starts at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&str> {
        let i = self.functions.partition_point(|(known, _)| *known < address);
        let (known, start) = self.functions.get(i)?;
        if *known != address {
            return None;
        }
        self.names.get(*start as usize..)?.split('\0').next()
    }

    /// The name of the function that contains an address: the last one that starts before it.
    #[must_use]
    pub fn containing(&self, address: u64) -> Option<&str> {
        let i = self.functions.partition_point(|(known, _)| *known <= address);
        let (_, start) = self.functions.get(i.checked_sub(1)?)?;
        self.names.get(*start as usize..)?.split('\0').next()
    }

    /// The name of a function, or its address in hexadecimal if it is unknown.
    #[must_use]
    pub fn name(&self, address: u64) -> String {
        self.at(address).map_or_else(
            || {
                let mut hex = String::new();
                let _ = write!(hex, "{address:#x}");
                hex
            },
            str::to_owned,
        )
    }

    /// The start address of the function with this name.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        self.functions
            .iter()
            .find(|(_, start)| {
                let rest =
                    self.names.get(*start as usize..).and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.starts_with('\0'))
            })
            .map(|(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.12; two functions at one address, a variable, and one of a module.
    const TEXT: &str = "ffffffff81000000 T _stext
ffffffff81156a20 t tick_nohz_handler
ffffffff81156a20 t tick_nohz_handler_alias
ffffffff82a11000 D jiffies
ffffffffc0402000 t e1000_intr_msi\t[e1000e]
";

    #[test]
    fn functions_are_found_by_address_and_by_name() {
        let symbols = KernelSymbols::parse(TEXT);
        assert_eq!(symbols.at(0xffff_ffff_8115_6a20), Some("tick_nohz_handler"));
        assert_eq!(symbols.at(0xffff_ffff_8115_6a21), None);
        assert_eq!(symbols.at(0xffff_ffff_82a1_1000), None, "data is not a function");
        assert_eq!(symbols.name(0xffff_ffff_c040_2000), "e1000_intr_msi");
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(symbols.address("tick_nohz_handler_alias"), Some(0xffff_ffff_8115_6a20));
        assert_eq!(symbols.address("tick_nohz"), None);
    }

    #[test]
    fn hidden_addresses_are_ignored() {
        assert!(
            KernelSymbols::parse("0000000000000000 T _stext\n0000000000000000 t x\n").is_empty()
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9a-f]{0,17} [tTD] [a-z]{0,4}\n|.{0,9}\n){0,9}") {
            let symbols = KernelSymbols::parse(&text);
            let _ = (symbols.at(0), symbols.address(""), symbols.name(1));
        }
    }
}
