//! The command line of QEMU for a guest. QEMU is part of the guests' root, so every machine runs
//! the same version; the dynamic linker of that root starts it.

use super::guest_options::{CgroupMount, GuestOptions};
use super::shared_dir::SharedDir;
use super::{VmResult, places};
use std::ffi::OsString;
use std::fs::File;
use std::process::Command;

/// The words of a command line, in order.
#[derive(Debug, Default)]
struct CommandWords(Vec<OsString>);

impl CommandWords {
    fn add(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.push(name.into());
        self.0.push(value.into());
    }

    fn add_flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }
}

/// The command that boots a guest.
pub fn command(kernel: &str, options: &GuestOptions, dir: &SharedDir) -> VmResult<Command> {
    let root = places::cache("root");
    let mut words = CommandWords::default();
    words.0.push(root.join("lib64/ld-linux-x86-64.so.2").into());
    words.add("--library-path", root.join("usr/lib/x86_64-linux-gnu"));
    words.0.push(root.join("usr/bin/qemu-system-x86_64").into());
    for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
        words.add("-L", root.join(firmware));
    }
    add_processor(&mut words, options);
    add_disks(&mut words, kernel, options, dir);
    add_channels(&mut words, kernel, options, dir);
    add_devices(&mut words, options, dir)?;
    let prefix = namespace_prefix(options);
    let mut all = prefix.iter().map(OsString::from).chain(words.0);
    let mut command = Command::new(all.next().unwrap_or_default());
    command.args(all);
    Ok(command)
}

fn add_processor(words: &mut CommandWords, options: &GuestOptions) {
    let threads = if options.one_thread { "single" } else { "multi" };
    words.add_flags(&["-M", "q35", "-cpu", "max", "-display", "none", "-nodefaults"]);
    words.add("-accel", format!("tcg,thread={threads}"));
    words.add("-smp", &options.smp);
    if options.numa < 2 {
        words.add("-m", options.memory.to_string());
        return;
    }
    let cpus = options.smp.split(',').next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let (share, each) = (options.memory / options.numa, cpus / options.numa);
    words.add("-m", (share * options.numa).to_string());
    for node in 0..options.numa {
        let (first, last) = (node * each, node * each + each - 1);
        words.add("-object", format!("memory-backend-ram,id=node{node},size={share}M"));
        words.add("-numa", format!("node,nodeid={node},memdev=node{node},cpus={first}-{last}"));
    }
}

fn add_disks(words: &mut CommandWords, kernel: &str, options: &GuestOptions, dir: &SharedDir) {
    let root = places::cache("root.img");
    words.add("-drive", format!("if=none,id=root,format=raw,file={},snapshot=on", root.display()));
    words.add("-device", "virtio-blk-pci,drive=root");
    if options.grub || options.efi {
        let image = if options.efi { "efi/disk.img" } else { "grub.img" };
        let image = places::cache(image);
        if options.efi {
            let (code, variables) = (places::cache("efi/code.fd"), dir.file("vars.fd"));
            let flash = "if=pflash,format=raw";
            words.add("-drive", format!("{flash},readonly=on,file={}", code.display()));
            words.add("-drive", format!("{flash},file={}", variables.display()));
        }
        let image = image.display();
        words.add("-drive", format!("if=none,id=boot,format=raw,file={image},snapshot=on"));
        let monitor = dir.file("monitor");
        words.add("-chardev", format!("pipe,id=monitor,path={}", monitor.display()));
        words.add("-mon", "chardev=monitor");
        words.add("-device", "virtio-blk-pci,drive=boot,bootindex=1");
    } else {
        let kernel = places::cache("kernels").join(kernel);
        words.add_flags(&["-no-reboot"]);
        words.add("-kernel", kernel.join("vmlinuz"));
        words.add("-initrd", kernel.join("initrd"));
        words.add("-append", kernel_line(options));
    }
    if let Some(disk) = &options.disk {
        words.add("-drive", format!("if=none,id=disk,format=raw,file={}", disk.display()));
        words.add("-device", "virtio-blk-pci,drive=disk");
    }
}

/// The kernel's command line of a guest without a boot loader.
fn kernel_line(options: &GuestOptions) -> String {
    let mode = match options.cgroup {
        CgroupMount::V2 => "v2",
        CgroupMount::V1 => "v1",
        CgroupMount::Hybrid => "hybrid",
        CgroupMount::None => "none",
    };
    let mut line = format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 tsc=reliable cpushield.cgroup={mode} {}",
        options.append
    );
    if options.systemd {
        line += " cpushield.systemd systemd.show_status=0";
        let legacy = match options.cgroup {
            CgroupMount::V1 => Some("1"),
            CgroupMount::Hybrid => Some("0"),
            CgroupMount::V2 | CgroupMount::None => None,
        };
        if let Some(legacy) = legacy {
            line += " systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1";
            line += &format!(" systemd.legacy_systemd_cgroup_controller={legacy}");
        }
    }
    line
}

