//! Which kernels that are installed later get the parameters: shell code for the scripts that
//! cpushield writes, with the same names and options as in the survey. Only reads the
//! configurations of kernels.

use crate::boot::kernel_file::read_config;
use crate::boot::line;
use crate::documents::boot::KernelRule;
use crate::survey::{COKERNEL_NAMES, REALTIME_OPTIONS, named_cokernel};
use cpushield_linux::Host;
use cpushield_linux::text::cmdline;

/// The option without which a kernel ignores `nohz_full=`.
const NO_HZ_FULL: &str = "CONFIG_NO_HZ_FULL";

/// Which kernels get the parameters.
#[derive(Debug, Clone, Copy)]
pub struct LaterKernels<'a> {
    rule: &'a KernelRule,
    needs_no_hz_full: bool,
}

impl<'a> LaterKernels<'a> {
    /// The kernels that this rule chooses. If the words have `nohz_full=`, a kernel also needs the
    /// option for it, unless one of the kernels that the rule chooses now gets the words without.
    #[must_use]
    pub fn new(host: &Host, rule: &'a KernelRule, kernels: &[String], words: &[String]) -> Self {
        let is_nohz_full = |word: &String| cmdline::same_name(line::name_of(word), "nohz_full");
        let needs_no_hz_full =
            words.iter().any(is_nohz_full) && kernels.iter().all(|version| passes(host, version));
        LaterKernels { rule, needs_no_hz_full }
    }

    /// The shell function `chosen`, which succeeds if the kernel of version `$1`, whose image is
    /// `$2` where a script knows it, gets the parameters. `of_rule` has the commands for the rule.
    pub(in crate::boot) fn shell_function(
        &self,
        arguments: &str,
        of_rule: impl Fn(&KernelRule) -> String,
    ) -> String {
        let rule = of_rule(self.rule);
        if !self.needs_no_hz_full {
            return format!("chosen() {{ # {arguments}\n    {rule}\n}}\n");
        }
        format!(
            r#"follows_rule() {{ # {arguments}
    {rule}
}}

chosen() {{ # {arguments}
    follows_rule "$@" || return
    # Only kernels with this option have nohz_full=, and few kernels with a co-kernel have it.
    for config in "/usr/lib/modules/$1/config" "/boot/config-$1"; do
        [ -r "$config" ] || continue
        ! grep -qx '{NO_HZ_FULL}=y' "$config" || return 0
        echo "cpushield: $1 gets no parameters: it was built without {NO_HZ_FULL}" >&2
        return 1
    done
    case $1 in ({names})
        echo "cpushield: $1 gets no parameters: no file shows whether it has {NO_HZ_FULL}" >&2
        return 1
        ;;
    esac
}}
"#,
            names = cokernel_names()
        )
    }
}

/// Whether a kernel passes the test for `nohz_full=` in the script.
fn passes(host: &Host, version: &str) -> bool {
    let options = read_config(host, &[version]);
    match options.is_empty() {
        true => named_cokernel(version).is_none(),
        false => options.get(NO_HZ_FULL).is_some_and(|value| value == "y"),
    }
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

#[cfg(test)]
impl<'a> LaterKernels<'a> {
    pub(in crate::boot) fn by_rule(rule: &'a KernelRule, needs_no_hz_full: bool) -> Self {
        LaterKernels { rule, needs_no_hz_full }
    }
}
