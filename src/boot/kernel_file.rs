//! Finds the version of a kernel file whose name does not show it: from the banner in its bytes,
//! or because only one kernel is installed. Takes a boot menu entry and reads the files it names,
//! and the configuration of an installed kernel.

use cpushield_linux::Host;
use cpushield_linux::text::{kconfig, kernel_image};
use std::collections::BTreeMap;

/// Where a file named by an entry at `place` may be. Loaders name files relative to the root of a
/// file system that is mounted somewhere above the entry.
pub(super) fn candidate_paths(place: &str, name: &str) -> Vec<String> {
    let mut dir = place;
    let path = name.strip_prefix("($root)").unwrap_or(name).trim_start_matches('/');
    let mut paths = Vec::new();
    while let Some((above, _)) = dir.rsplit_once('/') {
        paths.push(format!("{above}/{path}"));
        dir = above;
    }
    paths
}

/// The banner of the first file that can be read.
pub(super) fn read_banner(host: &Host, paths: &[String]) -> Option<String> {
    let bytes = paths.iter().find_map(|path| host.read_bytes(path).ok())?;
    kernel_image::banner(&bytes)
}

/// The options of an installed kernel, as its package installed them; empty when there are none.
pub(super) fn read_config(host: &Host, version: &str) -> BTreeMap<String, String> {
    let paths = [format!("/boot/config-{version}"), format!("/usr/lib/modules/{version}/config")];
    let text = paths.iter().find_map(|path| host.read(path).ok());
    text.and_then(|text| kconfig::parse(&text).ok()).unwrap_or_default()
}

/// The version of the kernel that an entry at `place` loads under this name.
pub(super) fn find_release(host: &Host, place: &str, kernel: &str) -> Option<String> {
    let banner = read_banner(host, &candidate_paths(place, kernel));
    let release = banner.as_deref().and_then(kernel_image::release).map(str::to_owned);
    release.or_else(|| only_installed(host))
}

/// The version of the only kernel whose modules are installed.
fn only_installed(host: &Host) -> Option<String> {
    let names = ["/lib/modules", "/usr/lib/modules"].into_iter().filter_map(|dir| {
        let names = host.list(dir).ok()?;
        Some(names.into_iter().filter(|it| it.starts_with(|c: char| c.is_ascii_digit())))
    });
    let mut names: Vec<String> = names.flatten().collect();
    names.sort();
    names.dedup();
    match names.len() {
        1 => names.pop(),
        _ => None,
    }
}
