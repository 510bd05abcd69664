//! A machine with GRUB, made of files. A few lines of shell simulate `grub-mkconfig`: they run
//! every script below `etc/grub.d` between the same marks as the real program.

use crate::files::files_below;
use cpushield::boot::{FileFate, RemovedParameters};
use cpushield_linux::{CommandOutput, Host, Store};
use cpushield_simulator::Simulated;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `grub-mkconfig` does, as far as its scripts can see.
const MKCONFIG: &str = r#"
. "$ROOT/etc/default/grub"
export GRUB_CMDLINE_LINUX GRUB_CMDLINE_LINUX_DEFAULT ROOT
echo '#'
for script in "$ROOT"/etc/grub.d/*; do
    [ -x "$script" ] || continue
    name=/etc/grub.d/${script##*/}
    printf '\n### BEGIN %s ###\n' "$name"
    # The paths of scripts are those of the machine.
    run=${script%/*}/.run
    sed "s,\"/boot/,\"$ROOT/boot/," "$script" >"$run"
    sh "$run" | sed "s,$ROOT,,"
    rm -f "$run"
    printf '### END %s ###\n' "$name"
done
"#;

const HEADER: &str = r#"#!/bin/sh
cat <<'E'
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="${saved_entry}"
fi
set timeout=5
E
"#;

/// Entries as Debian's script makes them: a simple one and a submenu, or all in one menu.
const TEN_LINUX: &str = r#"#!/bin/sh
entry() { # indent title version type arguments
    printf "%smenuentry '%s' --class debian --class os \$menuentry_id_option 'gnulinux-%s-%s-ab' {\n" "$1" "$2" "$3" "$4"
    printf "%s\techo\t'Loading Linux %s ...'\n" "$1" "$3"
    printf "%s\tlinux\t/boot/vmlinuz-%s root=UUID=ab ro %s\n" "$1" "$3" "$5"
    printf "%s\tinitrd\t/boot/initrd.img-%s\n%s}\n" "$1" "$3" "$1"
}
echo 'function gfxmode {
	set gfxpayload="${1}"
}'
top=1
tab=
for kernel in $(ls "$ROOT/boot" | grep ^vmlinuz- | sort -rV); do
    version=${kernel#vmlinuz-}
    args="$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
    if [ $top = 1 ] && [ "$GRUB_DISABLE_SUBMENU" != y ]; then
        entry '' 'Debian GNU/Linux' "$version" simple "$args"
        echo "submenu 'Advanced options' \$menuentry_id_option 'gnulinux-advanced-ab' {"
        tab='	'
    fi
    top=0
    entry "$tab" "Debian GNU/Linux, with Linux $version" "$version" advanced "$args"
    [ "$GRUB_DISABLE_RECOVERY" = true ] ||
        entry "$tab" "Debian GNU/Linux, with Linux $version (recovery mode)" "$version" recovery "single $GRUB_CMDLINE_LINUX"
done
[ -z "$tab" ] || echo '}'
"#;

/// The file that shows whether a kernel is loaded for kexec.
pub const LOADED: &str = "sys/kernel/kexec_loaded";

/// The machine.
pub struct Machine {
    dir: PathBuf,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Machine {
    /// Four CPUs, an RT kernel and another kernel, with GRUB as on Debian.
    pub fn debian() -> Machine {
        Machine::with(&[("6.12.9-amd64", false), ("6.12.9-rt-amd64", true)])
    }

    /// The same machine before a loader was installed.
    pub fn without_loader() -> Machine {
        let machine = Machine::with(&[]);
        for dir in ["boot/grub", "etc/grub.d", "etc/default"] {
            fs::remove_dir_all(machine.place(dir)).unwrap();
        }
        machine
    }

    /// A copy of a recorded machine. One that has no CPUs of its own gets four.
    pub fn copied(from: &Path) -> Machine {
        let machine = Machine::without_loader();
        if from.join("sys").exists() {
            fs::remove_dir_all(machine.place("")).unwrap();
        }
        fs::create_dir_all(machine.place("")).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(from.join(".")).arg(machine.place(""));
        assert!(copy.status().unwrap().success());
        machine
    }

    pub fn with(kernels: &[(&str, bool)]) -> Machine {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let machine = Machine { dir: base.join(format!("boot-{}-{n}", std::process::id())) };
        for (path, text) in [
            ("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.9-rt-amd64 root=UUID=ab ro quiet\n"),
            ("proc/sys/kernel/osrelease", "6.12.9-rt-amd64\n"),
            ("proc/sys/kernel/arch", "x86_64\n"),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
            ("sys/devices/system/cpu/possible", "0-3\n"),
            ("sys/devices/system/cpu/present", "0-3\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/nohz_full", "  (null)\n"),
            ("etc/default/grub", ""),
            ("etc/grub.d/00_header", HEADER),
            ("etc/grub.d/10_linux", TEN_LINUX),
            ("boot/grub/grub.cfg", ""),
        ] {
            machine.write(path, text);
        }
        for script in ["00_header", "10_linux"] {
            let path = machine.place(&format!("etc/grub.d/{script}"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (version, realtime) in kernels {
            machine.install(version, *realtime);
        }
        machine.update_grub();
        let cfg = machine.place("boot/grub/grub.cfg");
        fs::set_permissions(cfg, fs::Permissions::from_mode(0o444)).unwrap();
        machine
    }

    /// The real path of a file of the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.place(path)
    }

    fn place(&self, path: &str) -> PathBuf {
        self.dir.join("root").join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let place = self.place(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    /// Creates a program that a test simulates.
    pub fn program(&self, path: &str) {
        self.write(path, "");
        fs::set_permissions(self.place(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.place(path)).unwrap()
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.place(path)).unwrap();
    }

    /// Installs a kernel, as a package does.
    pub fn install(&self, version: &str, realtime: bool) {
        let rt =
            if realtime { "CONFIG_PREEMPT_RT=y\n" } else { "# CONFIG_PREEMPT_RT is not set\n" };
        let options = "CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_CPU_ISOLATION=y\n\
                       CONFIG_SOFTLOCKUP_DETECTOR=y\n";
        self.install_with(version, &format!("{options}{rt}"));
    }

    /// Installs a kernel with this configuration.
    pub fn install_with(&self, version: &str, config: &str) {
        self.write(&format!("boot/config-{version}"), config);
        self.write(&format!("boot/vmlinuz-{version}"), "");
    }

    /// Generates the menu at another path.
    pub fn update_grub_at(&self, path: &str) {
        let said = mkconfig(&self.dir.join("root"));
        self.write(path, &String::from_utf8(said.out).unwrap());
    }

    /// Generates the menu, as a kernel package does at its end.
    pub fn update_grub(&self) {
        let said = mkconfig(&self.dir.join("root"));
        fs::write(self.place("boot/grub/grub.cfg"), said.out).unwrap();
    }

    pub fn save(&self, name: &str, value: &str) {
        let block = format!("# GRUB Environment Block\n{name}={value}\n");
        self.write("boot/grub/grubenv", &format!("{block:#<1024}"));
    }

    pub fn host(&self) -> Host {
        self.probing("fs", "ext2")
    }

    /// The machine whose `grub-probe` gives this answer.
    pub fn probing(&self, what: &str, answer: &str) -> Host {
        let root = self.dir.join("root");
        let (what, answer) = (format!("--target={what}"), answer.to_owned());
        Host::recorded(&root).unwrap().with_programs(move |root, words, input| match words {
            ["grub-mkconfig" | "grub2-mkconfig"] => Some(mkconfig(root)),
            ["grub-probe", asked, _] => {
                let out = match *asked {
                    asked if asked == what => answer.clone(),
                    "--target=fs" => "ext2".to_owned(),
                    _ => String::new(),
                };
                Some(CommandOutput {
                    status: Some(0),
                    out: out.into_bytes(),
                    ..CommandOutput::default()
                })
            }
            ["grub-editenv", block, rest @ ..] => Some(editenv(&root.join(&block[1..]), rest)),
            // A kernel without that file does not have the system call.
            ["kexec_file_load", what, ..] if root.join(LOADED).exists() => {
                let loaded = if *what == "--unload" { "0\n" } else { "1\n" };
                fs::write(root.join(LOADED), loaded).unwrap();
                Some(CommandOutput { status: Some(0), ..CommandOutput::default() })
            }
            // The real program, where it is installed, checks the generated file.
            ["grub-script-check" | "grub2-script-check"] => real(&["grub-script-check"], input),
            _ => None,
        })
    }

    pub fn store(&self) -> Store {
        Store::new(&self.dir.join("state"))
    }

    /// Every file with its permissions and bytes.
    pub fn files(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let content = |path: PathBuf| {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            let bytes = fs::read(&path).unwrap();
            (path, (mode, bytes))
        };
        files_below(&self.dir.join("root")).into_iter().map(content).collect()
    }

    /// Checks that undo restored each file that was there before, and removed the others.
    pub fn assert_fates(
        &self,
        undone: &RemovedParameters,
        before: &BTreeMap<PathBuf, (u32, Vec<u8>)>,
    ) {
        for (path, fate) in &undone.files {
            let was_there = before.contains_key(&self.path(path.trim_start_matches('/')));
            let wanted = if was_there { FileFate::Restored } else { FileFate::Removed };
            assert_eq!(*fate, wanted, "{path}");
        }
    }
}

/// `grub-editenv FILE set NAME=VALUE`, and `unset NAME`.
fn editenv(block: &Path, words: &[&str]) -> CommandOutput {
    let text = fs::read_to_string(block).unwrap_or_default();
    let old = text.lines().filter(|line| !line.starts_with('#') && line.contains('='));
    let name = words[1].split('=').next().unwrap();
    let mut lines: Vec<&str> = old.filter(|line| line.split('=').next() != Some(name)).collect();
    if words[0] == "set" {
        lines.push(words[1]);
    }
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(block, format!("{:#<1024}", format!("# GRUB Environment Block\n{lines}"))).unwrap();
    CommandOutput { status: Some(0), ..CommandOutput::default() }
}

/// Runs the scripts of the machine.
pub fn mkconfig(root: &Path) -> CommandOutput {
    let mut command = Command::new("sh");
    let output = command.args(["-euc", MKCONFIG]).env("ROOT", root).output().unwrap();
    CommandOutput {
        status: output.status.code(),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn real(words: &[&str], input: &[u8]) -> Option<CommandOutput> {
    use std::io::Write;
    let (name, arguments) = words.split_first()?;
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(input).ok()?;
    let output = child.wait_with_output().ok()?;
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(CommandOutput { status: output.status.code(), out: Vec::new(), err })
}
