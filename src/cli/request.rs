//! What `plan`, `apply` and `try` ask the user: which CPUs and for what, by flags or by a policy.

use super::completions::KnownWord;
use super::input;
use crate::boot::parameters::{self, PARAMETERS};
use crate::change::EffectTime;
use crate::failure::Failure;
use crate::plan::{Plan, plan};
use crate::policy::{DEFAULT_PATH, PolicyFile, ShareLevel, ShieldRequest, VerifyLimits, Workload};
use crate::survey::Machine;
use crate::tunables::{self, TUNABLES, nearest};
use cpushield_linux::{CpuSet, Host};
use std::path::Path;

/// Which CPUs, and for what; behind all other options of a subcommand, as the heading stays
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "The shield")]
pub struct RequestArgs {
    /// CPUs to shield: `3`, `2-3`, `2-N` (`N` is the last CPU)
    #[arg(long, value_name = "LIST", conflicts_with_all = ["count", "near", "node", "share"])]
    pub cpus: Option<String>,
    /// Number of CPUs; cpushield chooses them
    #[arg(long, value_name = "N", value_parser = count)]
    pub count: Option<usize>,
    /// Choose CPUs near this device, for example `eth0` or `nvme0n1`
    #[arg(long, value_name = "DEVICE")]
    pub near: Option<String>,
    /// Choose CPUs of this NUMA node
    #[arg(long, value_name = "N", value_parser = input::node_number)]
    pub node: Option<usize>,
    /// Only whole groups of CPUs that share no core, L2 or L3 with housekeeping CPUs
    #[arg(long, value_enum)]
    pub share: Option<ShareLevel>,
    /// Accept single SMT siblings; the other sibling stays a housekeeping CPU
    #[arg(long)]
    pub half_core: bool,
    /// Kind of workload that will run on the CPUs
    #[arg(long, value_enum)]
    pub workload: Option<Workload>,
    /// Enable a tunable (see `cpushield explain`)
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switches),
          hide_possible_values = true)]
    pub on: Vec<String>,
    /// Disable a tunable
    #[arg(long, value_name = "TUNABLE", value_parser = KnownWord(switches),
          hide_possible_values = true)]
    pub off: Vec<String>,
    /// Read the shield from this policy file [default: /etc/cpushield/policy.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// Name of the shield in the policy file
    #[arg(long, value_name = "NAME")]
    pub shield: Option<String>,
}

/// A wish with the limits that came with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestWithLimits {
    /// The wish.
    pub wish: ShieldRequest,
    /// What `verify` gates on.
    pub limits: VerifyLimits,
}

