//! A search on a simulated machine with a planted cause: it finds the least set, with a noisy
//! measurement, and after a kill or a power failure anywhere.

mod simulated;

use crate::screen;
use crate::simulated_experiment::ScratchStore;
use cpushield::experiment::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore};
use cpushield::experiment::search::{
    GoalDecision, OptionSearch, OptionState, SearchEnd, SearchGoal, SearchOption, SearchRequest,
    collect_search, plan_trials, run_search,
};
use cpushield::experiment::{
    ExperimentEnd, ExperimentRow, Matrix, RebootPermission, RowCpus, stop,
};
use cpushield::report::option_search;
use cpushield_linux::CpuSet;
use simulated::{Random, Sim, Truth, World};
use std::collections::BTreeSet;

const MATRIX: &str = r#"
[[row]]
name = "everything"
shield = true
[[column]]
name = "timer"
instrument = "timer"
"#;

/// The tunables that the searches vary.
const TUNABLES: [&str; 10] = [
    "irqbalance",
    "fair-server",
    "cpuset",
    "kthreads",
    "irq-affinity",
    "workqueues",
    "thp",
    "watchdog",
    "vm-stat-interval",
    "timer-migration",
];

fn base() -> ExperimentRow {
    let mut row = Matrix::parse(MATRIX, "m.toml").unwrap().rows.remove(0);
    row.tunables.clear();
    row
}

/// Starts from every tunable on, and these words.
fn minimize(words: &[&str]) -> SearchRequest {
    let words = words.iter().map(|word| SearchOption::Parameter { word: (*word).to_owned() });
    let tunables = TUNABLES.iter();
    let tunables = tunables.map(|name| SearchOption::Tunable { name: (*name).to_owned() });
    SearchRequest {
        row: "everything".to_owned(),
        goal: SearchGoal::MaxLatency { ns: 20_000 },
        base: base(),
        options: words.chain(tunables).collect(),
        forced: TUNABLES.iter().map(|name| ((*name).to_owned(), true)).collect(),
        shield_stays: false,
        fixed: Vec::new(),
    }
}

fn begin(store: &ExperimentStore, request: &SearchRequest) {
    store.clear(2_000).unwrap();
    let cpus = CpuSet::single(3);
    let row_cpus = vec![RowCpus { shielded: cpus.clone(), measured: cpus }];
    let journal = ExperimentJournal::new("m.toml".to_owned(), MATRIX.to_owned(), row_cpus, 1);
    let (search, reboot) = (Some(request.clone()), RebootPermission::Granted);
    store.save(&ExperimentJournal { search, reboot, ..journal }).unwrap();
}

fn result(store: &ExperimentStore) -> OptionSearch {
    let journal = store.load().unwrap().unwrap();
    let (matrix, request) = (journal.parse_matrix().unwrap(), journal.search.clone().unwrap());
    let plan = plan_trials(&request, 1, &journal, store, &mut Vec::new());
    collect_search(&request, &matrix, &journal, &plan)
}

/// Calls the search repeatedly, as the unit does after each boot, until it ends.
fn to_the_end(world: &mut World, store: &ExperimentStore) -> OptionSearch {
    for _ in 0..200 {
        let mut journal = store.load().unwrap().unwrap();
        let request = journal.search.clone().unwrap();
        let mut sim = Sim::new(world, None);
        match run_search(&mut sim, store, &mut journal, &request, 1).unwrap() {
            ExperimentEnd::Rebooting => {}
            ended => {
                assert_eq!(ended, ExperimentEnd::Finished);
                assert_eq!(journal.phase, ExperimentPhase::Finished);
                let clean = world.running.is_original() && world.files.is_none() && !world.once;
                assert!(clean && !world.unit && !world.shield, "{world:?}");
                return result(store);
            }
        }
    }
    panic!("it never ends");
}

fn search(name: &str, request: &SearchRequest, truth: Truth, seed: u64) -> OptionSearch {
    let scratch = ScratchStore::new(&format!("minimize-{name}-{seed}"));
    let store = scratch.store();
    begin(&store, request);
    to_the_end(&mut World::new(truth, seed), &store)
}

