//! Reads the kernel parameters of a row of an experiment, for the same machine.

use super::run_experiment::describe_setup;
use super::saved_document::SavedDocument;
use crate::boot::{GivenWords, MeasuredRow, UnknownWords};
use crate::documents::experiment::{Experiment, ExperimentRow, ExperimentSetup};
use crate::documents::machine::Machine;
use crate::experiment::matrix::CPUS;
use crate::failure::Failure;
use crate::policy::RequestedParameter;
use crate::quote::quote_names;
use crate::registry::nearest;
use cpushield_linux::Host;
use std::path::Path;

/// Reads the row of this name with its parameters, from the document of an experiment. `kernels` is
/// the pattern of the user, if there is one.
///
/// # Errors
/// The file is not an experiment, has no such row, or is of another machine; or the row has no
/// parameters.
pub(super) fn read(
    host: &Host,
    machine: &Machine,
    (file, name): (&Path, &str),
    kernels: Option<&str>,
) -> Result<GivenWords, Failure> {
    let experiment = read_experiment(host, file)?;
    let file = file.display().to_string();
    let row = find_row(&experiment, &file, name)?;
    if row.boot.is_empty() {
        return Err(no_parameters(&experiment, &file, row));
    }
    let cpus = row.cpus.to_string();
    let words: Vec<String> = row.boot.iter().map(|word| word.replace(CPUS, &cpus)).collect();
    check_machine(host, machine, &experiment, &file, &words)?;
    let place = format!("row {:?} of {file}", row.name);
    let measured = row.kernel.as_deref().or(experiment.setup.kernel.as_deref());
    let pattern = kernels.or(measured).or(machine.kernel.release.as_deref());
    let missing = row.missing.as_ref().map(ToString::to_string);
    Ok(GivenWords {
        parameters: words
            .into_iter()
            .map(|word| RequestedParameter { word, place: place.clone() })
            .collect(),
        kernels: pattern.unwrap_or_default().to_owned(),
        unknown: UnknownWords::Accept,
        cpus: row.cpus.clone(),
        row: Some(MeasuredRow { name: row.name.clone(), file, missing }),
    })
}

fn read_experiment(host: &Host, file: &Path) -> Result<Experiment, Failure> {
    match SavedDocument::read_for(&host.user_files(), file, &["experiment --json"])? {
        SavedDocument::Experiment(experiment) => Ok(*experiment),
        other => Err(other
            .is_not(file.display(), "an experiment")
            .hint("write one: cpushield experiment FILE -o RESULT")),
    }
}

fn find_row<'a>(
    experiment: &'a Experiment,
    file: &str,
    name: &str,
) -> Result<&'a ExperimentRow, Failure> {
    if let Some(row) = experiment.rows.iter().find(|row| row.name == name) {
        return Ok(row);
    }
    let known: Vec<&str> = experiment.rows.iter().map(|row| row.name.as_str()).collect();
    let failure = Failure::usage(format!("{file} has no row {name:?}"));
    let near = nearest(name, &known);
    let failure = match near.first() {
        Some(near) => failure.hint(format!("did you mean {near:?}?")),
        None => failure,
    };
    Err(failure.hint(format!("its rows: {}", quote_names(&known))))
}

fn no_parameters(experiment: &Experiment, file: &str, row: &ExperimentRow) -> Failure {
    let name = &row.name;
    let with: Vec<&str> = experiment
        .rows
        .iter()
        .filter(|row| !row.boot.is_empty())
        .map(|row| row.name.as_str())
        .collect();
    let message =
        format!("row {name:?} of {file} has no kernel parameters, so nothing was written");
    let failure = Failure::usage(message);
    match with.is_empty() {
        true => failure,
        false => failure.hint(format!("rows with parameters: {}", quote_names(&with))),
    }
}

/// CPU numbers and the words of vendors mean something else on another machine.
fn check_machine(
    host: &Host,
    machine: &Machine,
    experiment: &Experiment,
    file: &str,
    words: &[String],
) -> Result<(), Failure> {
    let here = describe_setup(host, machine, &[]);
    let ExperimentSetup { machine: there, board, processor, .. } = &experiment.setup;
    let pairs = [
        ("machine", there, &here.machine),
        ("board", board, &here.board),
        ("processor", processor, &here.processor),
    ];
    let differs = pairs.iter().find_map(|(what, there, here)| {
        let (there, here) = (there.as_deref()?, here.as_deref()?);
        (there != here).then(|| format!("the {what} was {there:?}, but here it is {here:?}"))
    });
    let present = machine.topology.present.union(&machine.topology.online);
    let absent = experiment.cpus.difference(&present);
    let absent = (!absent.is_empty()).then(|| format!("this machine has no CPU {absent}"));
    let Some(why) = differs.or(absent) else { return Ok(()) };
    Err(Failure::usage(format!("{file} was measured on another machine: {why}"))
        .hint("measure on this machine: cpushield experiment FILE --reboot")
        .hint(format!(
            "or choose parameters for this machine: cpushield boot plan --cpus LIST (the row has {})",
            words.join(" ")
        )))
}
