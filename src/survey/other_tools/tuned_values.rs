//! Values of options in tuned's profiles: variables and the functions that only compute CPU lists
//! (`Variables` in tuned/profiles/variables.py and tuned/profiles/functions/, 2.20). Functions that
//! start programs or read other files are not computed. Reads no file.

use super::UnknownValue;
use crate::survey::Topology;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// The length at which a value is given up: each variable may use another one twice.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The variables of a profile, with the CPUs that functions are about.
#[derive(Debug)]
pub(super) struct ProfileVariables<'a> {
    topology: &'a Topology,
    known: BTreeMap<String, Result<String, UnknownValue>>,
}

impl<'a> ProfileVariables<'a> {
    pub(super) fn new(topology: &'a Topology) -> ProfileVariables<'a> {
        ProfileVariables { topology, known: BTreeMap::new() }
    }

    /// Defines a variable. Variables in its value are expanded now.
    pub(super) fn define(&mut self, name: &str, value: &str) {
        let value = self.expand(value);
        self.known.insert(name.to_owned(), value);
    }

    /// The value of an option whose variables must all have a value.
    pub(super) fn value(&self, text: &str) -> Result<String, UnknownValue> {
        let value = self.expand(text)?;
        let rest = value.split_once("${").map(|(_, rest)| rest);
        match rest.and_then(|rest| rest.split_once('}')) {
            Some((name, _)) => Err(UnknownValue::Variable { name: shorten(name) }),
            None => Ok(value),
        }
    }

    /// The CPUs of an option.
    pub(super) fn cpus(&self, text: &str) -> Result<CpuSet, UnknownValue> {
        parse_cpus(&self.value(text)?)
    }

    /// Replaces variables, and then functions. A variable without a value stays as it is.
    fn expand(&self, text: &str) -> Result<String, UnknownValue> {
        self.call_functions(&self.replace_variables(text)?)
    }

    fn replace_variables(&self, text: &str) -> Result<String, UnknownValue> {
        let (mut value, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            value.push_str(before);
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let name = after.split_once('}').map(|(name, _)| name);
            let name = name.filter(|name| !name.is_empty() && name.chars().all(is_name));
            let escaped = value.ends_with('\\');
            match (name, name.and_then(|name| self.known.get(name))) {
                (Some(_), _) if escaped => {
                    value.pop();
                    value.push_str("${");
                    rest = after;
                }
                (Some(name), Some(known)) => {
                    value.push_str(known.as_ref().map_err(Clone::clone)?);
                    rest = after.get(name.len() + 1..).unwrap_or_default();
                }
                _ => {
                    value.push_str("${");
                    rest = after;
                }
            }
            if value.len() > VALUE_BYTES_MAX {
                return Err(UnknownValue::TooLong);
            }
        }
        value.push_str(rest);
        Ok(value)
    }

    /// Replaces the calls `${f:NAME:ARGUMENT:…}`, inner ones first.
    fn call_functions(&self, text: &str) -> Result<String, UnknownValue> {
        let (mut opened, mut value, mut rest) = (Vec::new(), String::new(), text);
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("${") {
                opened.push(value);
                value = "${".to_owned();
                rest = after;
                continue;
            }
            value.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            if c != '}' {
                continue;
            }
            let Some(outer) = opened.pop() else { continue };
            let body = value.strip_prefix("${f:").and_then(|body| body.strip_suffix('}'));
            let result = match body.filter(|_| !outer.ends_with('\\')) {
                Some(body) => self.call(body)?,
                None => value,
            };
            value = outer + &result;
            if value.len() > VALUE_BYTES_MAX {
                return Err(UnknownValue::TooLong);
            }
        }
        while let Some(outer) = opened.pop() {
            value = outer + &value;
        }
        Ok(value)
    }

