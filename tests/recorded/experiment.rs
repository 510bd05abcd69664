//! An experiment on a simulated machine: after a kill or a power failure before or after every
//! action, and at every write to the disk, it reaches the same end.

use crate::empty_latency::latency;
use crate::simulated_experiment::{Dead, ScratchStore};
use cpushield::experiment::journal::{
    BootState, ExperimentJournal, ExperimentPhase, ExperimentStore, StepEnd,
};
use cpushield::experiment::{
    BootMismatch, ExperimentEnd, ExperimentMachine, MachineTrouble, Matrix, MeasurementStep,
    RebootPermission, RowBoot, RowCpus, Schedule, UnmeasuredReason, make_schedule, run_remaining,
    stop,
};
use cpushield::latency::LatencyMeasurement;
use cpushield_linux::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

const MATRIX: &str = r#"
repeats = 2
[[row]]
name = "base"
[[row]]
name = "shield"
shield = true
[[row]]
name = "nohz"
boot = ["nohz_full=3"]
[[row]]
name = "hlt"
boot = ["nohlt"]
[[row]]
name = "other kernel"
kernel = "6.1"
[[column]]
name = "timer"
instrument = "timer"
"#;

/// How the program is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Kill,
    Power,
}

/// The machine: what survives a kill of the program.
#[derive(Debug, Default)]
struct World {
    boot: u32,
    /// The experiment's parameters that the kernel runs with.
    running: RowBoot,
    /// Boot files as the experiment left them, and their one-shot entry.
    files: Option<RowBoot>,
    once: bool,
    unit: bool,
    shield: bool,
    reboots: u32,
    /// How often the next reboot is refused, after this number of reboots.
    refusals: u32,
    refuses_after: u32,
    /// Parameters with which it hangs, and parameters that the loader does not pass.
    hangs: Option<String>,
    ignored: Option<String>,
    /// What was measured: the row and what the kernel ran with.
    seen: Vec<(MeasurementStep, RowBoot)>,
    /// The kind and the number of the boot of each measurement.
    seen_in: Vec<(usize, u32)>,
}

impl World {
    fn power_on(&mut self) {
        self.boot += 1;
        self.shield = false;
        let boot = self.files.clone().filter(|_| self.once).unwrap_or_default();
        self.once = false;
        let hangs = self.hangs.as_ref().is_some_and(|word| boot.parameters.contains(word));
        // The machine is reset, and the old entry boots.
        self.running = if hangs { RowBoot::default() } else { boot };
        self.running.parameters.retain(|word| self.ignored.as_ref() != Some(word));
    }
}

/// The machine as the program sees it, until it is interrupted.
struct Sim<'a> {
    world: &'a mut World,
    /// The number of actions before the interruption; each has a before and an after.
    left: Option<u32>,
    /// The number of measurements before a signal comes.
    stop: Option<u32>,
}

