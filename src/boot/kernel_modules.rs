//! The modules of an installed kernel and their parameters, for the check of words such as
//! `radeon.modeset=0`. Reads the files below `/lib/modules`.
//!
//! `modinfo` reads the files that are compressed by xz or zstd, as those of most distributions are.
//! It is on every machine that loads modules; decoders in this program would add 143 KB to the
//! static binary (lzma-rs 0.3 and ruzstd 0.8). Where it fails, sysfs has the parameters of the
//! running kernel that can be read there.

use crate::documents::boot::UnreadableModule;
use cpushield_linux::Host;
use cpushield_linux::text::{gzip, modinfo};

/// The modules of a kernel.
pub(super) struct KernelModules<'a> {
    host: &'a Host,
    version: String,
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
    /// The module exists, but its parameters cannot be read.
    Unreadable(UnreadableModule),
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
        let (version, builtin_info) = (version.to_owned(), info.unwrap_or_default());
        Some(KernelModules { host, version, dir, loadable, builtin, builtin_info })
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
                Some(Ok(parameters)) => known = parameters,
                Some(Err(why)) => return self.find_in_sysfs(module, parameter, why),
                None if modinfo::module_file(&self.builtin, module).is_none() => {
                    return ModuleParameter::NoModule;
                }
                None if self.builtin_info.is_empty() => {
                    return self.find_in_sysfs(module, parameter, UnreadableModule::BuiltIn);
                }
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

    /// Whether the running kernel shows a parameter. It shows only those with a file, so a missing
    /// one proves nothing.
    fn find_in_sysfs(
        &self,
        module: &str,
        parameter: &str,
        why: UnreadableModule,
    ) -> ModuleParameter {
        let running = self.host.read_line("/proc/sys/kernel/osrelease");
        let [module, parameter] = [module, parameter].map(|name| name.replace('-', "_"));
        let path = format!("/sys/module/{module}/parameters/{parameter}");
        match running.is_ok_and(|running| running == self.version) && self.host.exists(&path) {
            true => ModuleParameter::Present,
            false => ModuleParameter::Unreadable(why),
        }
    }

    /// The parameters in a module's file, or why they cannot be read.
    fn read_parameters(&self, file: &str) -> Result<Vec<String>, UnreadableModule> {
        let path = match file.starts_with('/') {
            true => file.to_owned(),
            false => format!("{}/{file}", self.dir),
        };
        let bytes = self.host.read_bytes(&path).unwrap_or_default();
        let unpacked = gzip::is_gzip(&bytes).then(|| gzip::unpack(&bytes).ok()).flatten();
        let bytes = unpacked.unwrap_or(bytes);
        match bytes.starts_with(b"\x7fELF") {
            true => Ok(modinfo::file_parameters(&bytes)),
            false => self.query_modinfo(path),
        }
    }

    /// The parameters of a file as `modinfo` reads them. Not every one has a description (`parm`),
    /// or a type.
    fn query_modinfo(&self, path: String) -> Result<Vec<String>, UnreadableModule> {
        let mut parameters = Vec::new();
        for field in ["parm", "parmtype"] {
            match self.host.query_program(&["modinfo", "-0", "-F", field, &path], b"") {
                Ok(output) => parameters.extend(modinfo::field_parameters(&output.out)),
                Err(error) if error.is_absent() => {
                    return Err(UnreadableModule::WithoutModinfo { path });
                }
                Err(error) => {
                    return Err(UnreadableModule::ModinfoFailed { path, why: error.to_string() });
                }
            }
        }
        Ok(parameters)
    }
}
