//! Resolves the options that request a shield, and the policy file that completes them, into a
//! [`ShieldRequest`].

use super::cpu_names::names_of;
use super::given_file::read_file;
pub use super::requested_shield::{DisturbArgs, ONE_SHIELD, PolicyOptions, ShieldOptions};
use crate::boot::switches::{Switch, is_tunable, named_switch, switch_names};
use crate::boot::{names_kernel_parameter, offered_names};
use crate::change::EffectTime;
use crate::cpu_selection::{CpuNames, selection_hint};
use crate::documents::machine::Machine;
use crate::failure::Failure;
use crate::plan::PlanRefusal;
use crate::policy::{
    DEFAULT_PATH, OperatorName, OperatorPolicy, PolicyFile, ShieldOperators, ShieldRequest,
    TunableSetting, TunableSettings, VerifyLimits, WrittenShield,
};
use crate::quote::quote_for_shell;
use crate::registry::nearest;
use crate::run::{RunError, look_up_group, look_up_user};
use crate::tunables::spell_setting;
use cpushield_linux::{CpuSet, Host};
use std::fmt::Display;
use std::path::Path;

/// A request, and the limits of the same policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestWithLimits {
    /// The requested shield.
    pub request: ShieldRequest,
    /// The limits that `verify` checks.
    pub limits: VerifyLimits,
}

impl ShieldOptions {
    /// Resolves the request for the running kernel or the next boot. Flags override the policy.
    ///
    /// # Errors
    /// The policy cannot be read or parsed, or an option is wrong.
    pub fn resolve(
        &self,
        host: &Host,
        machine: &Machine,
        when: EffectTime,
    ) -> Result<RequestWithLimits, Failure> {
        let tunables = self.read_switches(when)?;
        let given = WrittenShield { tunables, ..self.written.clone() };
        let (policy, name) = self.find_policy(host, when)?;
        let mut resolved = resolve_shield(&policy, host, &names_of(machine), &name, given, when)?;
        resolved.request.disturbance = self.disturbance;
        Ok(resolved)
    }

    /// What `--on` and `--off` say. They do not contradict each other, and each name exists at this
    /// time: on the running kernel, or at boot.
    fn read_switches(&self, when: EffectTime) -> Result<TunableSettings, Failure> {
        let on = self.on.iter().map(|word| ("--on", word, true));
        let mut settings = TunableSettings::default();
        for (flag, word, is_on) in on.chain(self.off.iter().map(|word| ("--off", word, false))) {
            if let Some((why, hints)) = why_not_now(flag, word, when) {
                return Err(Failure { hints, ..Failure::usage(format!("{word} {why}")) });
            }
            let (name, setting) = match word.split_once('=') {
                Some((name, value)) if is_on && named_switch(name).is_some() => {
                    (name, TunableSetting::Value(value.to_owned()))
                }
                _ => (word.as_str(), is_on.into()),
            };
            let setting = spell_setting(name, &setting)?;
            let before = settings.insert(name.to_owned(), setting.clone());
            if let Some(before) = before.filter(|before| *before != setting) {
                let (before, now) = (before.option(name), setting.option(name));
                let why = format!("{before} and {now} contradict each other");
                return Err(Failure::usage(why).hint("omit one of them"));
            }
        }
        Ok(settings)
    }

    /// The policy file, which is empty if none is used, and the name of the shield.
    fn find_policy(&self, host: &Host, when: EffectTime) -> Result<(PolicyFile, String), Failure> {
        let given = self.shield.as_deref();
        let name = given.map_or_else(|| ShieldRequest::default().name, str::to_owned);
        let is_new = self.policy.is_none() && self.written.selects_cpus();
        // Options that select CPUs replace the default policy.
        let is_replaced = is_new && given.is_none();
        if is_replaced || (self.policy.is_none() && !host.exists(DEFAULT_PATH)) {
            return Ok((PolicyFile::default(), name));
        }
        let policy = read_file_of_policy(host, self.policy.as_deref())?;
        if is_new && !policy.shield.contains_key(&name) {
            return Ok((policy, name));
        }
        let (name, _) = find_shield(&policy, given).map_err(|failure| match when {
            _ if failure.hints.is_empty() => failure,
            EffectTime::Runtime => {
                failure.hint(format!("or select all of them: {}", select_all(&policy)))
            }
            EffectTime::Boot => failure.hint("or name the CPUs of all of them: --cpus LIST"),
        })?;
        let name = name.to_owned();
        Ok((policy, name))
    }
}

