//! The files with which init systems apply the shield at each boot: units of systemd, or scripts.
//! One applies the shield and undoes it when it is stopped. The other bans the shielded CPUs from
//! irqbalance, which starts later and forgets the ban when it ends. Texts only.

use crate::documents::boot::InitSystem;
use crate::quote::{quote_for_shell, quote_for_unit};

/// The line that identifies a file that cpushield wrote.
pub const MARK: &str = "# Made by cpushield; `cpushield disable` removes it.\n";
/// The name of the service that applies the shield.
pub const SHIELD: &str = "cpushield";
/// The name of the service that bans the shielded CPUs from irqbalance.
pub const BAN: &str = "cpushield-irqbalance";
/// The internal subcommand that bans the CPUs of the active shield from irqbalance.
pub const BAN_COMMAND: &str = "__irqbalance";

/// The command line that the init system runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// This program.
    pub program: String,
    /// Its state directory.
    pub state: String,
    /// Its arguments: `apply`, `--cpus`, `3`.
    pub words: Vec<String>,
    /// What these words apply.
    pub target: StartTarget,
    /// The helpers that operators need, one for each shield. Only systemd offers them.
    pub helpers: Vec<OperatorHelper>,
}

/// What the command applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartTarget {
    /// The shield of this name.
    Shield(String),
    /// Every shield of this policy file.
    Policy(String),
}

impl StartTarget {
    /// The arguments of `cpushield undo` that take it down.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        match self {
            StartTarget::Shield(name) => vec!["--shield", name],
            StartTarget::Policy(file) => vec!["--all", "--policy", file],
        }
    }
}

/// The permissions of a unit of systemd.
pub(super) const UNIT_MODE: u32 = 0o644;
/// The start of the names of the units for operators; the name of the shield follows.
const OPERATORS: &str = "cpushield-operators-";

/// The helper for the operators of a shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorHelper {
    /// The shield. Its name has only lowercase letters, digits and underscores, so it can be a part
    /// of a path and of the name of a unit.
    pub shield: String,
    /// The internal subcommand, and the option that confines it to a shield.
    pub command: [&'static str; 2],
    /// Its socket.
    pub socket: String,
    /// The only group that may connect; `None` if every user may. The helper decides in any case.
    pub gid: Option<u32>,
    /// The group that sees every process, if `/proc` hides them from root without capabilities.
    pub proc_gid: Option<u32>,
}

/// A file of an init system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitFile {
    /// The service, without the suffix of a unit.
    pub service: String,
    /// The path.
    pub path: String,
    /// The content.
    pub text: String,
    /// The permission bits.
    pub mode: u32,
}

impl StartCommand {
    /// The command that applies the shield. It changes nothing when that shield is active already,
    /// because a unit may be started after `cpushield apply`.
    pub(super) fn start_line(&self, quote: fn(&str) -> String) -> String {
        self.line(quote, &[], &self.words.iter().map(String::as_str).collect::<Vec<&str>>())
    }

    fn stop_line(&self, quote: fn(&str) -> String) -> String {
        let words = ["undo", "--unless-shutdown"].into_iter();
        let words = words.chain(self.target.words());
        self.line(quote, &[], &words.collect::<Vec<&str>>())
    }

    fn ban_line(&self, quote: fn(&str) -> String) -> String {
        self.line(quote, &[BAN_COMMAND], &[])
    }

    /// The name of an internal subcommand comes first, other words last.
    fn line(&self, quote: fn(&str) -> String, internal: &[&str], words: &[&str]) -> String {
        let (program, options) = ([self.program.as_str()], ["--quiet", "--state", &self.state]);
        let words = program.iter().chain(internal).chain(&options).chain(words);
        words.map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }
}

/// The files for an init system: that of the shield first.
#[must_use]
pub fn files(init: InitSystem, call: &StartCommand) -> [InitFile; 2] {
    let (dir, suffix, mode) = match init {
        InitSystem::Systemd => ("/etc/systemd/system", ".service", UNIT_MODE),
        InitSystem::Openrc | InitSystem::Sysv => ("/etc/init.d", "", 0o755),
    };
    let [shield, ban] = match init {
        InitSystem::Systemd => [unit(call), ban_unit(call)],
        InitSystem::Openrc => [openrc(call), ban_openrc(call)],
        InitSystem::Sysv => [sysv(call), ban_sysv(call)],
    };
    [(SHIELD, shield), (BAN, ban)].map(|(service, text)| InitFile {
        service: service.to_owned(),
        path: format!("{dir}/{service}{suffix}"),
        text,
        mode,
    })
}

