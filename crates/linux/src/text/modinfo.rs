//! Kernel modules: their names in `modules.dep` and `modules.builtin`, and their parameters in
//! `modules.builtin.modinfo` and in module files.
//!
//! Sources: modules.dep(5); Documentation/kbuild/kbuild.rst (`modules.builtin.modinfo`, since 5.2);
//! `__MODULE_INFO()` in include/linux/moduleparam.h (6.12): `parm=NAME:TEXT`, `parmtype=NAME:TYPE`.

/// The modules that a text names, one file a line: `kernel/drivers/net/e1000e/e1000e.ko.xz: …` is
/// `e1000e`. A `-` in a name is `_`, as in the running kernel.
#[must_use]
pub fn module_names(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| name_of(file_of(line))).collect()
}

/// The file of a module, relative to the directory of `modules.dep`; `None` when it is not there.
#[must_use]
pub fn module_file<'a>(text: &'a str, module: &str) -> Option<&'a str> {
    let wanted = module.replace('-', "_");
    text.lines().map(file_of).find(|file| name_of(file).as_ref() == Some(&wanted))
}

fn file_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

fn name_of(file: &str) -> Option<String> {
    let name = file.rsplit('/').next()?;
    let (name, _) = name.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

/// The parameters of a module that is built into the kernel, from `modules.builtin.modinfo`.
#[must_use]
pub fn builtin_parameters(bytes: &[u8], module: &str) -> Vec<String> {
    let module = module.replace('-', "_");
    let own = |entry: &'_ str| {
        let (name, rest) = entry.split_once('.')?;
        (name.replace('-', "_") == module).then(|| parameter_of(rest).map(str::to_owned))?
    };
    unique(entries(bytes).filter_map(own))
}

/// The parameters of a module, from the bytes of its uncompressed file.
#[must_use]
pub fn file_parameters(bytes: &[u8]) -> Vec<String> {
    unique(entries(bytes).filter_map(parameter_of).map(str::to_owned))
}

/// The parameters in the output of `modinfo -0 -F parm` or `-F parmtype`.
#[must_use]
pub fn field_parameters(output: &[u8]) -> Vec<String> {
    let names = entries(output).filter_map(|entry| entry.split(':').next());
    unique(names.filter(|name| !name.is_empty()).map(str::to_owned))
}

/// The texts between zero bytes.
fn entries(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok())
}

fn parameter_of(entry: &str) -> Option<&str> {
    let text = entry.strip_prefix("parm=").or_else(|| entry.strip_prefix("parmtype="))?;
    text.split(':').next()
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn modules_and_their_parameters_are_found() {
        // Debian 6.12.
        let dep = "kernel/drivers/gpu/drm/radeon/radeon.ko.xz: kernel/drivers/gpu/drm/ttm/ttm.ko.xz\n\
                   kernel/drivers/hid/hid-generic.ko:\n";
        assert_eq!(module_names(dep), ["radeon", "hid_generic"]);
        assert_eq!(module_file(dep, "hid-generic"), Some("kernel/drivers/hid/hid-generic.ko"));
        assert_eq!(module_file(dep, "ttm"), None);
        let builtin = b"intel_idle.parmtype=max_cstate:int\0intel_idle.license=GPL\0\
                        usbcore.parm=quirks:text: more\0intel_idle.parm=max_cstate:text\0";
        assert_eq!(builtin_parameters(builtin, "intel-idle"), ["max_cstate"]);
        assert_eq!(builtin_parameters(builtin, "loop"), [""; 0]);
        let file = b"\x7fELF\0parm=modeset:KMS\0parmtype=modeset:int\0\xff\xfe\0license=GPL\0";
        assert_eq!(file_parameters(file), ["modeset"]);
        // kmod 30 on xfs.ko.xz and bcachefs.ko.xz, Debian 6.12.
        let output = b"version:uint\0read_only:Mount\nread-only (bool)\0\0";
        assert_eq!(field_parameters(output), ["read_only", "version"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in ".{0,80}",
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = (module_names(&text), module_file(&text, &text));
            let _ = (builtin_parameters(&bytes, &text), file_parameters(&bytes));
            let _ = field_parameters(&bytes);
        }
    }
}