/// Why a name is not accepted at this time, and what to do; `None` if it is, or if no other time
/// accepts it.
fn why_not_now(flag: &str, name: &str, when: EffectTime) -> Option<(&'static str, Vec<String>)> {
    let switch = named_switch(if flag == "--on" { plain_name(name) } else { name });
    if when == EffectTime::Boot {
        let tunable = matches!(switch, Some(Switch::Tunable(_)));
        let hint = format!("cpushield plan {flag} {name}");
        return tunable
            .then(|| ("is a tunable of the running kernel, not a boot parameter", vec![hint]));
    }
    let offered = offered_names(name);
    Some(match switch {
        Some(Switch::Parameter(parameter)) if parameter.is_never_written() => (
            "is a boot parameter that cpushield never writes",
            vec![format!("cpushield explain {name}")],
        ),
        Some(Switch::Parameter(_)) => (
            "is a boot parameter, not a tunable of the running kernel",
            vec![format!("cpushield boot plan {flag} {name}")],
        ),
        Some(Switch::Tunable(_) | Switch::Both(..)) => return None,
        None if !offered.is_empty() => (
            "is a kernel parameter, not a tunable of the running kernel",
            offered
                .iter()
                .map(|it| format!("cpushield calls it {it}: cpushield boot plan {flag} {it}"))
                .collect(),
        ),
        None if flag == "--on" && names_kernel_parameter(name) => (
            "is a kernel parameter, not a tunable of the running kernel",
            vec![format!("cpushield boot plan --parameter {name}")],
        ),
        None => return None,
    })
}

/// The name in a word of `--on`, which may have a value.
pub(super) fn plain_name(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Reads the given policy file, or the default one.
fn read_file_of_policy(host: &Host, given: Option<&str>) -> Result<PolicyFile, Failure> {
    match given {
        Some(file) => read_policy(&read_file(&host.user_files(), Path::new(file))?, file),
        None => read_policy(&host.read(DEFAULT_PATH)?, DEFAULT_PATH),
    }
}

/// The shield with this name, or the only one.
fn find_shield<'a>(
    policy: &'a PolicyFile,
    name: Option<&str>,
) -> Result<(&'a str, &'a WrittenShield), Failure> {
    policy.shield(name).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match (name, policy.shield.keys().next()) {
            (None, Some(first)) => failure.hint(format!("name one: --shield {first}")),
            _ => failure,
        }
    })
}

/// What selects every shield of this file, in a sentence.
fn select_all(policy: &PolicyFile) -> String {
    match policy.file.as_str() {
        DEFAULT_PATH => "--all".to_owned(),
        file => format!("--all --policy {}", quote_for_shell(file)),
    }
}

/// The request for a shield of the policy, or for one that the policy does not have. What was given
/// as options comes first.
fn resolve_shield(
    policy: &PolicyFile,
    host: &Host,
    names: &CpuNames,
    name: &str,
    given: WrittenShield,
    when: EffectTime,
) -> Result<RequestWithLimits, Failure> {
    let given_list = given.cpus.clone();
    let mut of_policy = policy.shield.get(name).cloned().unwrap_or_default();
    // A policy may also name boot parameters, which do not apply to the running kernel.
    of_policy.tunables.retain(|name, _| when == EffectTime::Boot || is_tunable(name));
    let written = given.or(of_policy);
    let wrong_list =
        |why: &dyn Display| Failure::usage(format!("{}: {why}", policy.place(name, &["cpus"])));
    let mut request = written.request(name, names).map_err(|why| match &given_list {
        Some(list) => {
            let hint = why.hint().unwrap_or_else(|| selection_hint(list));
            Failure::usage(format!("--cpus: {why}")).hint(hint)
        }
        None => wrong_list(&why),
    })?;
    if given_list.is_none() {
        let present = &names.all;
        let wanted = request.cpus.clone().unwrap_or_default();
        let cpus = wanted.difference(present);
        if !cpus.is_empty() && !present.is_empty() {
            return Err(wrong_list(&PlanRefusal::NoSuchCpu { cpus, present: present.clone() }));
        }
        if names.active.len() > 1 && wanted == names.active {
            let (joined, most) = (CpuSet::new(), CpuSet::new());
            let refused = PlanRefusal::AllCpus { online: wanted, joined, most };
            return Err(wrong_list(&refused).hint("leave at least one CPU out of this list"));
        }
    }
    request.parameters = policy.boot_parameters(name);
    let operators = written.operators.as_ref();
    let place = |keys: &[&str]| policy.place(name, &[&["operators"], keys].concat());
    request.operators = operators.map(|it| find_operators(host, it, &place)).transpose()?;
    Ok(RequestWithLimits { request, limits: written.limits.of_verify() })
}