/// The unit. It has no default dependencies, because they would order it after `basic.target`. A
/// shield that cannot be applied in a minute is undone and the boot continues: no unit requires it.
/// Nothing fails when the program is removed and its unit is left behind.
fn unit(call: &StartCommand) -> String {
    let (state, program) = (quote_for_unit(&call.state), quote_for_unit(&call.program));
    let (start, stop) = (call.start_line(quote_for_unit), call.stop_line(quote_for_unit));
    let path = condition_path(call);
    format!(
        "{MARK}[Unit]\n\
         Description=cpushield: shield CPUs before services start\n\
         DefaultDependencies=no\n\
         Conflicts=shutdown.target\n\
         After=local-fs.target\n\
         Before=basic.target shutdown.target\n\
         RequiresMountsFor={state} {program}\n\
         ConditionFileIsExecutable={path}\n\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         TimeoutStartSec=60\n\
         TimeoutStopSec=60\n\
         ExecStart={start}\n\
         ExecStop={stop}\n\n\
         [Install]\n\
         WantedBy=basic.target\n"
    )
}

/// A path in a condition. It is no word: only `%` is special there.
fn condition_path(call: &StartCommand) -> String {
    call.program.replace('%', "%%")
}

/// The unit of the ban. irqbalance wants it, so each start of irqbalance starts it too: the ban is
/// lost when irqbalance ends.
fn ban_unit(call: &StartCommand) -> String {
    let (line, path) = (call.ban_line(quote_for_unit), condition_path(call));
    format!(
        "{MARK}[Unit]\n\
         Description=cpushield: keep irqbalance off the shielded CPUs\n\
         After=irqbalance.service {SHIELD}.service\n\
         ConditionFileIsExecutable={path}\n\n\
         [Service]\n\
         Type=oneshot\n\
         TimeoutStartSec=60\n\
         ExecStart={line}\n\n\
         [Install]\n\
         WantedBy=irqbalance.service\n"
    )
}

/// The units of the helper for the operators of a shield: its service and its socket. Only systemd
/// has them.
#[must_use]
pub fn operator_files(call: &StartCommand, helper: &OperatorHelper) -> [InitFile; 2] {
    let service = format!("{OPERATORS}{}", helper.shield);
    let file = |path: String, text: String| InitFile {
        service: service.clone(),
        path,
        text,
        mode: UNIT_MODE,
    };
    let path = format!("/etc/systemd/system/{service}@.service");
    let socket = socket_path(&helper.shield);
    [file(path, operator_service(call, helper)), file(socket, operator_socket(helper))]
}

/// The path of the unit of the socket for the operators of a shield.
pub(super) fn socket_path(shield: &str) -> String {
    format!("/etc/systemd/system/{OPERATORS}{shield}.socket")
}

/// The units of sockets among files of units.
pub fn socket_units(paths: &[String]) -> impl Iterator<Item = &str> {
    let names = paths.iter().filter_map(|path| path.rsplit('/').next());
    names.filter(|name| name.ends_with(".socket"))
}

/// The service has a process for each request, which ends with it. The capabilities are those to
/// move a process to CPUs, to schedule it, to raise its limits, and to write the lists of groups
/// that belong to users. Without the last one no program returns to a group below
/// `user@UID.service`, which systemd gives to the user (`Delegate=`,
/// systemd.resource-control(5)).
fn operator_service(call: &StartCommand, helper: &OperatorHelper) -> String {
    let OperatorHelper { shield, command: [command, option], .. } = helper;
    let (line, path) =
        (call.line(quote_for_unit, &[command, option, shield], &[]), condition_path(call));
    let state = quote_for_unit(&call.state);
    let group = helper.proc_gid.map(|gid| format!("SupplementaryGroups={gid}\n"));
    let group = group.unwrap_or_default();
    format!(
        "{MARK}[Unit]\n\
         Description=cpushield: answer an operator request for shield {shield}\n\
         ConditionFileIsExecutable={path}\n\
         CollectMode=inactive-or-failed\n\n\
         [Service]\n\
         ExecStart=-{line}\n\
         StandardInput=socket\n\
         StandardOutput=null\n\
         StandardError=journal\n\
         RuntimeMaxSec=60\n\
         MemoryMax=64M\n\
         TasksMax=8\n\
         {group}\
         CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_SYS_NICE CAP_SYS_RESOURCE\n\
         NoNewPrivileges=yes\n\
         ProtectSystem=strict\n\
         ReadWritePaths={state}\n\
         ProtectHome=yes\n\
         PrivateTmp=yes\n\
         PrivateNetwork=yes\n\
         RestrictAddressFamilies=AF_UNIX\n\
         RestrictNamespaces=yes\n\
         MemoryDenyWriteExecute=yes\n\
         LockPersonality=yes\n"
    )
}