/// The options with this result.
fn with_state(search: &OptionSearch, state: OptionState) -> BTreeSet<String> {
    let options = search.options.iter().filter(|fate| fate.state == state);
    options.map(|fate| fate.option.to_string()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Picks different tunables by a seed.
fn plant(seed: u64, count: usize) -> Vec<&'static str> {
    let mut random = Random::new(seed + 1_000);
    let mut picked = BTreeSet::new();
    while picked.len() < count {
        picked.insert(TUNABLES[usize::try_from(random.below(10)).unwrap()]);
    }
    picked.into_iter().collect()
}

#[test]
fn the_planted_least_set_is_found_with_20_of_20_seeds() {
    for seed in 0..20 {
        let needed = plant(seed, 1 + usize::try_from(seed % 3).unwrap());
        let groups: Vec<&[&str]> = needed.iter().map(std::slice::from_ref).collect();
        let found = search("least", &minimize(&[]), Truth::needs(&groups), seed);
        assert_eq!(found.end, Some(SearchEnd::LeastSet), "seed {seed}: {:#?}", found.trials);
        assert_eq!(with_state(&found, OptionState::Needed), names(&needed), "seed {seed}");
        assert_eq!(with_state(&found, OptionState::LeftOut).len(), 10 - needed.len());
        let row = found.found.unwrap();
        let on = row.tunables.iter().filter(|(_, on)| on.is_on()).map(|(name, _)| name.clone());
        assert_eq!(on.collect::<BTreeSet<String>>(), names(&needed));
    }
}

#[test]
fn every_option_has_a_decided_trial_as_evidence() {
    let found = search("evidence", &minimize(&[]), Truth::needs(&[&["cpuset"], &["thp"]]), 7);
    for (index, fate) in found.options.iter().enumerate() {
        let trial = &found.trials[fate.trial.unwrap()];
        assert!(!trial.options.contains(&index), "{fate:?}");
        assert_eq!(trial.figures.len(), trial.tally.met + trial.tally.missed);
        let wanted = match fate.state {
            OptionState::LeftOut => GoalDecision::Met,
            _ => GoalDecision::Missed,
        };
        assert_eq!(trial.decision, Some(wanted), "{fate:?}");
    }
}

#[test]
fn the_screen_names_what_was_found_and_every_trial() {
    let truth = Truth::needs(&[&["cpuset"], &["thp"]]);
    let found = search("screen", &minimize(&["nohlt"]), truth, 7);
    let text = screen::text(&option_search::blocks(&found));
    screen::check(&text, "tests/recorded/document_screens/minimize.txt");
}

#[test]
fn an_ambiguous_measurement_has_no_answer() {
    // A quarter of all measurements miss the goal without the option: neither met nor missed.
    let truth =
        Truth { misses_without: 27, misses_with: 0, doubtful: 0, ..Truth::needs(&[&["kthreads"]]) };
    let ends: Vec<OptionSearch> =
        (0..12).map(|seed| search("ambiguous", &minimize(&[]), truth.clone(), seed)).collect();
    let open = ends.iter().filter(|found| found.end == Some(SearchEnd::SomeUndecided)).count();
    assert!(open >= 3, "{open} of 12");
    for found in ends.iter().filter(|found| found.end == Some(SearchEnd::SomeUndecided)) {
        assert_eq!(with_state(found, OptionState::NoAnswer), names(&["kthreads"]));
        assert_eq!(with_state(found, OptionState::Needed), names(&[]));
    }
    // Even the configuration with everything is ambiguous: there is nothing to start from.
    let truth = Truth { misses_with: 27, ..truth };
    let mut ends = (0..12).map(|seed| search("unclear", &minimize(&[]), truth.clone(), seed));
    let found = ends.find(|found| found.end == Some(SearchEnd::SufficiencyUnknown)).unwrap();
    assert_eq!(with_state(&found, OptionState::Open).len(), 10);
    // Nothing but doubts decides nothing.
    let truth = Truth { doubtful: 100, ..Truth::needs(&[&["thp"]]) };
    let found = search("doubts", &minimize(&[]), truth, 3);
    assert_eq!(found.end, Some(SearchEnd::SufficiencyUnknown));
    assert_eq!(found.trials[0].trouble.as_deref(), Some("the hypervisor took 3 ms"));
}

#[test]
fn ends_that_do_not_reproduce_are_reported() {
    let never = Truth { misses_with: 90, ..Truth::needs(&[]) };
    let always = Truth::needs(&[]);
    let end = |truth| search("ends", &minimize(&[]), truth, 5).end;
    assert_eq!(end(never), Some(SearchEnd::NotSufficient));
    assert_eq!(end(always), Some(SearchEnd::NothingNeeded));
}

#[test]
fn parameters_are_left_out_across_reboots() {
    let words = ["nohz_full=3", "nohlt"];
    for seed in 0..4 {
        let truth = Truth::needs(&[&["nohz_full=3"], &["cpuset"]]);
        let scratch = ScratchStore::new(&format!("minimize-boots-{seed}"));
        let store = scratch.store();
        begin(&store, &minimize(&words));
        let mut world = World::new(truth, seed);
        let found = to_the_end(&mut world, &store);
        assert_eq!(found.end, Some(SearchEnd::LeastSet));
        assert_eq!(with_state(&found, OptionState::Needed), names(&["nohz_full=3", "cpuset"]));
        assert_eq!(found.found.unwrap().boot, ["nohz_full=3"]);
        assert!(world.reboots <= 8, "{}", world.reboots);
    }
}

/// Interrupts the search at its n-th action or its n-th write. Returns the world and the result;
/// `None` if there is no such action.
fn cut(
    scratch: &ScratchStore,
    act: Option<u32>,
    write: Option<usize>,
    power: bool,
) -> Option<(World, OptionSearch)> {
    let store = scratch.store();
    let request = SearchRequest {
        options: minimize(&["nohlt"]).options.into_iter().take(3).collect(),
        ..minimize(&[])
    };
    begin(&store, &request);
    let truth = Truth {
        misses_with: 0,
        misses_without: 100,
        doubtful: 0,
        ..Truth::needs(&[&["nohlt"], &["fair-server"]])
    };
    let mut world = World::new(truth, 1);
    let frail = write.map_or(store.clone(), |n| store.clone().with_room_for(n));
    let mut left = act;
    loop {
        let mut journal = store.load().unwrap().unwrap();
        let mut sim = Sim::new(&mut world, left);
        let ended = run_search(&mut sim, &frail, &mut journal, &request, 1);
        left = sim.left;
        match ended {
            Ok(ExperimentEnd::Rebooting) => {}
            Ok(ended) => {
                assert_eq!(ended, ExperimentEnd::Finished);
                return None;
            }
            Err(_) => break,
        }
    }
    if power {
        world.power_on();
    }
    let found = to_the_end(&mut world, &store);
    Some((world, found))
}

#[test]
fn a_search_cut_off_anywhere_resumes_and_measures_little_again() {
    let scratch = ScratchStore::new("minimize-cut");
    let mut cuts = 0;
    for power in [false, true] {
        for (stride, by_write) in [(17, false), (11, true)] {
            for n in (0..).step_by(stride) {
                let (act, write) = match by_write {
                    true => (None, Some(n)),
                    false => (Some(u32::try_from(n).unwrap()), None),
                };
                let Some((world, found)) = cut(&scratch, act, write, power) else { break };
                assert_eq!(found.end, Some(SearchEnd::LeastSet), "{n} {by_write} {power}");
                let needed = names(&["nohlt", "fair-server"]);
                assert_eq!(with_state(&found, OptionState::Needed), needed);
                let counted: usize =
                    found.trials.iter().map(|trial| trial.tally.measurements()).sum();
                assert!(world.measured <= counted + 1, "{n} {by_write} {power}");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 20, "{cuts}");
}

#[test]
fn a_stopped_search_restores_the_machine_and_keeps_what_was_measured() {
    let scratch = ScratchStore::new("minimize-stop");
    let store = scratch.store();
    let request = minimize(&["nohlt"]);
    begin(&store, &request);
    let mut world = World::new(Truth::needs(&[&["thp"]]), 2);
    let mut journal = store.load().unwrap().unwrap();
    let mut sim = Sim::new(&mut world, Some(60));
    while let Ok(ExperimentEnd::Rebooting) = run_search(&mut sim, &store, &mut journal, &request, 1)
    {
        journal = store.load().unwrap().unwrap();
    }
    let mut journal = store.load().unwrap().unwrap();
    stop(&mut Sim::new(&mut world, None), &store, &mut journal, 9).unwrap();
    world.power_on();
    assert!(world.files.is_none() && !world.unit && !world.shield && world.running.is_original());
    let found = result(&store);
    assert_eq!((found.end.clone(), found.ended_s), (None, Some(9)));
    assert!(found.trials[0].tally.measurements() > 2, "{:?}", found.trials);
    assert_eq!(with_state(&found, OptionState::Open).len(), 11);
}