/// The requests for all shields of a policy file, or of the default one, for the running kernel.
///
/// # Errors
/// The policy cannot be read or parsed, or has no shield.
pub fn resolve_all(
    options: &PolicyOptions,
    host: &Host,
    machine: &Machine,
) -> Result<Vec<ShieldRequest>, Failure> {
    let policy = find_whole_policy(options.policy.as_deref(), host)?;
    let names = names_of(machine);
    let requests = policy.shield.keys().map(|name| {
        let given = WrittenShield::default();
        let resolved = resolve_shield(&policy, host, &names, name, given, EffectTime::Runtime);
        let mut request = resolved?.request;
        request.disturbance = options.disturbance;
        Ok(request)
    });
    requests.collect()
}

/// The names of all shields of a policy file.
///
/// # Errors
/// The policy cannot be read or parsed.
pub fn policy_shields(file: &str, host: &Host) -> Result<Vec<String>, Failure> {
    Ok(read_file_of_policy(host, Some(file))?.shield.into_keys().collect())
}

fn find_whole_policy(policy: Option<&str>, host: &Host) -> Result<PolicyFile, Failure> {
    if policy.is_none() && !host.exists(DEFAULT_PATH) {
        let why = format!("--all needs a policy, but there is no {DEFAULT_PATH}");
        return Err(Failure::usage(why).hint("name the policy file: --policy FILE"));
    }
    let policy = read_file_of_policy(host, policy)?;
    if policy.shield.is_empty() {
        let why = format!("{}: expected a table [shield.NAME]", policy.file);
        return Err(Failure::usage(why));
    }
    Ok(policy)
}

/// Finds the numbers of the users and the group that a policy names.
fn find_operators(
    host: &Host,
    policy: &OperatorPolicy,
    place: &dyn Fn(&[&str]) -> String,
) -> Result<ShieldOperators, Failure> {
    let find = |name: &String, keys: &[&str], number: Result<u32, RunError>| {
        let id = number.map_err(|error| {
            let hint = "write one name in each string; for an LDAP or SSSD account, write the \
                        numeric ID that `id NAME` shows, such as \"1000\"";
            let is_unknown = matches!(error, RunError::Unknown { .. });
            let failure = Failure::usage(format!("{}: {error}", place(keys)));
            match (is_unknown, host.is_live()) {
                (true, _) => failure.hint(hint),
                (false, false) => failure.hint("a recording has no users: omit operators"),
                (false, true) => failure,
            }
        })?;
        Ok::<_, Failure>(OperatorName { name: name.clone(), id })
    };
    let users = policy.users.iter().enumerate();
    let users = users
        .map(|(n, name)| find(name, &["users", &n.to_string()], look_up_user(host, name)))
        .collect::<Result<_, _>>()?;
    let group = policy.group.as_ref();
    let group = group.map(|name| find(name, &["group"], look_up_group(host, name))).transpose()?;
    Ok(ShieldOperators { users, group, limits: policy.limits() })
}

/// Checks that the operators of a saved plan have the numbers that this machine knows them by.
///
/// # Errors
/// A name is unknown, or has another number.
pub(super) fn check_accounts(host: &Host, operators: &ShieldOperators) -> Result<(), Failure> {
    let users = operators.users.iter().map(|user| (user, look_up_user(host, &user.name)));
    let group = operators.group.iter().map(|group| (group, look_up_group(host, &group.name)));
    for (OperatorName { name, id }, number) in users.chain(group) {
        let found = number?;
        if found != *id {
            let why = format!("the plan says that {name} has the number {id}, but it is {found}");
            return Err(Failure::usage(why).hint("plan again on this machine"));
        }
    }
    Ok(())
}

/// Reads a shield of a policy file; `None` without a file. `shield` names one of
/// several in it.
///
/// # Errors
/// The policy cannot be read, or has no such shield.
pub fn read_policy_shield(
    host: &Host,
    policy: Option<&Path>,
    shield: Option<&str>,
) -> Result<Option<WrittenShield>, Failure> {
    let Some(file) = policy else { return Ok(None) };
    let text = read_file(&host.user_files(), file)?;
    let policy = read_policy(&text, &file.display().to_string())?;
    let (_, found) = find_shield(&policy, shield)?;
    Ok(Some(found.clone()))
}

