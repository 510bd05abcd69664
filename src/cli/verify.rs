//! `cpushield verify`: watches shielded CPUs and reports whether the shield holds.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::documents::evidence::VerifyDocument;
use crate::failure::Failure;
use crate::report::verdict as report;
use crate::ui::Ui;
use crate::workflow::fix;
use crate::workflow::verdict_check::{self, VerdictSubject};
use crate::workflow::verify_shield::{SurveyWhen, VerifyResult, VerifySession};
use crate::workflow::watch_request::WatchRequest;

/// Watch shielded CPUs and say whether the shield holds
///
/// Without a command, a busy loop runs on the CPUs and reads the clock. A gap between two reads is
/// time taken by something else. The result is unknown if your program ends in the first half of
/// the time, or if the CPU is idle the whole time.
///
/// With --fix, every change becomes part of the active shield, and `cpushield undo` reverts it. If
/// you give a command, it is started again for each verification. The last verification determines
/// the exit code.
///
/// Exit code 0: the shield holds on every CPU or, with limits, all limits hold. Exit code 1: the
/// shield or a limit does not hold, or the result is unknown.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The watch
    #[command(flatten)]
    request: WatchRequest,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield verify", "watch the shield for 10 seconds"),
        ("cpushield verify --for 10m --max-entries 5", "check a limit"),
        ("cpushield verify --cpus 3 -- ./control", "with a program instead of the busy loop"),
        ("cpushield verify --fix", "fix leaks, then verify again"),
    ],
    exit_codes: &[
        ("0", "the shield holds and every limit is met; with --fix: after the last change"),
        (
            "1",
            "the shield leaks, a limit is exceeded, or the result is unknown; the message says \
                 which",
        ),
        USAGE,
        ("3", "failure: no shield, or the CPUs cannot be watched"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be watched, or something does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &VerifyArgs) -> Result<(), Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let VerifyArgs { request, active } = args;
    let session = VerifySession::prepare(&work, request.clone(), active.shield.as_deref())?;
    if request.fix {
        return run_fix(ui, &session);
    }
    let watched = session.watch_and_judge(SurveyWhen::Interrupted)?;
    let VerifyResult { evidence, verdict, recording, known } = watched;
    let document = VerifyDocument::new(evidence, verdict);
    let VerifyDocument { evidence, verdict, .. } = &document;
    show(ui, &document, || report::blocks(evidence, verdict))?;
    session.save(&document)?;
    session.export(recording, evidence, verdict)?;
    let subject = match session.target.own_shield() {
        Some(_) => VerdictSubject::Shield,
        None => VerdictSubject::Cpus,
    };
    verdict_check::check(verdict, subject, || {
        verdict_check::boot_hint(&work, verdict, known.map(|(machine, _)| machine))
    })
}

/// Runs `verify --fix`.
fn run_fix(ui: &Ui, session: &VerifySession<'_>) -> Result<(), Failure> {
    let (fixed, recording) = fix::fix(session)?;
    show(ui, &fixed, || fixed.blocks())?;
    let Some(last) = fixed.rounds.last() else { return Ok(()) };
    session.save(&fixed)?;
    session.export(recording, &last.evidence, &last.verdict)?;
    let (work, verdict) = (session.work, &last.verdict);
    let subject = VerdictSubject::FixedShield;
    verdict_check::check(verdict, subject, || verdict_check::boot_hint(work, verdict, None))
}
