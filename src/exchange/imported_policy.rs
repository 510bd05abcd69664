//! [`ToolSetup`] → a policy with the same CPUs. Every entry has a comment with its source; what a
//! policy cannot say is a comment at the end. Pure.

use super::boot_words::{WordMeaning, WordOrigin, find_word_meaning};
use super::comment_text;
use super::known_settings::find_tunable;
use crate::boot::line;
use crate::boot::parameters::ParameterTarget;
use crate::boot::switches::switch_names;
use crate::documents::machine::Machine;
use crate::policy::{Siblings, TunableSetting, is_shield_name};
use crate::survey::other_tools::{OtherTool, SettingTarget, ToolSetting, ToolSetup, ToolShield};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;

/// The version of the document's format.
const SCHEMA: u32 = 1;

/// A policy that was made of the setup of another tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportedPolicy {
    /// The version of the document's format.
    pub schema: u32,
    /// What the other tool has set up.
    pub setup: ToolSetup,
    /// The shields of the policy.
    pub shields: Vec<ImportedShield>,
    /// The policy, as `--policy` reads it.
    pub policy: String,
}

/// A shield of an imported policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportedShield {
    /// Its name in the policy.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// What runs on SMT siblings; `None` if it shares no core.
    pub siblings: Option<Siblings>,
}

/// Why no policy can be made of a setup.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum ImportRefusal {
    /// {place}: {tool} isolates CPU {cpus}, but this machine has only CPU {present}.
    NoSuchCpus {
        /// The tool.
        tool: OtherTool,
        /// The CPUs that it names.
        cpus: CpuSet,
        /// Where it names them.
        place: String,
        /// The CPUs of the machine.
        present: CpuSet,
    },
    /// {place}: {tool} isolates CPU {cpus}, so no housekeeping CPU would be left.
    NoHousekeeping {
        /// The tool.
        tool: OtherTool,
        /// The CPUs that it isolates.
        cpus: CpuSet,
        /// Where it names the last of them.
        place: String,
    },
}

/// Makes a policy of a setup on this machine.
///
/// # Errors
/// The machine has none of the CPUs, or no other online CPU.
pub fn make_policy(machine: &Machine, setup: &ToolSetup) -> Result<ImportedPolicy, ImportRefusal> {
    let present = machine.topology.present.union(&machine.topology.online);
    let mut draft = PolicyDraft::new(setup);
    let mut shields: Vec<ImportedShield> = Vec::new();
    let (online, mut taken) = (&machine.topology.online, CpuSet::new());
    for (index, shield) in setup.shields.iter().enumerate() {
        let absent = shield.cpus.difference(&present);
        let cpus = shield.cpus.intersection(&present);
        // Part of a recording may not show the CPUs.
        let cpus = if present.is_empty() { shield.cpus.clone() } else { cpus };
        if cpus.is_empty() {
            let (tool, place) = (setup.tool, shield.place.to_string());
            let cpus = shield.cpus.clone();
            return Err(ImportRefusal::NoSuchCpus { tool, cpus, place, present });
        }
        taken = taken.union(&cpus);
        // Part of a recording may not show which CPUs are online.
        if !online.is_empty() && online.is_subset(&taken) {
            let (tool, place) = (setup.tool, shield.place.to_string());
            return Err(ImportRefusal::NoHousekeeping { tool, cpus: taken, place });
        }
        if !present.is_empty() && !absent.is_empty() {
            let place = &shield.place;
            draft
                .left_out
                .push(format!("CPU {absent} of {}: not on this machine ({place})", shield.what));
        }
        let name = choose_name(setup, shield, &shields);
        let siblings = splits_core(machine, &cpus).then_some(Siblings::Share);
        draft.add_shield(
            &ImportedShield { name: name.clone(), cpus: cpus.clone(), siblings },
            shield,
        );
        if index == 0 {
            let rest = machine.topology.possible.difference(&cpus);
            draft.add_settings(&name, setup, &ParameterTarget { cpus: cpus.clone(), rest });
        }
        shields.push(ImportedShield { name, cpus, siblings });
    }
    let (policy, setup) = (draft.finish(), setup.clone());
    Ok(ImportedPolicy { schema: SCHEMA, setup, shields, policy })
}

/// A name that a policy accepts and that no earlier shield has.
fn choose_name(setup: &ToolSetup, shield: &ToolShield, earlier: &[ImportedShield]) -> String {
    let is_free = |name: &String| earlier.iter().all(|it| it.name != *name);
    let own = Some(shield.name.clone()).filter(|name| is_shield_name(name));
    let numbered = (2..).map(|n| format!("{}_{n}", setup.tool));
    let mut names = own.into_iter().chain([setup.tool.to_string()]).chain(numbered);
    names.find(is_free).unwrap_or_default()
}