/// Parses a policy file and checks that every tunable in it exists and accepts its value.
///
/// # Errors
/// It is not a policy, or a tunable is unknown or has another value.
pub fn read_policy(text: &str, file: &str) -> Result<PolicyFile, Failure> {
    let read = |name: &str, setting: &TunableSetting| match why_unknown(name) {
        Some(why) => Err(why),
        None => spell_setting(name, setting).map_err(|refusal| refusal.to_string()),
    };
    let checked = PolicyFile::parse(text, file).and_then(|mut policy| {
        policy.read_tunables(&read)?;
        Ok(policy)
    });
    checked.map_err(|error| {
        Failure::usage(error.to_string()).hint("list all keys: cpushield explain policy")
    })
}

/// Why `--on` and `--off` do not accept this name; `None` if they do.
fn why_unknown(name: &str) -> Option<String> {
    if named_switch(name).is_some() {
        return None;
    }
    let names = offered_names(name);
    if !names.is_empty() {
        return Some(format!(
            "{name} is a kernel parameter; cpushield calls it {}",
            names.join(" or ")
        ));
    }
    if names_kernel_parameter(name) {
        return Some(format!(
            "{name} is a kernel parameter, not a tunable; write it as boot.parameters = [{name:?}]"
        ));
    }
    let near = nearest(name, &switch_names());
    let near = near.first().map_or_else(
        || "; `cpushield explain` lists them".to_owned(),
        |near| format!("; did you mean {near}?"),
    );
    Some(format!("there is no tunable {name:?}{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Workload;
    use cpushield_linux::CpuSet;

    fn options() -> ShieldOptions {
        ShieldOptions::default()
    }

    fn with_list(list: &str) -> ShieldOptions {
        let written = WrittenShield { cpus: text(list), ..WrittenShield::default() };
        ShieldOptions { written, ..options() }
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Resolves options on a machine with 8 CPUs and this default policy.
    fn resolve(
        name: &str,
        policy: &str,
        options: &ShieldOptions,
    ) -> Result<RequestWithLimits, Failure> {
        let dir =
            std::env::temp_dir().join(format!("cpushield-request-{}-{name}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc/cpushield")).unwrap();
        std::fs::write(dir.join(DEFAULT_PATH.trim_start_matches('/')), policy).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let mut machine = Machine::default();
        machine.topology.present = (0..8).collect();
        let resolved = options.resolve(&host, &machine, EffectTime::Runtime);
        std::fs::remove_dir_all(dir).unwrap();
        resolved
    }

    const POLICY: &str = "[shield.rt]\ncpus = \"2-3\"\nworkload = \"cyclic\"\n\
                          [shield.rt.tunables]\nthp = true\n[shield.rt.limits]\nmax_entries = 7\n";

    #[test]
    fn flags_override_the_policy_and_its_other_values_stay() {
        let set = |list: &str| Some(list.parse::<CpuSet>().unwrap());
        let plain = resolve("plain", POLICY, &options()).unwrap();
        assert_eq!((plain.request.name.as_str(), plain.request.cpus.clone()), ("rt", set("2-3")));
        assert_eq!(plain.limits.max_entries, Some(7));
        let (shield, off) = (text("rt"), names(&["thp"]));
        let given = ShieldOptions { shield, off, ..with_list("6-N") };
        let flags = resolve("flags", POLICY, &given).unwrap();
        let wanted = ShieldRequest {
            name: "rt".to_owned(),
            cpus: set("6-7"),
            workload: Workload::Cyclic,
            tunables: [("thp".to_owned(), false)].into(),
            ..ShieldRequest::default()
        };
        assert_eq!(flags.request, wanted);
        let written = WrittenShield { count: Some(2), ..WrittenShield::default() };
        let given = ShieldOptions { shield: text("rt"), written, ..options() };
        let count = resolve("count", POLICY, &given).unwrap().request;
        assert_eq!((count.cpus, count.count), (None, Some(2)));
        // A list that options replace may name no CPU of this machine.
        let elsewhere = "[shield.rt]\ncpus = \"isolated\"\nbalance = true\n";
        assert!(resolve("elsewhere", elsewhere, &options()).is_err());
        let given = ShieldOptions { shield: text("rt"), ..with_list("6") };
        let replaced = resolve("replaced", elsewhere, &given).unwrap().request;
        assert_eq!((replaced.cpus, replaced.balance), (set("6"), true));
    }

    #[test]
    fn options_that_select_cpus_replace_the_default_policy() {
        let request = resolve("cpus", POLICY, &with_list("5")).unwrap().request;
        assert_eq!(request.name, "cpushield");
        assert_eq!(request.tunables.len(), 0);
        let error = resolve("bad", "[shield.rt]\nx = 1\n", &options()).unwrap_err().to_string();
        assert!(error.starts_with("/etc/cpushield/policy.toml:2: unknown field"), "{error}");
        let error = resolve("list", POLICY, &with_list("3-1")).unwrap_err().to_string();
        assert!(error.contains("runs backwards"), "{error}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_its_line() {
        let wrong = "[shield.rt]\ncount = 1\n[shield.rt.tunables]\nthp = true\nwatchdg = true\n";
        let error = resolve("name", wrong, &options()).unwrap_err().to_string();
        let expected =
            "/etc/cpushield/policy.toml:5: there is no tunable \"watchdg\"; did you mean w";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("hint:  list all keys: cpushield explain policy"), "{error}");
        // A kernel parameter that is the user's own.
        let own = "[shield.rt]\n[shield.rt.tunables]\nnohlt = true\n";
        let error = resolve("own", own, &options()).unwrap_err().to_string();
        let expected = "/etc/cpushield/policy.toml:3: nohlt is a kernel parameter, not a tunable; \
                        write it as boot.parameters = [\"nohlt\"]";
        assert!(error.starts_with(expected), "{error}");
        // A policy may name boot parameters too.
        let both = "[shield.rt]\n[shield.rt.tunables]\nskew-tick = true\nthp = false\n";
        let request = resolve("both", both, &options()).unwrap().request;
        assert_eq!(request.tunables, [("thp".to_owned(), false)].into());
    }

    #[test]
    fn a_name_of_the_other_time_is_refused_with_the_command_that_accepts_it() {
        let refused = |on: &[&str], off: &[&str], when| {
            let options = ShieldOptions { on: names(on), off: names(off), ..options() };
            options.read_switches(when).map(drop).map_err(|failure| failure.hints.concat())
        };
        let (now, boot) = (EffectTime::Runtime, EffectTime::Boot);
        let hint = |hint: &str| Err(hint.to_owned());
        let plan = hint("cpushield boot plan --on skew-tick");
        assert_eq!(refused(&["skew-tick"], &[], now), plan);
        assert_eq!(refused(&[], &["thp", "skew-tick"], boot), hint("cpushield plan --off thp"));
        assert_eq!(refused(&["thp"], &["ksm"], now), Ok(()));
        // Not a command that refuses it too.
        assert_eq!(refused(&["mitigations"], &[], now), hint("cpushield explain mitigations"));
        let words = refused(&["isolcpus"], &[], now).unwrap_err();
        assert!(words.contains("cpushield boot plan --on isolcpus-domain"), "{words}");
        let own = hint("cpushield boot plan --parameter nohlt");
        assert_eq!(refused(&["nohlt"], &[], now), own);
        assert_eq!(refused(&["skew-tick"], &["nohz-full"], boot), Ok(()));
        assert_eq!(refused(&["thp", "ksm"], &["thp"], now), hint("omit one of them"));
        let idle = "cpu-idle=20us";
        assert_eq!(refused(&[idle], &[], boot), hint("cpushield plan --on cpu-idle=20us"));
        assert_eq!(refused(&[idle, "cpu-idle=20 us"], &[], now), Ok(()));
        assert_eq!(refused(&[idle, "cpu-idle"], &[], now), hint("omit one of them"));
        assert_eq!(refused(&[idle], &["cpu-idle"], now), hint("omit one of them"));
        let explain = hint("see what it does: cpushield explain nohz-full");
        assert_eq!(refused(&["nohz-full=3"], &[], boot), explain);
        // A policy may name both kinds, so its names are not refused.
        let error = resolve("empty", POLICY, &with_list(",")).unwrap_err();
        assert!(error.message.contains("--cpus: \",\" names no CPU"), "{error}");
    }

    #[test]
    fn a_shield_gets_a_name_without_a_policy() {
        let given = ShieldOptions { shield: text("b"), ..options() };
        let host = Host::recorded(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let named = given.resolve(&host, &Machine::default(), EffectTime::Runtime).unwrap();
        assert_eq!(named.request, ShieldRequest { name: "b".to_owned(), ..Default::default() });
        // With a policy, only options that select CPUs show that no shield of it is meant.
        let error = resolve("typo", POLICY, &given).unwrap_err().to_string();
        assert!(error.contains("there is no shield \"b\"; expected one of: rt"), "{error}");
        let chosen = ShieldOptions { shield: text("b"), ..with_list("5") };
        assert_eq!(resolve("new", POLICY, &chosen).unwrap().request.name, "b");
    }
}