    /// Calls a function: `NAME:ARGUMENT:…`.
    fn call(&self, body: &str) -> Result<String, UnknownValue> {
        let mut parts = split_arguments(body).into_iter();
        let name = parts.next().unwrap_or_default();
        let arguments: Vec<String> = parts.collect();
        let cpus = || parse_cpus(&arguments.join(",,"));
        let topology = self.topology;
        let unknown = || UnknownValue::Function { name: shorten(&name) };
        Ok(match name.as_str() {
            "cpulist_unpack" | "cpulist_pack" | "hex2cpulist" => cpus()?.to_string(),
            "cpulist_invert" => topology.online.difference(&cpus()?).to_string(),
            "cpulist_online" => topology.online.intersection(&cpus()?).to_string(),
            "cpulist_present" => topology.present.intersection(&cpus()?).to_string(),
            "cpulist2hex" => cpus()?.to_mask(),
            "cpulist2hex_invert" => topology.online.difference(&cpus()?).to_mask(),
            "calc_isolated_cores" => {
                let reserved = match arguments.first() {
                    None => 1,
                    Some(text) => text.parse().map_err(|_| unknown())?,
                };
                calculate_isolated(topology, reserved).to_string()
            }
            "strip" => arguments.concat().trim().to_owned(),
            "regex_search_ternary" => match arguments.as_slice() {
                [text, pattern, yes, no] => {
                    let found = matches_pattern(text, pattern).ok_or_else(unknown)?;
                    if found { yes.clone() } else { no.clone() }
                }
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        })
    }
}

/// All CPUs but the first ones of each package (function_calc_isolated_cores.py, 2.20).
fn calculate_isolated(topology: &Topology, reserved: usize) -> CpuSet {
    let mut used: BTreeMap<i64, usize> = BTreeMap::new();
    let with_package = topology.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.package?)));
    let isolated = with_package.filter(|(_, package)| {
        let used = used.entry(*package).or_default();
        *used += 1;
        *used > reserved
    });
    isolated.map(|(cpu, _)| cpu).collect()
}

/// Splits at each colon that no backslash escapes.
fn split_arguments(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in text.chars() {
        let Some(part) = parts.last_mut() else { break };
        match c {
            ':' if part.ends_with('\\') => {
                part.pop();
                part.push(c);
            }
            ':' => parts.push(String::new()),
            c => part.push(c),
        }
    }
    parts
}

/// Whether a text has a match of one of the two patterns that tuned's own profiles use; `None` for
/// other patterns.
fn matches_pattern(text: &str, pattern: &str) -> Option<bool> {
    match pattern {
        // cpu-partitioning: a digit.
        r"\s*[0-9]" => Some(text.contains(|c: char| c.is_ascii_digit())),
        // realtime: a letter of yes, or 1, that is a word.
        r"\b[y,Y,1,t,T]\b" => {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let chars: Vec<char> = text.chars().collect();
            Some(chars.iter().enumerate().any(|(at, c)| {
                let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
                let after = chars.get(at + 1).copied();
                let own = is_word(Some(*c));
                "y,Y1tT".contains(*c) && is_word(before) != own && is_word(after) != own
            }))
        }
        _ => None,
    }
}

/// A CPU list of tuned: numbers and ranges, `^` before those that are taken out, and masks with
/// `0x` in front that end at an empty element (`cpulist_unpack()` in tuned/utils/commands.py,
/// 2.20).
fn parse_cpus(text: &str) -> Result<CpuSet, UnknownValue> {
    let wrong = || UnknownValue::NotCpus { text: shorten(text) };
    let (mut cpus, mut left_out) = (CpuSet::new(), CpuSet::new());
    let mut mask: Option<String> = None;
    for part in text.trim().trim_matches(['\'', '"']).split(',').map(str::trim) {
        if let Some(digits) = mask.take() {
            match part {
                "" => cpus = cpus.union(&CpuSet::parse_mask(&digits).map_err(|_| wrong())?),
                part => mask = Some(format!("{digits},{part}")),
            }
        } else if part.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x")) {
            mask = Some(part.to_owned());
        } else if let Some(part) = part.strip_prefix(['^', '!']) {
            left_out = left_out.union(&CpuSet::parse_list(part, None).map_err(|_| wrong())?);
        } else {
            cpus = cpus.union(&CpuSet::parse_list(part, None).map_err(|_| wrong())?);
        }
    }
    if let Some(digits) = mask {
        cpus = cpus.union(&CpuSet::parse_mask(&digits).map_err(|_| wrong())?);
    }
    Ok(cpus.difference(&left_out))
}