/// A flood of connections closes connections, and never the socket: the trigger limit, which would
/// fail the socket, is off. A user has half of the connections at most, where systemd counts them
/// by user (older versions count only those of a network by their source). The socket has no group
/// of its own if single users may ask.
pub(super) fn operator_socket(helper: &OperatorHelper) -> String {
    let OperatorHelper { shield, socket, .. } = helper;
    let access = match helper.gid {
        Some(gid) => format!("SocketGroup={gid}\nSocketMode=0660\n"),
        None => "SocketMode=0666\n".to_owned(),
    };
    format!(
        "{MARK}[Unit]\n\
         Description=cpushield: operator requests for shield {shield}\n\n\
         [Socket]\n\
         ListenStream={socket}\n\
         SocketUser=root\n\
         {access}\
         DirectoryMode=0755\n\
         RemoveOnStop=yes\n\
         Accept=yes\n\
         MaxConnections=16\n\
         MaxConnectionsPerSource=8\n\
         TriggerLimitIntervalSec=0\n\n\
         [Install]\n\
         WantedBy=sockets.target\n"
    )
}

/// The OpenRC script. It runs after the services that mount file systems, by OpenRC's own names and
/// by Debian's. It uses no `need`: OpenRC 0.56 does not start a service that needs a missing one.
/// The runlevel is `shutdown` while the system goes down (`main()` of src/openrc/rc.c sets it
/// before it stops services).
fn openrc(call: &StartCommand) -> String {
    let (start, stop) = (call.start_line(quote_for_shell), call.stop_line(quote_for_shell));
    let program = quote_for_shell(&call.program);
    format!(
        "#!/sbin/openrc-run\n{MARK}\
         description='shield CPUs before services start'\n\n\
         depend() {{\n    after sysfs cgroups localmount mountkernfs mountall\n    \
         before bootmisc procps networking\n}}\n\n\
         start() {{\n    [ -x {program} ] || return 0\n    \
         ebegin 'Shielding CPUs'\n    {start}\n    eend $?\n}}\n\n\
         stop() {{\n    [ \"$RC_RUNLEVEL\" != shutdown ] && [ -x {program} ] || return 0\n    \
         ebegin 'Undoing the shield'\n    {stop}\n    eend $?\n}}\n"
    )
}

/// The OpenRC script of the ban.
fn ban_openrc(call: &StartCommand) -> String {
    let (line, program) = (call.ban_line(quote_for_shell), quote_for_shell(&call.program));
    format!(
        "#!/sbin/openrc-run\n{MARK}\
         description='keep irqbalance off the shielded CPUs'\n\n\
         depend() {{\n    after irqbalance {SHIELD}\n}}\n\n\
         start() {{\n    [ -x {program} ] || return 0\n    \
         ebegin 'Banning the shielded CPUs from irqbalance'\n    {line}\n    eend $?\n}}\n"
    )
}

/// The script for sysvinit. Its header asks for no link that stops it in a runlevel, so rc never
/// stops it while the system goes down; init sets `RUNLEVEL` for what it starts (init(8)).
fn sysv(call: &StartCommand) -> String {
    let (start, stop) = (call.start_line(quote_for_shell), call.stop_line(quote_for_shell));
    let program = quote_for_shell(&call.program);
    format!(
        "#!/bin/sh\n### BEGIN INIT INFO\n\
         # Provides:          {SHIELD}\n\
         # Required-Start:    mountkernfs $local_fs\n\
         # Required-Stop:\n\
         # X-Start-Before:    procps networking\n\
         # Default-Start:     S\n\
         # Default-Stop:\n\
         # Short-Description: shield CPUs before services start\n\
         ### END INIT INFO\n{MARK}\
         [ -x {program} ] || exit 0\n\
         case $1 in\n\
         start) {start} ;;\n\
         stop)\n    case ${{RUNLEVEL-}} in\n    0 | 6) ;;\n    *) {stop} ;;\n    esac\n    ;;\n\
         restart | force-reload) \"$0\" stop && exec \"$0\" start ;;\n\
         *)\n    echo \"usage: $0 start|stop|restart\" >&2\n    exit 2\n    ;;\n\
         esac\n"
    )
}

/// The script of the ban for sysvinit.
fn ban_sysv(call: &StartCommand) -> String {
    let (line, program) = (call.ban_line(quote_for_shell), quote_for_shell(&call.program));
    format!(
        "#!/bin/sh\n### BEGIN INIT INFO\n\
         # Provides:          {BAN}\n\
         # Required-Start:    $local_fs\n\
         # Required-Stop:\n\
         # Should-Start:      irqbalance\n\
         # Default-Start:     2 3 4 5\n\
         # Default-Stop:\n\
         # Short-Description: keep irqbalance off the shielded CPUs\n\
         ### END INIT INFO\n{MARK}\
         [ -x {program} ] || exit 0\n\
         case $1 in\n\
         start | restart | force-reload) {line} ;;\n\
         stop) ;;\n\
         *)\n    echo \"usage: $0 start\" >&2\n    exit 2\n    ;;\n\
         esac\n"
    )
}