impl RequestArgs {
    /// The words that say the same on a command line.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        fn named<T: clap::ValueEnum>(value: Option<T>) -> Option<String> {
            Some(value?.to_possible_value()?.get_name().to_owned())
        }
        let one = |flag: &str, value: Option<String>| value.map(|it| [flag.to_owned(), it]);
        let values = [
            one("--cpus", self.cpus.clone()),
            one("--count", self.count.map(|n| n.to_string())),
            one("--near", self.near.clone()),
            one("--node", self.node.map(|n| n.to_string())),
            one("--share", named(self.share)),
            one("--workload", named(self.workload)),
            one("--policy", self.policy.clone()),
            one("--shield", self.shield.clone()),
        ];
        let mut words: Vec<String> = values.into_iter().flatten().flatten().collect();
        words.extend(self.on.iter().flat_map(|name| ["--on".to_owned(), name.clone()]));
        words.extend(self.off.iter().flat_map(|name| ["--off".to_owned(), name.clone()]));
        words.extend(self.half_core.then(|| "--half-core".to_owned()));
        words
    }

    /// The wish for the running kernel or for the next boot: the policy's, with flags on top.
    ///
    /// # Errors
    /// The policy cannot be read or is wrong, or a list is not one.
    pub fn asked(
        &self,
        host: &Host,
        machine: &Machine,
        when: EffectTime,
    ) -> Result<RequestWithLimits, Failure> {
        self.check_switches(when)?;
        let present = machine.topology.present.union(&machine.topology.online);
        let mut asked = self.policy_wish(host, present.last())?;
        let wish = &mut asked.wish;
        // A policy is for both.
        wish.tunables.retain(|name, _| when == EffectTime::Boot || tunables::named(name).is_some());
        if let Some(list) = &self.cpus {
            let list = CpuSet::parse_list(list, present.last()).map_err(|error| {
                let hint = input::mask_hint(list);
                Failure::usage(error.to_string())
                    .hint(hint.unwrap_or_else(|| input::LIST_HINT.to_owned()))
            })?;
            if list.is_empty() {
                return Err(Failure::usage("--cpus names no CPU").hint(input::LIST_HINT));
            }
            // The list on the command line replaces every choice of the policy.
            *wish = ShieldRequest {
                cpus: Some(list),
                count: None,
                share: None,
                near: None,
                ..wish.clone()
            };
            wish.node = None;
        } else if self.chooses() {
            wish.cpus = None;
        }
        wish.count = self.count.or(wish.count);
        wish.near = self.near.clone().or(wish.near.take());
        wish.node = self.node.or(wish.node);
        wish.share = self.share.or(wish.share);
        wish.half_core |= self.half_core;
        wish.workload = self.workload.unwrap_or(wish.workload);
        wish.tunables.extend(self.on.iter().map(|name| (name.clone(), true)));
        wish.tunables.extend(self.off.iter().map(|name| (name.clone(), false)));
        Ok(asked)
    }

    /// What is switched by a flag is something that is there to be switched, in one direction.
    fn check_switches(&self, when: EffectTime) -> Result<(), Failure> {
        if let Some(both) = self.on.iter().find(|name| self.off.contains(name)) {
            let why = format!("--on {both} and --off {both} contradict each other");
            return Err(Failure::usage(why).hint("leave one of them out"));
        }
        let on = self.on.iter().map(|name| ("--on", name));
        for (flag, name) in on.chain(self.off.iter().map(|name| ("--off", name))) {
            let now = tunables::named(name).is_some();
            let boot = parameters::named(name).is_some();
            let (why, hint) = match when {
                EffectTime::Runtime if boot && !now => (
                    "is a boot parameter, and no tunable of the running kernel",
                    format!("cpushield boot plan {flag} {name}"),
                ),
                EffectTime::Boot if now && !boot => (
                    "is a tunable of the running kernel, and no boot parameter",
                    format!("cpushield plan {flag} {name}"),
                ),
                _ => continue,
            };
            return Err(Failure::usage(format!("{name} {why}")).hint(hint));
        }
        Ok(())
    }

    fn chooses(&self) -> bool {
        self.count.is_some() || self.near.is_some() || self.node.is_some() || self.share.is_some()
    }

    fn policy_wish(&self, host: &Host, last: Option<usize>) -> Result<RequestWithLimits, Failure> {
        let file = match (&self.policy, &self.shield) {
            (Some(file), _) => file.as_str(),
            (None, Some(_)) if !host.exists(DEFAULT_PATH) => {
                let why =
                    format!("--shield names a shield of a policy; {DEFAULT_PATH} is not there");
                return Err(Failure::usage(why).hint("name the policy: --policy FILE"));
            }
            (None, Some(_)) => DEFAULT_PATH,
            // A flag that says which CPUs makes the default policy needless.
            (None, None) if self.cpus.is_some() || self.chooses() => {
                return Ok(RequestWithLimits::default());
            }
            (None, None) if host.exists(DEFAULT_PATH) => DEFAULT_PATH,
            (None, None) => return Ok(RequestWithLimits::default()),
        };
        let text = match &self.policy {
            Some(file) => input::read_file(Path::new(file))?,
            None => host.read(file)?,
        };
        let policy = read_policy(&text, file)?;
        let (name, shield) = policy
            .shield(self.shield.as_deref(), file)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let wish = shield.wish(name, last);
        let wish = wish.map_err(|why| Failure::usage(format!("{file}: {why}")))?;
        Ok(RequestWithLimits { wish, limits: shield.limits })
    }

    /// The plan for the wish.
    ///
    /// # Errors
    /// The wish is wrong, unsafe or impossible.
    pub fn plan(&self, host: &Host, machine: &Machine) -> Result<(Plan, VerifyLimits), Failure> {
        let asked = self.asked(host, machine, EffectTime::Runtime)?;
        Ok((plan(machine, &asked.wish)?, asked.limits))
    }
}

