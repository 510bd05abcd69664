//! A scenario: a script that runs in each guest of its `# guest:` lines. Lines `# guest, slow:` are
//! more guests, for named scenarios and `--slow`. A line `# slow: why` makes all its guests slow.

use super::VmResult;
use super::guest_options::GuestLine;
use super::places;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A guest of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioGuest {
    /// The text of its line.
    pub words: String,
    pub line: GuestLine,
    /// Whether it runs only on request.
    pub is_slow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    pub name: String,
    pub script: PathBuf,
    pub guests: Vec<ScenarioGuest>,
}

impl Scenario {
    /// Reads a scenario's file.
    pub fn read(script: &Path) -> VmResult<Scenario> {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(script)
            .map_err(|error| format!("cannot read scenario {}: {error}", script.display()))?;
        let guests = parse_guests(&text).map_err(|error| format!("{name}: {error}"))?;
        if guests.is_empty() {
            return Err(format!("scenario {name} has no line '# guest: KERNEL …'").into());
        }
        Ok(Scenario { name, script: script.to_owned(), guests })
    }

    /// Finds a scenario by its name or its path.
    pub fn find(name: &str) -> VmResult<Scenario> {
        let path = Path::new(name);
        let path = if path.is_file() {
            path.to_owned()
        } else {
            places::vm("scenarios").join(format!("{name}.sh"))
        };
        Scenario::read(&path)
    }

    /// All scenarios, by name.
    pub fn all() -> VmResult<Vec<Scenario>> {
        let mut files = fs::read_dir(places::vm("scenarios"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        files.sort();
        files
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "sh"))
            .map(|path| Scenario::read(path))
            .collect()
    }
}

fn parse_guests(text: &str) -> Result<Vec<ScenarioGuest>, String> {
    let all_slow = text.lines().any(|line| line.starts_with("# slow: "));
    let mut guests = Vec::new();
    for line in text.lines() {
        let (words, is_slow) = if let Some(words) = line.strip_prefix("# guest: ") {
            (words, all_slow)
        } else if let Some(words) = line.strip_prefix("# guest, slow: ") {
            (words, true)
        } else {
            continue;
        };
        guests.push(ScenarioGuest {
            words: words.to_owned(),
            line: GuestLine::parse_words(words)?,
            is_slow,
        });
    }
    Ok(guests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_guests_are_recognised() {
        let guests =
            parse_guests("# What it tests.\n# guest: 6.12\n# guest, slow: 6.1-rt\n").unwrap();
        assert_eq!(guests.iter().map(|guest| guest.is_slow).collect::<Vec<_>>(), [false, true]);
        let guests = parse_guests("# slow: five boots\n# guest: 6.12 --grub\n").unwrap();
        assert!(guests[0].is_slow && guests[0].line.options.grub);
    }

    #[test]
    fn every_scenario_of_the_tree_can_be_read() {
        assert!(Scenario::all().unwrap().len() >= 26);
    }
}
