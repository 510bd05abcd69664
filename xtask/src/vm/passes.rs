//! The file of passes: a line for each guest that ended, with the program, the kit and the guest.
//! `vm test --resume` reads it, so a run that takes hours continues after an interruption, and on
//! another machine that has the file. `scripts/test` adds lines about its steps.
//!
//! A line ends as the last line of a run does. A torn line does not, so it counts for nothing.

use super::claims::ClaimCounts;
use super::{VmResult, places};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `$CPUSHIELD_PASSES`, otherwise `passes.txt` in the directory of the build.
pub fn file() -> PathBuf {
    let given = env::var_os("CPUSHIELD_PASSES").map(PathBuf::from);
    given.unwrap_or_else(|| places::target().join("passes.txt"))
}

/// What the file calls a guest of a scenario: program, kit and title.
pub fn key(binary: Option<&Path>, title: &str, script: &Path, words: &str) -> VmResult<String> {
    let binary = binary.map(Path::to_owned).or_else(places::binary).unwrap_or_default();
    let mut command = Command::new(places::vm("kit"));
    let output =
        command.args([binary.as_path(), script]).arg(words).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("vm/kit failed: {}", output.status).into());
    }
    Ok(format!("{} {title}", String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// The last result of each guest.
pub fn read(file: &Path) -> BTreeMap<String, ClaimCounts> {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let results = text.lines().filter_map(|line| {
        let (key, counts) = line.rsplit_once(": ")?;
        Some((key.to_owned(), ClaimCounts::parse(counts)?))
    });
    results.collect()
}

/// Adds the result of a guest. It is on the disk when this returns.
pub fn add(file: &Path, key: &str, counts: ClaimCounts) -> io::Result<()> {
    let torn = fs::read(file).is_ok_and(|text| text.last().is_some_and(|end| *end != b'\n'));
    let begin = if torn { "\n" } else { "" };
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{begin}{key}: {counts}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let file = places::target().join(name);
        let _ = fs::remove_file(&file);
        file
    }

    fn counts(ok: usize, not_ok: usize) -> ClaimCounts {
        ClaimCounts { ok, not_ok, skipped: 2 }
    }

    #[test]
    fn a_torn_line_is_no_pass_and_the_next_line_is() {
        let file = file("torn-passes.txt");
        assert_eq!(read(&file).len(), 0);
        add(&file, "program 1 kit 2 a on 6.12", counts(17, 0)).unwrap();
        let line = fs::read_to_string(&file).unwrap();
        assert_eq!(line, "program 1 kit 2 a on 6.12: 17 passed, 0 failed, 2 skipped\n");
        for end in 0..line.len() - 1 {
            fs::write(&file, &line[..end]).unwrap();
            assert_eq!(read(&file).len(), 0, "{}", &line[..end]);
            add(&file, "b", counts(5, 0)).unwrap();
            assert_eq!(read(&file), BTreeMap::from([("b".to_owned(), counts(5, 0))]));
        }
    }

    #[test]
    fn the_last_result_of_a_guest_counts() {
        let file = file("last-passes.txt");
        for result in [counts(5, 0), counts(4, 1), counts(6, 0)] {
            add(&file, "a", result).unwrap();
            assert_eq!(read(&file)["a"], result);
        }
    }

    #[test]
    fn a_pass_counts_only_for_the_same_program_kit_and_guest() {
        let key = |program: &str, script: &str, line: &str| {
            let program = places::tree().join(program);
            let script = places::vm("scenarios").join(script);
            key(Some(&program), "a guest", &script, line).unwrap()
        };
        let first = key("README.md", "shield.sh", "6.12");
        assert_eq!(key("README.md", "shield.sh", "6.12"), first);
        let [program, kit, line] = [
            key("Cargo.toml", "shield.sh", "6.12"),
            key("README.md", "try.sh", "6.12"),
            key("README.md", "shield.sh", "6.12 --net"),
        ];
        let same = |other: &str| {
            let pairs = first.split(' ').zip(other.split(' '));
            pairs.map(|(a, b)| a == b).collect::<Vec<_>>()
        };
        assert_eq!(same(&program), [true, false, true, true, true, true]);
        assert_eq!(same(&kit), [true, true, true, false, true, true]);
        assert_eq!(same(&line), [true, true, true, false, true, true]);
    }
}