/// What `--on` and `--off` switch.
fn switches() -> Vec<&'static str> {
    let of_now = TUNABLES.iter().map(|tunable| tunable.name());
    let only_at_boot = PARAMETERS.iter().map(|it| it.name);
    of_now.chain(only_at_boot.filter(|name| tunables::named(name).is_none())).collect()
}

/// How many CPUs.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a shield has 1 CPU at least".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("expected a number of CPUs".to_owned()),
    }
}

/// The policy in a file, in which every name is known.
pub(super) fn read_policy(text: &str, file: &str) -> Result<PolicyFile, Failure> {
    let checked = PolicyFile::parse(text, file)
        .and_then(|policy| policy.check_tunables(text, file, &unknown).map(|()| policy));
    checked.map_err(|error| {
        Failure::usage(error.to_string()).hint("`cpushield explain policy` lists all keys")
    })
}

/// Why there is nothing to switch under this name; `None` when there is.
fn unknown(name: &str) -> Option<String> {
    if tunables::named(name).is_some() || parameters::named(name).is_some() {
        return None;
    }
    let near = nearest(name, &switches());
    let near = near.first().map_or_else(
        || "; `cpushield explain` lists them".to_owned(),
        |it| format!("; did you mean {it}?"),
    );
    Some(format!("there is no tunable {name:?}{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        wish: RequestArgs,
    }

    /// The wish of a command line on a machine of 8 CPUs with this default policy.
    fn asked(name: &str, policy: &str, line: &str) -> Result<RequestWithLimits, Failure> {
        let dir =
            std::env::temp_dir().join(format!("cpushield-wish-{}-{name}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc/cpushield")).unwrap();
        std::fs::write(dir.join(DEFAULT_PATH.trim_start_matches('/')), policy).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let mut machine = Machine::default();
        machine.topology.present = (0..8).collect();
        let args = Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap();
        let asked = args.wish.asked(&host, &machine, EffectTime::Runtime);
        std::fs::remove_dir_all(dir).unwrap();
        asked
    }

    const POLICY: &str = "[shield.rt]\ncpus = \"2-3\"\nworkload = \"cyclic\"\n\
                          [shield.rt.tunables]\nthp = true\n[shield.rt.limits]\nmax_entries = 7\n";

    #[test]
    fn flags_win_over_the_policy_and_the_rest_of_it_stays() {
        let set = |list: &str| Some(list.parse::<CpuSet>().unwrap());
        let plain = asked("plain", POLICY, "").unwrap();
        assert_eq!((plain.wish.name.as_str(), plain.wish.cpus.clone()), ("rt", set("2-3")));
        assert_eq!(plain.limits.max_entries, Some(7));
        let flags = asked("flags", POLICY, "--shield rt --cpus 6-N --off thp").unwrap();
        let wanted = ShieldRequest {
            name: "rt".to_owned(),
            cpus: set("6-7"),
            workload: Workload::Cyclic,
            tunables: [("thp".to_owned(), false)].into(),
            ..ShieldRequest::default()
        };
        assert_eq!(flags.wish, wanted);
        let count = asked("count", POLICY, "--shield rt --count 2").unwrap().wish;
        assert_eq!((count.cpus, count.count), (None, Some(2)));
    }

    #[test]
    fn the_words_of_a_wish_are_that_wish() {
        for line in [
            "",
            "--cpus 2-N --on thp --off watchdog --off ksm --half-core",
            "--count 2 --near eth0 --node 1 --share l2 --workload cyclic",
            "--policy /etc/x.toml --shield rt",
        ] {
            let parse = |words: &[String]| {
                Line::try_parse_from(["x".to_owned()].iter().chain(words)).unwrap().wish
            };
            let given: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let args = parse(&given);
            assert_eq!(args, parse(&args.words()), "{line}");
            assert_eq!(args.words().len(), given.len());
        }
    }

    #[test]
    fn a_flag_that_says_which_cpus_needs_no_policy() {
        let wish = asked("cpus", POLICY, "--cpus 5").unwrap().wish;
        assert_eq!(wish.name, "cpushield");
        assert_eq!(wish.tunables.len(), 0);
        let error = asked("bad", "[shield.rt]\nx = 1\n", "").unwrap_err().to_string();
        assert!(error.starts_with("/etc/cpushield/policy.toml:2: unknown field"), "{error}");
        let error = asked("list", POLICY, "--cpus 3-1").unwrap_err().to_string();
        assert!(error.contains("runs backwards"), "{error}");
    }

    #[test]
    fn a_name_that_nobody_knows_is_told_with_its_place() {
        let wrong = "[shield.rt]\ncount = 1\n[shield.rt.tunables]\nthp = true\nwatchdg = true\n";
        let error = asked("name", wrong, "").unwrap_err().to_string();
        let said = "/etc/cpushield/policy.toml:5: there is no tunable \"watchdg\"; did you mean w";
        assert!(error.starts_with(said), "{error}");
        assert!(error.ends_with("hint:  `cpushield explain policy` lists all keys"), "{error}");
        // A policy is for the next boot too.
        let both = "[shield.rt]\n[shield.rt.tunables]\nskew-tick = true\nthp = false\n";
        let wish = asked("both", both, "").unwrap().wish;
        assert_eq!(wish.tunables, [("thp".to_owned(), false)].into());
    }

    #[test]
    fn what_cannot_be_switched_is_refused_with_where_it_can_be() {
        let refused = |line: &str, when| {
            let args = Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap();
            args.wish.check_switches(when).map_err(|failure| failure.hints.concat())
        };
        let (now, boot) = (EffectTime::Runtime, EffectTime::Boot);
        let hint = |hint: &str| Err(hint.to_owned());
        let plan = hint("cpushield boot plan --on skew-tick");
        assert_eq!(refused("--on skew-tick", now), plan);
        assert_eq!(refused("--off thp --off skew-tick", boot), hint("cpushield plan --off thp"));
        assert_eq!(refused("--on thp --off ksm", now), Ok(()));
        assert_eq!(refused("--on skew-tick --off nohz-full", boot), Ok(()));
        assert_eq!(refused("--on thp --on ksm --off thp", now), hint("leave one of them out"));
        // A policy is for both, so it stays silent there.
        assert!(
            asked("empty", POLICY, "--cpus ,").unwrap_err().message.contains("--cpus names no")
        );
        assert!(Line::try_parse_from(["x", "--count", "0"]).is_err());
    }

    #[test]
    fn a_shield_of_no_policy_is_a_mistake_on_the_command_line() {
        let args = Line::try_parse_from(["x", "--shield", "rt"]).unwrap();
        let host = Host::recorded(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let failure = args.wish.asked(&host, &Machine::default(), EffectTime::Runtime).unwrap_err();
        assert_eq!(failure.kind, crate::failure::FailureKind::Usage);
        assert_eq!(failure.hints, ["name the policy: --policy FILE"]);
    }
}