/// The console, the port for the script's output, and the shared directories.
fn add_channels(words: &mut CommandWords, kernel: &str, options: &GuestOptions, dir: &SharedDir) {
    words.add("-serial", format!("file:{}", dir.file("console").display()));
    words.add("-device", "virtio-serial-pci");
    words.add("-chardev", "file,id=out,path=/dev/stdout,append=on");
    words.add("-device", "virtserialport,chardev=out,name=out");
    let modules = places::cache("kernels").join(kernel).join("modules");
    let local = "security_model=none,multidevs=remap";
    words.add("-virtfs", format!("local,path={},mount_tag=host,{local}", dir.path.display()));
    let modules = modules.display();
    words.add("-virtfs", format!("local,path={modules},mount_tag=modules,readonly=on,{local}"));
    if options.interrupt_log {
        // The guest controls the monitor through its own port. Each vCPU thread has its own log.
        let socket = dir.file("monitor");
        let socket = socket.display();
        words.add("-d", "tid");
        words.add("-D", dir.file("out/vcpu.%d"));
        words.add("-chardev", format!("socket,id=monitor,path={socket},server=on,wait=off"));
        words.add("-mon", "chardev=monitor");
        words.add("-chardev", format!("socket,id=asked,path={socket}"));
        words.add("-device", "virtserialport,chardev=asked,name=monitor");
    }
}

fn add_devices(words: &mut CommandWords, options: &GuestOptions, dir: &SharedDir) -> VmResult<()> {
    if let Some(queues) = options.nvme {
        let image = dir.file("nvme.img");
        File::create(&image)?.set_len(64 << 20)?;
        words.add("-drive", format!("if=none,id=nvme,format=raw,file={}", image.display()));
        words.add("-device", format!("nvme,serial=guest,drive=nvme,max_ioqpairs={queues}"));
    }
    if options.power {
        let (table, cpus) = (dir.file("power.aml"), options.smp.split(',').next().unwrap_or("1"));
        let script = places::vm("power-table.py");
        if !Command::new("python3").arg(script).arg(&table).arg(cpus).status()?.success() {
            return Err("the table of idle states and frequencies could not be made".into());
        }
        words.add("-acpitable", format!("file={}", table.display()));
    }
    if options.net {
        words.add("-nic", "user,model=e1000e");
    }
    if let Some(queues) = options.net_queues {
        let tap = format!("tap,id=net,queues={queues},script=no,downscript=no,vhost=off");
        words.add("-netdev", tap);
        let vectors = 2 * queues + 2;
        words.add("-device", format!("virtio-net-pci,netdev=net,mq=on,vectors={vectors}"));
    }
    Ok(())
}

/// A tap device lies in a network namespace of its own. If users may not make one with a tap
/// device, sudo does.
fn namespace_prefix(options: &GuestOptions) -> &'static [&'static str] {
    const AS_USER: [&str; 3] = ["unshare", "--map-root-user", "--net"];
    if options.net_queues.is_none() {
        return &[];
    }
    if rustix::process::geteuid().is_root() {
        return &["unshare", "--net"];
    }
    let probe = ["ip", "tuntap", "add", "probe", "mode", "tap"];
    let probe = Command::new(AS_USER[0]).args(&AS_USER[1..]).args(probe).output();
    if probe.is_ok_and(|output| output.status.success()) {
        &AS_USER
    } else {
        &["sudo", "-n", "unshare", "--net"]
    }
}

#[cfg(test)]
mod tests {
    use super::super::guest_options::GuestLine;
    use super::*;

    #[test]
    fn systemd_gets_the_hierarchy_that_is_mounted() {
        let line = |words: &str| kernel_line(&GuestLine::parse_words(words).unwrap().options);
        assert!(!line("6.12").contains("systemd"));
        assert!(!line("6.12 --systemd").contains("unified_cgroup_hierarchy"));
        let hybrid = line("6.12 --systemd --cgroup hybrid --append isolcpus=3");
        assert!(hybrid.contains("cpushield.cgroup=hybrid isolcpus=3"));
        assert!(hybrid.ends_with("legacy_systemd_cgroup_controller=0"));
    }

    #[test]
    fn memory_and_cpus_are_divided_among_the_nodes() {
        let options = GuestLine::parse_words("6.12 --smp 8,cores=4,threads=2 --numa 2").unwrap();
        let mut words = CommandWords::default();
        add_processor(&mut words, &options.options);
        let words: Vec<_> = words.0.iter().map(|word| word.to_string_lossy()).collect();
        assert!(words.contains(&"node,nodeid=1,memdev=node1,cpus=4-7".into()), "{words:?}");
        assert!(words.contains(&"memory-backend-ram,id=node0,size=768M".into()), "{words:?}");
    }
}
