//! The memory modules in the SMBIOS table (`/sys/firmware/dmi/tables/DMI`,
//! drivers/firmware/dmi_scan.c, 6.12): structures of type 17, whose fields DMTF DSP0134 3.7 (7.18)
//! lists. A structure that is cut off ends the table.

/// The type of a structure that describes a memory module.
const MEMORY_DEVICE: u8 = 17;
/// The type of the last structure.
const END: u8 = 127;
/// A speed that has its number in another field.
const EXTENDED: u16 = 0xffff;

/// A memory module, with its speeds in MT/s; `None`: the firmware does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryModule {
    /// The speed that the module is made for.
    pub rated: Option<u32>,
    /// The speed at which it runs.
    pub configured: Option<u32>,
}

/// The installed memory modules. Empty slots are left out.
#[must_use]
pub fn memory_modules(table: &[u8]) -> Vec<MemoryModule> {
    let modules =
        DmiStructures { rest: table }.filter(|fields| fields.first() == Some(&MEMORY_DEVICE));
    let installed = modules.filter(|fields| word(fields, 0x0c).is_some_and(|size| size != 0));
    installed
        .map(|fields| MemoryModule {
            rated: speed(fields, 0x15, 0x54),
            configured: speed(fields, 0x20, 0x58),
        })
        .collect()
}

/// The table with its memory modules only, without their strings: serial numbers are private.
#[must_use]
pub fn without_strings(table: &[u8]) -> Vec<u8> {
    let modules =
        DmiStructures { rest: table }.filter(|fields| fields.first() == Some(&MEMORY_DEVICE));
    let kept = modules.flat_map(|fields| fields.iter().copied().chain([0, 0]));
    kept.chain([END, 4, 0, 0, 0, 0]).collect()
}

/// The fields of each structure, without its strings.
struct DmiStructures<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for DmiStructures<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(*self.rest.get(1)?);
        // Type, length and handle have four bytes.
        let fields = self.rest.get(..length).filter(|fields| fields.len() >= 4)?;
        if fields.first() == Some(&END) {
            return None;
        }
        // Strings follow, each ended by 0; another 0 ends them. Without strings there are two.
        let strings = self.rest.get(length..)?;
        let end = strings.windows(2).position(|pair| pair == [0, 0])?;
        self.rest = strings.get(end + 2..)?;
        Some(fields)
    }
}

/// A speed: a word, or a larger field where the word says so. 0 is unknown.
fn speed(fields: &[u8], at: usize, extended_at: usize) -> Option<u32> {
    let speed = match word(fields, at)? {
        EXTENDED => {
            let bytes = fields.get(extended_at..extended_at + 4)?;
            // The highest bit is reserved.
            u32::from_le_bytes(bytes.try_into().ok()?) & 0x7fff_ffff
        }
        speed => u32::from(speed),
    };
    (speed != 0).then_some(speed)
}

fn word(fields: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(fields.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A structure of type 17 with its strings.
    fn module(size: u16, rated: u16, configured: u16) -> Vec<u8> {
        let mut fields = vec![0; 0x5c];
        fields[0] = MEMORY_DEVICE;
        fields[1] = 0x5c;
        for (at, value) in [(0x0c, size), (0x15, rated), (0x20, configured)] {
            fields[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [(0x54, 70_000_u32), (0x58, 66_000)] {
            fields[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        fields.extend(b"DIMM A1\0SERIAL12\0\0");
        fields
    }

    fn table() -> Vec<u8> {
        let firmware = [&[0, 4, 0, 0][..], b"Vendor\0\0"].concat();
        let bare = [11, 5, 1, 0, 0, 0, 0];
        let modules =
            [module(16384, 3200, 2666), module(0, 3200, 0), module(0x7fff, 0xffff, 0xffff)];
        [&firmware[..], &bare, &modules.concat(), &[END, 4, 2, 0, 0, 0], b"rest"].concat()
    }

    #[test]
    fn modules_have_their_rated_and_their_configured_speed() {
        let modules = [(3200, 2666), (70_000, 66_000)]
            .map(|(rated, now)| MemoryModule { rated: Some(rated), configured: Some(now) });
        assert_eq!(memory_modules(&table()), modules);
        assert_eq!(memory_modules(&without_strings(&table())), modules);
    }

    #[test]
    fn a_recording_has_no_serial_number() {
        let kept = String::from_utf8_lossy(&without_strings(&table())).into_owned();
        assert!(!kept.contains("SERIAL") && !kept.contains("Vendor"), "{kept}");
        assert_eq!(without_strings(&[]), [END, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn a_short_structure_of_an_old_firmware_has_no_configured_speed() {
        let mut old = module(8192, 1333, 0);
        old.splice(0x1b..0x5c, []);
        old[1] = 0x1b;
        let wanted = MemoryModule { rated: Some(1333), configured: None };
        assert_eq!(memory_modules(&old), [wanted]);
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let modules = memory_modules(&bytes);
            prop_assert_eq!(memory_modules(&without_strings(&bytes)), modules);
        }
    }
}