fn shorten(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Cpu;
    use proptest::prelude::*;

    /// Two packages: CPUs 0-3 and 4-7.
    fn topology() -> Topology {
        let cpus =
            (0..8).map(|cpu| Cpu { cpu, package: Some(i64::from(cpu >= 4)), ..Cpu::default() });
        Topology {
            online: (0..8).collect(),
            present: (0..10).collect(),
            cpus: cpus.collect(),
            ..Topology::default()
        }
    }

    #[test]
    fn the_variables_of_cpu_partitioning_have_the_values_of_tuned_2_20() {
        let topology = topology();
        let mut variables = ProfileVariables::new(&topology);
        for (name, value) in [
            ("isolated_cores", "${f:calc_isolated_cores:1}"),
            ("isolated_cores_assert_check", r"\\${isolated_cores}"),
            ("isolated_cores", "${isolated_cores}"),
            ("assert1", "${f:assertion_non_equal:x:${isolated_cores}:y}"),
            ("expanded", "${f:cpulist_unpack:${isolated_cores}}"),
            ("not_isolated", "${f:cpulist2hex:${f:cpulist_invert:${expanded}}}"),
            ("no_balance_cores", "${no_balance_cores}"),
            (
                "isolcpus",
                r"${f:regex_search_ternary:${no_balance_cores}:\s*[0-9]: isolcpus=${no_balance_cores}:}",
            ),
            ("managed", r"${f:regex_search_ternary:Y:\b[y,Y,1,t,T]\b:managed_irq,domain,:}"),
            ("tmpdir", "${f:strip:${f:exec:mktemp:-d}}"),
        ] {
            variables.define(name, value);
        }
        let value = |text: &str| variables.value(text);
        assert_eq!(variables.cpus("${isolated_cores}"), Ok("1-3,5-7".parse().unwrap()));
        assert_eq!(value("${not_isolated}"), Ok("11".to_owned()));
        assert_eq!(value("+nohz=on${isolcpus} x"), Ok("+nohz=on x".to_owned()));
        assert_eq!(value("isolcpus=${managed}3"), Ok("isolcpus=managed_irq,domain,3".to_owned()));
        let function = |name: &str| Err(UnknownValue::Function { name: name.to_owned() });
        assert_eq!(value("${tmpdir}"), function("exec"));
        assert_eq!(value("${assert1}"), function("assertion_non_equal"));
        let missing = Err(UnknownValue::Variable { name: "netdev".to_owned() });
        assert_eq!(value("a ${netdev}"), missing);
    }

    #[test]
    fn lists_have_masks_and_exceptions() {
        for (text, cpus) in [
            ("2,4-7", Ok("2,4-7")),
            ("0-7,^3", Ok("0-2,4-7")),
            ("0xff,!0-3", Err(())),
            ("0xf0,,1", Ok("1,4-7")),
            ("0x1,00000000", Ok("32")),
            ("\"2-3\"", Ok("2-3")),
            ("", Ok("")),
            ("two", Err(())),
            ("99999999", Err(())),
        ] {
            let found = parse_cpus(text).map(|cpus| cpus.to_string()).map_err(|_| ());
            assert_eq!(found, cpus.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn variables_that_double_each_other_are_given_up() {
        let topology = topology();
        let mut variables = ProfileVariables::new(&topology);
        variables.define("a", "0123456789");
        for _ in 0..200 {
            variables.define("a", "${a}${a}");
        }
        assert_eq!(variables.value("${a}"), Err(UnknownValue::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-c0-9:,^{}$\\\\f_x-]{0,60}", body in ".{0,30}") {
            let topology = topology();
            let mut variables = ProfileVariables::new(&topology);
            variables.define("a", &text);
            let _ = variables.value(&text);
            let _ = variables.cpus(&format!("${{a}}{body}"));
            let _ = variables.value(&format!("${{f:cpulist_invert:{body}}}"));
        }
    }
}
