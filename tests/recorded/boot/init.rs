//! The scripts of `cpushield enable` with the real init programs: OpenRC, and insserv with
//! sysvinit's rc, as Debian packages them. `vm/init-roots` makes their root file systems. The
//! programs run here in separate namespaces; `cargo xtask vm test enable-init-scripts` lets them
//! shield a CPU.

use crate::not_run::not_run;
use cpushield::boot::InitSystem;
use cpushield::boot::early::{self, RunningUnit, StartCommand, StartTarget};
use cpushield_linux::{CommandOutput, Host, Store};
use cpushield_simulator::Simulated;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Removes the scripts that would affect more than the namespaces, then does what inittab does.
const BOOT: &str = r#"
cd "$1"
for name in udev hwclock.sh kmod urandom brightness mount-configfs checkfs.sh checkroot.sh \
    checkroot-bootclean.sh mountnfs.sh mountnfs-bootclean.sh cgroups mountdevsubfs.sh; do
    rm -f etc/runlevels/sysinit/$name etc/rcS.d/S??$name
done
mount --bind . .
cd .
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sys "$1/sys"
mount -t tmpfs run "$1/run"
mount -t tmpfs dev "$1/dev"
for node in null zero tty console random urandom; do
    : >"$1/dev/$node"
    mount --bind "/dev/$node" "$1/dev/$node" || :
done
exec chroot "$1" /etc/init.d/rcS
"#;

fn unpack_root(kind: &str) -> Result<PathBuf, String> {
    let cache = std::env::var_os("CPUSHIELD_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/cpushield/vm"));
    let tar = cache.or(home).unwrap_or_default().join(format!("init/{kind}.tar"));
    if !tar.exists() {
        return Err(format!("{} does not exist; vm/init-roots makes it", tar.display()));
    }
    let root = std::env::temp_dir().join(format!("cpushield-{kind}-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let done = Command::new("tar").arg("-C").arg(&root).arg("-xf").arg(&tar).output().unwrap();
    // Without privileges the device files cannot be made, and chroot fails.
    match done.status.success() {
        true => Ok(root),
        false => {
            let _ = std::fs::remove_dir_all(root);
            Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("").to_owned())
        }
    }
}

/// A host whose programs run in its root file system.
fn run_programs_in(root: &Path) -> Host {
    Host::recorded(root).unwrap().with_programs(|root, words, _| {
        let mut chroot = Command::new("chroot");
        chroot.arg(root).args(words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let done = chroot.output().ok()?;
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        Some(CommandOutput { status: done.status.code(), out: done.stdout, err })
    })
}

#[test]
fn real_init_programs_start_the_script_at_boot() {
    for (kind, init) in [("openrc", InitSystem::Openrc), ("sysv-rc", InitSystem::Sysv)] {
        let root = match unpack_root(kind) {
            Ok(root) => root,
            Err(why) => {
                not_run(&format!("{kind}: {why}"));
                continue;
            }
        };
        if init == InitSystem::Openrc {
            std::fs::create_dir_all(root.join("run/openrc")).unwrap();
        }
        let program = root.join("usr/sbin/stub");
        std::fs::write(&program, "#!/bin/sh\nprintf '%s|' \"$@\" >>/said\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let words = ["apply", "--cpus", "3", "it's $HOME"].map(str::to_owned).to_vec();
        let state = "/var/lib/cpushield".to_owned();
        let call = StartCommand {
            program: "/usr/sbin/stub".to_owned(),
            state,
            words,
            target: StartTarget::Shield("cpushield".to_owned()),
            helpers: Vec::new(),
        };
        let store = Store::new(&root.join("var/lib/cpushield"));
        let installed = early::install(&run_programs_in(&root), &store, &call).unwrap();
        assert_eq!(installed.init, init);
        let mut boot = Command::new("unshare");
        boot.args(["--mount", "--pid", "--fork", "--uts", "--net", "sh", "-c", BOOT, "sh"]);
        let done = boot.arg(&root).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let done = done.env("TERM", "dumb").output().unwrap();
        let output = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        let said = std::fs::read_to_string(root.join("said")).unwrap_or_default();
        let wanted = "--quiet|--state|/var/lib/cpushield|apply|--cpus|3|it's $HOME|";
        assert_eq!(said, wanted, "{kind}: {output}");
        early::remove(&run_programs_in(&root), &store, RunningUnit::Kept).unwrap().unwrap();
        for dir in [
            "etc/init.d",
            "etc/rcS.d",
            "etc/rc2.d",
            "etc/runlevels/sysinit",
            "etc/runlevels/default",
        ] {
            let names = std::fs::read_dir(root.join(dir)).into_iter().flatten();
            let ours =
                |it: &std::fs::DirEntry| it.file_name().to_string_lossy().contains("cpushield");
            let left: Vec<_> = names.flatten().filter(ours).collect();
            assert!(left.is_empty(), "{kind}: {left:?}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
