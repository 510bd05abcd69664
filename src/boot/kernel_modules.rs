//! The modules of an installed kernel and their parameters, for the check of words such as
//! `radeon.modeset=0`. Reads the files below `/lib/modules`.

use cpushield_linux::Host;
use cpushield_linux::text::{gzip, modinfo};

/// The modules of a kernel.
pub(super) struct KernelModules<'a> {
    host: &'a Host,
    dir: String,
    /// `modules.dep`: modules that can be loaded.
    loadable: String,
    /// `modules.builtin`.
    builtin: String,
    /// `modules.builtin.modinfo`; empty before 5.2.
    builtin_info: Vec<u8>,
}

/// What is known about a parameter of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ModuleParameter {
    /// The module has it.
    Present,
    /// The module has others only: these.
    Absent(Vec<String>),
    /// The module exists; its parameters cannot be read, because its file is compressed.
    ModuleOnly,
    /// There is no such module.
    NoModule,
}

impl<'a> KernelModules<'a> {
    /// Reads the lists of modules of a kernel; `None` when there are none.
    pub(super) fn read(host: &'a Host, version: &str) -> Option<KernelModules<'a>> {
        let dirs = [format!("/lib/modules/{version}"), format!("/usr/lib/modules/{version}")];
        let (dir, loadable) = dirs
            .into_iter()
            .find_map(|dir| Some((dir.clone(), host.read(&format!("{dir}/modules.dep")).ok()?)))?;
        let builtin = host.read(&format!("{dir}/modules.builtin")).unwrap_or_default();
        let info = host.read_bytes(&format!("{dir}/modules.builtin.modinfo"));
        Some(KernelModules { host, loadable, builtin, builtin_info: info.unwrap_or_default(), dir })
    }

    /// The names of all modules.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = modinfo::module_names(&self.loadable);
        names.extend(modinfo::module_names(&self.builtin));
        names
    }

    /// Whether a module has a parameter.
    pub(super) fn find(&self, module: &str, parameter: &str) -> ModuleParameter {
        let mut known = modinfo::builtin_parameters(&self.builtin_info, module);
        if known.is_empty() {
            let file = modinfo::module_file(&self.loadable, module);
            match file.map(|file| self.read_parameters(file)) {
                Some(Some(parameters)) => known = parameters,
                Some(None) => return ModuleParameter::ModuleOnly,
                None if modinfo::module_file(&self.builtin, module).is_none() => {
                    return ModuleParameter::NoModule;
                }
                None if self.builtin_info.is_empty() => return ModuleParameter::ModuleOnly,
                None => {}
            }
        }
        let wanted = parameter.replace('-', "_");
        // Every module has these two (Documentation/admin-guide/kernel-parameters.txt, 6.12).
        match ["dyndbg", "async_probe"].contains(&parameter) || known.contains(&wanted) {
            true => ModuleParameter::Present,
            false => ModuleParameter::Absent(known),
        }
    }

    /// The parameters in a module's file; `None` when it cannot be read or is compressed by
    /// something else than gzip.
    fn read_parameters(&self, file: &str) -> Option<Vec<String>> {
        let path = match file.starts_with('/') {
            true => file.to_owned(),
            false => format!("{}/{file}", self.dir),
        };
        let bytes = self.host.read_bytes(&path).ok()?;
        let bytes = if gzip::is_gzip(&bytes) { gzip::unpack(&bytes).ok()? } else { bytes };
        bytes.starts_with(b"\x7fELF").then(|| modinfo::file_parameters(&bytes))
    }
}