/// Whether a CPU has an SMT sibling that is not among them.
fn splits_core(machine: &Machine, cpus: &CpuSet) -> bool {
    let mut known = cpus.iter().filter_map(|cpu| machine.topology.cpu(cpu));
    known.any(|cpu| !cpu.siblings.is_subset(cpus))
}

/// The text of a policy while it is made.
struct PolicyDraft {
    text: String,
    /// What a policy cannot say.
    left_out: Vec<String>,
}

impl PolicyDraft {
    fn new(setup: &ToolSetup) -> PolicyDraft {
        let mut draft = PolicyDraft { text: String::new(), left_out: Vec::new() };
        draft.comment(match setup.tool {
            OtherTool::Cmdline => "A policy with the CPUs from the running kernel's command line",
            OtherTool::Tuned => "A policy with the CPUs of the active tuned profile",
            OtherTool::Cset => "A policy with the CPUs of cset's cpusets",
            OtherTool::Partrt => "A policy with the CPUs of partrt's cpusets",
        });
        draft.comment(&format!("(cpushield plan --from {}).", setup.tool));
        draft.comment(
            "Next: save it as FILE, then `cpushield plan --policy FILE` shows the changes.",
        );
        let end = match setup.tool {
            OtherTool::Tuned => "Before `cpushield apply`, switch tuned off: tuned-adm off",
            OtherTool::Cset => "Before `cpushield apply`, remove its cpusets: cset shield --reset",
            OtherTool::Partrt => {
                "Before `cpushield apply`, remove its cpusets: partrt undo -s /tmp/partrt_env"
            }
            OtherTool::Cmdline => "`cpushield survey --lint` checks the command line itself.",
        };
        draft.comment(end);
        for remark in &setup.remarks {
            draft.comment(remark);
        }
        draft
    }