impl Sim<'_> {
    fn tick(&mut self) -> Result<(), Dead> {
        match &mut self.left {
            Some(0) => Err(Dead::Cut),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn act(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Dead> {
        self.tick()?;
        act(self.world);
        self.tick()
    }
}

impl ExperimentMachine for Sim<'_> {
    type Error = Dead;
    type Measured = LatencyMeasurement;

    fn read_boot_id(&self) -> Result<String, Dead> {
        Ok(self.world.boot.to_string())
    }

    fn undo_shield(&mut self) -> Result<(), Dead> {
        self.act(|world| world.shield = false)
    }

    fn find_boot_mismatch(&mut self, boot: &RowBoot) -> Result<Option<BootMismatch>, Dead> {
        let RowBoot { kernel, parameters } = &self.world.running;
        if *kernel != boot.kernel {
            let release = kernel.clone().unwrap_or_else(|| "the original".to_owned());
            return Ok(Some(BootMismatch::OtherKernel { release }));
        }
        let absent = boot.parameters.iter().filter(|parameter| !parameters.contains(parameter));
        let absent: Vec<String> = absent.cloned().collect();
        if !absent.is_empty() {
            return Ok(Some(BootMismatch::Absent { parameters: absent }));
        }
        let differs = *parameters != boot.parameters;
        Ok(differs.then(|| BootMismatch::Added { parameters: parameters.clone() }))
    }

    fn enable_resume_at_boot(&mut self) -> Result<(), Dead> {
        self.act(|world| world.unit = true)
    }

    fn disable_resume_at_boot(&mut self) -> Result<(), Dead> {
        self.act(|world| world.unit = false)
    }

    fn prepare_boot(&mut self, boot: &RowBoot) -> Result<(), MachineTrouble<Dead>> {
        assert_eq!(self.world.files, None, "the experiment's files would be overwritten");
        assert!(self.world.unit, "nothing would resume after the boot");
        self.act(|world| world.files = Some(boot.clone()))?;
        Ok(self.act(|world| world.once = true)?)
    }

    fn restore_boot_files(&mut self) -> Result<(), Dead> {
        self.act(|world| world.once = false)?;
        self.act(|world| world.files = None)
    }

    fn reboot(&mut self) -> Result<(), Dead> {
        if self.world.refusals > 0 && self.world.reboots >= self.world.refuses_after {
            self.world.refusals -= 1;
            return Err(Dead::Cut);
        }
        self.act(|world| {
            world.reboots += 1;
            world.power_on();
        })
    }

    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<LatencyMeasurement, MachineTrouble<Dead>> {
        if self.stop == Some(0) {
            return Err(MachineTrouble::Stopped);
        }
        self.stop = self.stop.map(|left| left - 1);
        self.act(|world| world.shield = true)?;
        let running = self.world.running.clone();
        self.world.seen.push((*step, running));
        self.world.seen_in.push((step.boot, self.world.boot));
        self.act(|world| world.shield = false)?;
        Ok(latency())
    }
}

/// The CPUs of the four rows.
fn row_cpus() -> Vec<RowCpus> {
    vec![RowCpus { shielded: CpuSet::single(3), measured: CpuSet::single(3) }; 4]
}

fn begin(store: &ExperimentStore) -> Schedule {
    let matrix = Matrix::parse(MATRIX, "m.toml").unwrap();
    store.clear(64).unwrap();
    store
        .save(&ExperimentJournal::new("m.toml".to_owned(), MATRIX.to_owned(), row_cpus(), 1))
        .unwrap();
    make_schedule(&matrix, RebootPermission::Granted)
}

/// Calls the experiment repeatedly, as the unit does after each boot, until it ends.
fn to_the_end(
    world: &mut World,
    store: &ExperimentStore,
    schedule: &Schedule,
) -> (ExperimentEnd, ExperimentJournal) {
    for _ in 0..40 {
        let mut journal = store.load().unwrap().unwrap();
        let mut sim = Sim { world, left: None, stop: None };
        match run_remaining(&mut sim, store, &mut journal, schedule).unwrap() {
            ExperimentEnd::Rebooting => {}
            ended => return (ended, journal),
        }
    }
    panic!("it never ends");
}

fn missing(journal: &ExperimentJournal) -> BTreeMap<usize, UnmeasuredReason> {
    let why = |(n, end): (&usize, &StepEnd)| match end {
        StepEnd::Missing { why } => Some((*n, why.clone())),
        StepEnd::Measured { .. } => None,
    };
    journal.ends.iter().filter_map(why).collect()
}

/// The machine is as it was, and each row was measured under its own configuration.
fn is_as_it_was(world: &World, schedule: &Schedule) -> Result<(), String> {
    let wrong =
        |(step, running): &&(MeasurementStep, RowBoot)| schedule.boots[step.boot] != *running;
    if let Some(wrong) = world.seen.iter().find(wrong) {
        return Err(format!("measured in the wrong boot: {wrong:?}"));
    }
    let clean = world.running.is_original() && world.files.is_none() && !world.once;
    if clean && !world.unit && !world.shield { Ok(()) } else { Err(format!("{world:?}")) }
}

#[test]
fn an_experiment_measures_everything_and_ends_in_the_original_state() {
    let scratch = ScratchStore::new("experiment-plain");
    let store = scratch.store();
    let schedule = begin(&store);
    let mut world = World::default();
    let (ended, journal) = to_the_end(&mut world, &store, &schedule);
    assert_eq!((ended, journal.phase), (ExperimentEnd::Finished, ExperimentPhase::Finished));
    assert_eq!(missing(&journal), BTreeMap::new());
    let seen: Vec<MeasurementStep> = world.seen.iter().map(|(step, _)| *step).collect();
    assert_eq!(seen, schedule.steps);
    assert_eq!(world.reboots as usize, schedule.reboots());
    is_as_it_was(&world, &schedule).unwrap();
    let first = ExperimentStore::measurement_file(0);
    assert_eq!(store.load_measurement::<LatencyMeasurement>(&first).unwrap(), latency());
}

#[test]
fn every_visit_to_a_kind_of_boot_is_a_boot_of_its_own() {
    // With rows of each boot, and with rows of one kind only.
    let one_kind = "repeats = 3\n[[row]]\nname = \"hlt\"\nboot = [\"nohlt\"]\n\
                    [[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";
    for (text, kinds, boots) in [(MATRIX, 4, 2), (one_kind, 1, 3)] {
        let scratch = ScratchStore::new("experiment-visits");
        let store = scratch.store();
        begin(&store);
        let journal = ExperimentJournal::new("m.toml".to_owned(), text.to_owned(), row_cpus(), 1);
        store.save(&journal).unwrap();
        let matrix = Matrix::parse(text, "m.toml").unwrap();
        let schedule = make_schedule(&matrix, RebootPermission::Granted);
        let mut world = World::default();
        let (ended, _) = to_the_end(&mut world, &store, &schedule);
        assert_eq!(ended, ExperimentEnd::Finished);
        let seen: BTreeSet<(usize, u32)> = world.seen_in.iter().copied().collect();
        assert_eq!(seen.len(), kinds * boots, "{seen:?}");
        assert_eq!(world.reboots as usize, schedule.reboots());
        is_as_it_was(&world, &schedule).unwrap();
    }
}

/// Interrupts the experiment at its n-th action, or its n-th write; `None` if there is none.
fn cut(
    scratch: &ScratchStore,
    act: Option<u32>,
    write: Option<usize>,
    how: Cut,
) -> Option<(World, ExperimentJournal)> {
    let store = scratch.store();
    let schedule = begin(&store);
    let mut world = World::default();
    let mut left = act;
    let mut frail = write.map_or(store.clone(), |n| store.clone().with_room_for(n));
    let was_cut = loop {
        let mut journal = store.load().unwrap().unwrap();
        let mut sim = Sim { world: &mut world, left, stop: None };
        let ended = run_remaining(&mut sim, &frail, &mut journal, &schedule);
        left = sim.left;
        match ended {
            Ok(ExperimentEnd::Rebooting) => {}
            Ok(ExperimentEnd::Finished) => break false,
            Ok(ended) => panic!("{ended:?}"),
            Err(_) => break true,
        }
    };
    if !was_cut {
        return None;
    }
    if how == Cut::Power {
        world.power_on();
    }
    frail = store.clone();
    let (ended, journal) = to_the_end(&mut world, &frail, &schedule);
    assert_eq!(ended, ExperimentEnd::Finished);
    is_as_it_was(&world, &schedule)
        .unwrap_or_else(|why| panic!("{act:?} {write:?} {how:?}: {why}"));
    assert_eq!(journal.ends.len(), schedule.steps.len());
    Some((world, journal))
}

#[test]
fn an_experiment_cut_off_anywhere_resumes_and_loses_nothing() {
    let scratch = ScratchStore::new("experiment-cut");
    let mut cuts = 0;
    for how in [Cut::Kill, Cut::Power] {
        for act in 0.. {
            let Some((world, journal)) = cut(&scratch, Some(act), None, how) else { break };
            assert_eq!(missing(&journal), BTreeMap::new(), "act {act} {how:?}");
            assert!(world.reboots <= 9, "act {act} {how:?}: {}", world.reboots);
            cuts += 1;
        }
        for write in 0.. {
            let Some((_, journal)) = cut(&scratch, None, Some(write), how) else { break };
            assert_eq!(missing(&journal), BTreeMap::new(), "write {write} {how:?}");
            cuts += 1;
        }
    }
    assert!(cuts > 200, "{cuts}");
}

#[test]
fn a_boot_that_hangs_or_has_wrong_parameters_loses_only_its_own_rows() {
    let hang = World { hangs: Some("nohz_full=3".to_owned()), ..World::default() };
    let ignored = World { ignored: Some("nohlt".to_owned()), ..World::default() };
    for (mut world, row, more) in [(hang, 2, 0), (ignored, 3, 1)] {
        let scratch = ScratchStore::new("experiment-hang");
        let store = scratch.store();
        let schedule = begin(&store);
        let (ended, journal) = to_the_end(&mut world, &store, &schedule);
        assert_eq!(ended, ExperimentEnd::Finished);
        is_as_it_was(&world, &schedule).unwrap();
        let lost = missing(&journal);
        assert!(
            lost.values().all(|why| matches!(why, UnmeasuredReason::DidNotComeUp { .. })),
            "{lost:?}"
        );
        let rows: Vec<usize> = lost.keys().map(|n| schedule.steps[*n].row).collect();
        assert_eq!(rows, [row; 2]);
        let reboots = world.reboots as usize;
        assert!(reboots <= schedule.reboots() + more, "{reboots}");
    }
}

#[test]
fn a_row_that_crashes_the_machine_is_given_up() {
    let scratch = ScratchStore::new("experiment-down");
    let store = scratch.store();
    let schedule = begin(&store);
    let mut world = World::default();
    let mut downs = 0;
    let journal = loop {
        let mut journal = store.load().unwrap().unwrap();
        let open = (0..schedule.steps.len()).find(|n| !journal.ends.contains_key(n));
        let is_bad = |n: usize| schedule.steps[n].row == 2;
        let in_boot = world.running.parameters == ["nohz_full=3"];
        // The power fails as soon as the third row is measured.
        let left = (open.is_some_and(is_bad) && in_boot).then_some(3);
        let mut sim = Sim { world: &mut world, left, stop: None };
        match run_remaining(&mut sim, &store, &mut journal, &schedule) {
            Ok(ExperimentEnd::Rebooting) => {}
            Ok(ended) => {
                assert_eq!(ended, ExperimentEnd::Finished);
                break journal;
            }
            Err(_) => {
                downs += 1;
                assert!(downs < 10);
                world.power_on();
            }
        }
    };
    assert_eq!(downs, 2);
    let lost = missing(&journal);
    assert_eq!(lost.len(), 2, "{lost:?}");
    let went_down = UnmeasuredReason::WentDownAfterBoot { times: 2 };
    assert!(lost.values().all(|why| *why == went_down), "{lost:?}");
    is_as_it_was(&world, &schedule).unwrap();
}

#[test]
fn a_reboot_that_the_machine_refuses_is_no_try() {
    let scratch = ScratchStore::new("experiment-refused");
    let store = scratch.store();
    let reboots = u32::try_from(begin(&store).reboots()).unwrap();
    // The last one is the way back to the original boot.
    for refuses_after in 0..reboots {
        let schedule = begin(&store);
        let mut world = World { refusals: 3, refuses_after, ..World::default() };
        for _ in 0..3 {
            let mut journal = store.load().unwrap().unwrap();
            let mut sim = Sim { world: &mut world, left: None, stop: None };
            while run_remaining(&mut sim, &store, &mut journal, &schedule).is_ok() {}
        }
        assert_eq!(world.refusals, 0);
        let (ended, journal) = to_the_end(&mut world, &store, &schedule);
        assert_eq!(ended, ExperimentEnd::Finished, "{refuses_after}");
        assert_eq!(missing(&journal), BTreeMap::new(), "{refuses_after}");
        assert_eq!(world.reboots, reboots);
        is_as_it_was(&world, &schedule).unwrap();
    }
}

#[test]
fn a_stopped_experiment_resumes_later_or_ends_with_everything_restored() {
    let scratch = ScratchStore::new("experiment-stop");
    let store = scratch.store();
    for stops in 0..8 {
        let schedule = begin(&store);
        let mut world = World::default();
        let mut left = Some(stops);
        loop {
            let mut journal = store.load().unwrap().unwrap();
            let mut sim = Sim { world: &mut world, left: None, stop: left };
            let ended = run_remaining(&mut sim, &store, &mut journal, &schedule).unwrap();
            left = sim.stop;
            match ended {
                ExperimentEnd::Rebooting => {}
                ended => {
                    assert_eq!(ended, ExperimentEnd::Interrupted);
                    break;
                }
            }
        }
        let mut journal = store.load().unwrap().unwrap();
        let mut sim = Sim { world: &mut world, left: None, stop: None };
        let away = stop(&mut sim, &store, &mut journal, 2).unwrap();
        assert_eq!(away, !world.running.is_original(), "{stops}");
        world.power_on();
        is_as_it_was(&world, &schedule).unwrap();
        assert_eq!(store.load().unwrap().unwrap().phase, ExperimentPhase::Stopped);
        assert_eq!(journal.ends.len(), stops as usize);
    }
}

#[test]
fn a_machine_booted_with_other_parameters_in_between_is_not_measured() {
    let scratch = ScratchStore::new("experiment-otherwise");
    let store = scratch.store();
    let schedule = begin(&store);
    let single = vec!["single".to_owned()];
    let other_words = RowBoot { parameters: single.clone(), ..RowBoot::default() };
    let other_kernel = RowBoot { kernel: Some("5.4".to_owned()), ..RowBoot::default() };
    for (running, mismatch) in [
        (other_words, BootMismatch::Added { parameters: single }),
        (other_kernel, BootMismatch::OtherKernel { release: "5.4".to_owned() }),
    ] {
        let mut world = World { boot: 4, running, ..World::default() };
        let (ended, journal) = to_the_end(&mut world, &store, &schedule);
        assert_eq!(ended, ExperimentEnd::Elsewhere(mismatch));
        assert_eq!(
            (journal.boot_state, journal.ends.len(), world.seen.len()),
            (BootState::Original, 0, 0)
        );
    }
}

#[test]
fn a_torn_journal_is_never_resumed() {
    let scratch = ScratchStore::new("experiment-torn");
    let store = scratch.store();
    begin(&store);
    let path = scratch.0.join(cpushield::experiment::journal::DIR).join("journal.json");
    let whole = std::fs::read(&path).unwrap();
    let mut journals = 0;
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        journals += usize::from(store.load().is_ok());
    }
    // Only the line end may be missing.
    assert_eq!(journals, 1);
}
