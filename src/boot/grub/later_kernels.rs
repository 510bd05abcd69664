//! Which kernels that are installed later get the parameters: shell code for the scripts that
//! cpushield writes, with the same names and options as in the survey. Only reads the
//! configurations of kernels.

use crate::boot::line;
use crate::documents::boot::{KernelRule, KernelWords};
use crate::quote::quote_for_shell;
use crate::survey::{COKERNEL_NAMES, REALTIME_OPTIONS};
use cpushield_linux::text::cmdline;

/// The option without which a kernel ignores `nohz_full=`.
const NO_HZ_FULL: &str = "CONFIG_NO_HZ_FULL";

/// Which kernels get which words.
#[derive(Debug)]
pub struct LaterKernels<'a> {
    /// The rule for the kernels.
    pub rule: &'a KernelRule,
    /// Those of now, with their words.
    pub groups: &'a [KernelWords],
}

impl LaterKernels<'_> {
    /// The words of all groups.
    pub(in crate::boot) fn words(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for word in self.groups.iter().flat_map(|it| &it.words) {
            if !words.contains(&word.as_str()) {
                words.push(word);
            }
        }
        words.join(" ")
    }

    /// Shell code that does something for each group: `act` has the commands for its words, which
    /// follow the function `chosen`. That succeeds if the kernel of version `$1`, whose image is
    /// `$2` where a script knows it, is in the group. `of_rule` has the commands for the rule.
    pub(in crate::boot) fn shell_code(
        &self,
        arguments: &str,
        of_rule: impl Fn(&KernelRule) -> String,
        act: impl Fn(&str) -> String,
    ) -> String {
        let (rule, names) = (of_rule(self.rule), cokernel_names());
        let mut code = format!("follows_rule() {{ # {arguments}\n    {rule}\n}}\n");
        let groups = || self.groups.iter().filter(|it| !it.words.is_empty());
        // Without `nohz_full=`, kinds differ in `isolcpus=`.
        let isolates = |group: &KernelWords| {
            group.words.iter().any(|word| line::isolated_domain(word).is_some())
        };
        let by_domain = groups().any(isolates) && !groups().all(isolates);
        let is_with = |it| if by_domain { !isolates(it) } else { has_nohz_full(it) };
        let first = |with| groups().position(|it| is_with(it) == with);
        let (with, without) = (first(true), first(false));
        if with.is_some() {
            code.push_str(&format!(
                r#"
# Only kernels with this option have nohz_full=, and few kernels with a co-kernel have it.
has_no_hz_full() {{ # version
    for config in "/usr/lib/modules/$1/config" "/boot/config-$1"; do
        [ -r "$config" ] || continue
        grep -qx '{NO_HZ_FULL}=y' "$config"
        return
    done
    case $1 in ({names}) false ;; esac
}}
"#
            ));
        }
        for (index, group) in groups().enumerate() {
            // Kernels of now are known by their names. A later one is in the first group of its
            // kind.
            let names = |is_own: bool| {
                let groups = self.groups.iter().filter(|it| (*it == group) == is_own);
                let names = groups.flat_map(|it| &it.kernels).map(|it| quote_for_shell(it));
                names.collect::<Vec<_>>().join("|")
            };
            let mut known = match self.rule {
                KernelRule::First => "follows_rule \"$@\" || return\n    ".to_owned(),
                KernelRule::Realtime | KernelRule::Matching { .. } => String::new(),
            };
            for (names, answer) in [(names(true), 0), (names(false), 1)] {
                if !names.is_empty() {
                    known.push_str(&format!("case $1 in ({names}) return {answer} ;; esac\n    "));
                }
            }
            let test = match (with, without) {
                (Some(with), Some(_)) if with == index => "has_no_hz_full \"$1\"",
                (Some(_), Some(without)) if without == index => "! has_no_hz_full \"$1\"",
                (Some(with), None) if with == index => LACKS_OPTION,
                (None, Some(first)) if first == index => ":",
                _ => "false",
            };
            let words = act(&group.words.join(" "));
            code.push_str(&format!(
                "\nchosen() {{ # {arguments}\n    {known}follows_rule \"$@\" && {test}\n}}\n{words}"
            ));
        }
        code
    }
}

/// The test for the option where kernels without it get nothing.
const LACKS_OPTION: &str = r#"{
        has_no_hz_full "$1" || {
            echo "cpushield: $1 gets no parameters: no file shows that it has CONFIG_NO_HZ_FULL" >&2
            false
        }
    }"#;

fn has_nohz_full(group: &KernelWords) -> bool {
    group.words.iter().any(|word| cmdline::same_name(line::name_of(word), "nohz_full"))
}

/// The patterns of releases with a co-kernel, for the shell's `case`.
pub(in crate::boot) fn cokernel_names() -> String {
    COKERNEL_NAMES.iter().map(|(pattern, _)| *pattern).collect::<Vec<_>>().join("|")
}

/// An extended regular expression for a line of a configuration that only real-time kernels have.
pub(in crate::boot) fn realtime_options() -> String {
    let names: Vec<&str> = REALTIME_OPTIONS.iter().map(|(name, _)| *name).collect();
    format!("({})=y", names.join("|"))
}