    fn comment(&mut self, text: &str) {
        self.text.push_str(&format!("# {}\n", comment_text(text)));
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn add_shield(&mut self, imported: &ImportedShield, shield: &ToolShield) {
        let ImportedShield { name, cpus, siblings } = imported;
        self.line(&format!("\n[shield.{name}]"));
        self.comment(&format!("{}: {}", shield.what, shield.place));
        self.line(&format!("cpus = \"{cpus}\""));
        if siblings.is_some() {
            self.comment(
                "An SMT sibling of these CPUs is outside the shield, as in the other tool.",
            );
            self.line("siblings = \"share\"");
        }
    }

    /// Adds the tunables and kernel parameters of a shield.
    fn add_settings(&mut self, shield: &str, setup: &ToolSetup, target: &ParameterTarget) {
        let mut tunables: Vec<(&'static str, TunableSetting, String)> = Vec::new();
        let mut words: Vec<(&str, String)> = Vec::new();
        let origin = match setup.tool {
            OtherTool::Cmdline => WordOrigin::CommandLine,
            OtherTool::Tuned | OtherTool::Cset | OtherTool::Partrt => WordOrigin::Profile,
        };
        for setting in &setup.settings {
            let (source, value) = (describe(setting), &setting.value);
            if setting.target == SettingTarget::BootParameter {
                match find_word_meaning(value, target, origin) {
                    WordMeaning::Unrelated => {}
                    WordMeaning::Parameters(names) => {
                        let on = |name| (name, TunableSetting::Switch(true), source.clone());
                        tunables.extend(names.into_iter().map(on));
                    }
                    WordMeaning::Own => {
                        words.retain(|(word, _)| !line::contradicts(word, value));
                        words.push((value, source));
                    }
                    WordMeaning::Inexpressible(why) => {
                        self.left_out.push(format!("{source}: {why}"));
                    }
                }
                continue;
            }
            match find_tunable(setting) {
                Some((name, setting)) => tunables.push((name, setting, source)),
                None => self.left_out.push(source),
            }
        }
        self.add_tunables(shield, &tunables);
        self.add_words(shield, &words);
    }

    fn add_tunables(&mut self, shield: &str, wanted: &[(&'static str, TunableSetting, String)]) {
        if wanted.is_empty() {
            return;
        }
        self.line(&format!("\n[shield.{shield}.tunables]"));
        self.comment("The values are cpushield's own: `cpushield explain NAME` shows them.");
        for name in switch_names() {
            let sources: Vec<_> = wanted.iter().filter(|(known, ..)| *known == name).collect();
            for (_, _, source) in &sources {
                self.comment(source);
            }
            if let Some((_, setting, _)) = sources.first() {
                self.line(&format!("{name} = {setting}"));
            }
        }
    }

    fn add_words(&mut self, shield: &str, words: &[(&str, String)]) {
        if words.is_empty() {
            return;
        }
        self.line(&format!("\n[shield.{shield}.boot]"));
        for (_, source) in words {
            self.comment(source);
        }
        let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.line(&format!("parameters = [{}]", quoted.join(", ")));
    }

    fn finish(mut self) -> String {
        if !self.left_out.is_empty() {
            self.line("");
            self.comment("A policy cannot express these settings:");
            for text in std::mem::take(&mut self.left_out) {
                self.comment(&format!("  {text}"));
            }
        }
        self.text
    }
}

/// A setting with its place, for a comment.
fn describe(setting: &ToolSetting) -> String {
    let ToolSetting { name, target, value, place } = setting;
    match target {
        SettingTarget::BootParameter => format!("{value}: {place}"),
        SettingTarget::KernelFile { .. } => format!("{name} = {value}: {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_selection::CpuNames;
    use crate::policy::PolicyFile;
    use crate::survey::other_tools::SettingPlace;
    use proptest::prelude::*;

    fn place(file: &str) -> SettingPlace {
        SettingPlace { file: file.to_owned(), line: Some(1) }
    }

    fn setting(name: &str, path: bool, value: &str) -> ToolSetting {
        let path = path.then(|| SettingTarget::KernelFile { path: name.to_owned() });
        ToolSetting {
            name: name.to_owned(),
            target: path.unwrap_or(SettingTarget::BootParameter),
            value: value.to_owned(),
            place: place(name),
        }
    }

    fn setup(names: &[&str], settings: Vec<ToolSetting>) -> ToolSetup {
        let shields = names.iter().enumerate().map(|(cpu, name)| ToolShield {
            name: (*name).to_owned(),
            cpus: CpuSet::single(cpu),
            what: (*name).to_owned(),
            place: place(name),
        });
        let (tool, remarks) = (OtherTool::Tuned, names.iter().map(|it| (*it).to_owned()).collect());
        ToolSetup { tool, name: None, shields: shields.collect(), settings, remarks }
    }

    #[test]
    fn cpus_that_the_machine_lacks_are_left_out_or_refused() {
        let mut machine = Machine::default();
        machine.topology.present = (0..4).collect();
        let mut found = setup(&["a"], Vec::new());
        found.shields[0].cpus = "3-5".parse().unwrap();
        let imported = make_policy(&machine, &found).unwrap();
        assert_eq!(imported.shields[0].cpus, CpuSet::single(3));
        assert!(imported.policy.contains("CPU 4-5 of a: not on this machine"));
        found.shields[0].cpus = "4-5".parse().unwrap();
        let refusal = make_policy(&machine, &found).unwrap_err().to_string();
        assert_eq!(refusal, "a:1: tuned isolates CPU 4-5, but this machine has only CPU 0-3");
    }

    #[test]
    fn a_setup_of_any_tool_without_a_housekeeping_cpu_is_refused() {
        let mut machine = Machine::default();
        machine.topology.present = (0..6).collect();
        machine.topology.online = (0..4).collect();
        for tool in [OtherTool::Cmdline, OtherTool::Tuned, OtherTool::Cset, OtherTool::Partrt] {
            let refusal = |lists: &[&str]| {
                let names = ["a", "b"];
                let mut found = setup(&names[..lists.len()], Vec::new());
                found.tool = tool;
                for (shield, cpus) in found.shields.iter_mut().zip(lists) {
                    shield.cpus = cpus.parse().unwrap();
                }
                make_policy(&machine, &found).err().map(|refusal| refusal.to_string())
            };
            let text = |place, cpus| {
                let why = "so no housekeeping CPU would be left";
                Some(format!("{place}:1: {tool} isolates CPU {cpus}, {why}"))
            };
            assert_eq!(refusal(&["0-3"]), text("a", "0-3"));
            assert_eq!(refusal(&["0-2", "3"]), text("b", "0-3"));
            assert_eq!(refusal(&["0-2", "4-5"]), None);
        }
    }

    proptest! {
        #[test]
        fn no_name_and_no_value_makes_a_policy_that_is_not_read_back(
            names in proptest::collection::vec("[a-z]{1,3}|.{0,12}", 1..4),
            values in proptest::collection::vec(("[a-z_/.]{0,12}|.{0,20}", any::<bool>(), ".{0,20}"), 0..6),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let settings = values.iter().map(|(name, path, value)| setting(name, *path, value));
            let found = setup(&names, settings.collect());
            let imported = make_policy(&Machine::default(), &found).unwrap();
            let policy = PolicyFile::parse(&imported.policy, "made").unwrap();
            for shield in &imported.shields {
                let wish = policy.shield[&shield.name].request(&shield.name, &CpuNames::unknown()).unwrap();
                prop_assert_eq!(wish.cpus.as_ref(), Some(&shield.cpus));
            }
            prop_assert_eq!(policy.shield.len(), names.len());
        }
    }
}
