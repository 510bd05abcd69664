//! The helper under any request: it always answers, what it refuses changes nothing, and what it
//! grants is what the policy permits and is taken back exactly.

use super::bench::{Bench, every_write, file, same};
use super::leaving::{Sleeper, add_to_shield, machine_that_permits};
use super::operators::{put_process, serve};
use super::trees::Task;
use cpushield::policy::{MemoryLimit, OperatorLimits};
use cpushield::run::{self, OperatorAnswer};
use cpushield_simulator::{InjectedFault, Simulated};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::fs;

/// The highest priority that the policy permits.
const HIGHEST: u32 = 50;
/// A process of another user in the shield. No process has this number.
const STRANGER: i32 = 4_000_001;

#[test]
fn any_request_is_answered_and_changes_only_what_the_policy_permits() {
    let sleeper = Sleeper::new();
    let bench = machine(&sleeper);
    let config = Config {
        cases: if every_write() { 20_000 } else { 2_000 },
        failure_persistence: None,
        ..Config::default()
    };
    let before = bench.tree();
    let [refused, entered, left] = [(); 3].map(|()| Cell::new(0));
    let count = |kind: &Cell<u32>| kind.set(kind.get() + 1);
    let checked = TestRunner::new(config).run(&requests(&sleeper), |request| {
        let answer = serve(&bench, &request);
        let line = serde_json::to_string(&answer).unwrap();
        prop_assert_eq!(&serde_json::from_str::<OperatorAnswer>(&line).unwrap(), &answer);
        match answer {
            OperatorAnswer::Refused { .. } => count(&refused),
            OperatorAnswer::Entered(shield) => {
                count(&entered);
                for priority in shield.priority.into_iter().chain(shield.own_priority) {
                    prop_assert!((1..=HIGHEST).contains(&priority), "{}", line);
                }
                let answer = serve(&bench, b"{\"do\": \"leave\"}\n");
                prop_assert!(matches!(answer, OperatorAnswer::Left(_)), "{:?}", answer);
            }
            OperatorAnswer::Left(moved) => {
                count(&left);
                prop_assert_eq!(moved.tid, sleeper.pid());
                add_to_shield(&bench, sleeper.pid());
            }
        }
        same(&before, &bench.tree(), &String::from_utf8_lossy(&request));
        Ok(())
    });
    checked.unwrap();
    // Otherwise the requests have shown nothing. The rarest answer comes about 55 times on average.
    let counts = [refused, entered, left].map(Cell::into_inner);
    assert!(counts.iter().all(|count| *count >= 20), "refused, entered, left: {counts:?}");
}

/// A machine with a shield, in which a process of this user and one of another user are.
fn machine(sleeper: &Sleeper) -> Bench {
    let locked_memory = Some(MemoryLimit::Unlimited);
    let permitted = OperatorLimits { priority: Some(HIGHEST), locked_memory };
    let own = std::process::id();
    let bench = machine_that_permits(permitted, sleeper, |tree, _| {
        let limits = "Max locked memory 65536 131072 bytes\n";
        tree.insert(format!("proc/{own}/limits"), file(limits));
        put_process(tree, Task::new(STRANGER, "other", 0, "0-3"), 65_534);
    });
    for pid in [sleeper.pid(), STRANGER] {
        add_to_shield(&bench, pid);
    }
    bench
}

#[test]
fn what_the_hinted_rule_permits_is_granted_and_no_other_rule_is_hinted() {
    let sleeper = Sleeper::new();
    for key in ["priority", "own_priority"] {
        for priority in [0, 1, 2, 98, 99, 100, u32::MAX] {
            let request = format!("{{\"do\": \"enter\", \"{key}\": {priority}}}\n");
            let answer_with = |highest| {
                let limits = OperatorLimits { priority: highest, locked_memory: None };
                serve(&machine_that_permits(limits, &sleeper, |_, _| ()), request.as_bytes())
            };
            for highest in [None, Some(1), Some(98)] {
                match answer_with(highest) {
                    OperatorAnswer::Entered(_) => {}
                    OperatorAnswer::Refused { rule: None, .. } => {
                        assert!(!(1..=98).contains(&priority), "{request}");
                    }
                    OperatorAnswer::Refused { rule: Some(rule), .. } => {
                        let (_, hinted) = rule.rsplit_once("priority = ").unwrap();
                        let hinted: u32 = hinted.parse().unwrap();
                        assert!((1..=98).contains(&hinted), "{request}: {rule}");
                        let again = answer_with(Some(hinted));
                        assert!(
                            matches!(again, OperatorAnswer::Entered(_)),
                            "{request}: {again:?}"
                        );
                    }
                    answer => panic!("{request}: {answer:?}"),
                }
            }
        }
    }
}

/// A machine with a shield, in which this process was started: no entry of an added thread says so.
fn machine_of_started_process(sleeper: &Sleeper) -> Bench {
    let permitted = OperatorLimits { priority: None, locked_memory: Some(MemoryLimit::Unlimited) };
    let own = std::process::id();
    let bench = machine_that_permits(permitted, sleeper, |tree, _| {
        tree.insert(format!("proc/{own}/limits"), file(format!("{LIMIT}\n")));
    });
    bench.host().write("/sys/fs/cgroup/cpushield/cgroup.procs", &own.to_string()).unwrap();
    bench
}

const LIMIT: &str = "Max locked memory 65536 131072 bytes";

/// The limit on locked memory of this process.
fn limit(bench: &Bench) -> String {
    bench.host().read_line(&format!("/proc/{}/limits", std::process::id())).unwrap()
}

/// Raises the limit, as a program in the shield does. The second request must not take the raised
/// limit for the original one.
fn raise_limit(bench: &Bench) {
    for _ in 0..2 {
        let answer = serve(bench, b"{\"do\": \"enter\", \"lock_memory\": true}\n");
        assert!(matches!(answer, OperatorAnswer::Entered(_)), "{answer:?}");
        assert_eq!(limit(bench), "Max locked memory unlimited unlimited bytes");
    }
}

/// The processes whose raised limits are on record.
fn raised_on_record(bench: &Bench) -> Vec<i64> {
    let text = fs::read(bench.scratch.0.join("state/programs.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let raised = record["lock_limits"].as_array().unwrap().iter();
    raised.map(|raised| raised["task"]["tid"].as_i64().unwrap()).collect()
}

fn leave(bench: &Bench) {
    let answer = serve(bench, b"{\"do\": \"leave\"}\n");
    assert!(matches!(answer, OperatorAnswer::Left(_)), "{answer:?}");
}

/// The part of undo that comes first.
fn release(bench: &Bench) {
    let released = run::release(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(released.notes, []);
}

#[test]
fn a_process_that_was_started_in_the_shield_loses_its_raised_limit_with_its_place() {
    let sleeper = Sleeper::new();
    let own = i32::try_from(std::process::id()).unwrap();
    let ways = [("leave", leave as fn(&Bench)), ("undo", release)];
    for (way, take_back) in ways {
        let bench = machine_of_started_process(&sleeper);
        raise_limit(&bench);
        assert_eq!(raised_on_record(&bench), [i64::from(own)], "{way}");
        take_back(&bench);
        assert_eq!(limit(&bench), LIMIT, "{way}");
        assert_eq!(raised_on_record(&bench), [0_i64; 0], "{way}");
    }
}

#[test]
fn a_raised_limit_stays_on_record_until_it_is_restored_or_the_process_has_ended() {
    let sleeper = Sleeper::new();
    let prepare = || {
        let bench = machine_of_started_process(&sleeper);
        raise_limit(&bench);
        bench
    };
    let bench = prepare();
    let host = bench.host();
    run::release(&host, &bench.store(), None).unwrap();
    assert!(host.writes() > 0);
    for at in 0..host.writes() {
        for fault in [InjectedFault::Stop { at }, InjectedFault::Refuse { at, errno: 1 }] {
            let bench = prepare();
            let _ = run::release(&bench.host().failing(fault), &bench.store(), None);
            run::release(&bench.host(), &bench.store(), None).unwrap();
            assert_eq!(limit(&bench), LIMIT, "{fault:?}");
        }
    }
    // Another process has the number now.
    let bench = prepare();
    let own = std::process::id();
    for path in ["stat".to_owned(), format!("task/{own}/stat")] {
        let started = format!(" {} 0 0 18446744073709551615", u64::from(own) * 10);
        let other = " 77 0 0 18446744073709551615";
        bench.replace(&format!("/proc/{own}/{path}"), &started, other);
    }
    add_to_shield(&bench, sleeper.pid());
    assert_eq!(raised_on_record(&bench), [0_i64; 0]);
    run::release(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(limit(&bench), "Max locked memory unlimited unlimited bytes");
}

/// Requests that are right, that are right but for a value, that are right but for some bytes, and
/// any bytes.
fn requests(sleeper: &Sleeper) -> impl Strategy<Value = Vec<u8>> {
    let pids = [sleeper.pid(), STRANGER, 0, 1, 2, -1, i32::MAX];
    let own = i32::try_from(std::process::id()).unwrap();
    let pid = prop_oneof![select(pids.to_vec()), Just(own), any::<i32>()];
    let number = prop_oneof![1..=HIGHEST, 0..=HIGHEST + 2, any::<u32>()];
    let shield = select(vec!["cpushield", "mill", "", "../cpushield", "cpushield\\u0000"]);
    let field = prop_oneof![
        3 => number.clone().prop_map(|number| format!("\"priority\":{number}")),
        3 => number.prop_map(|number| format!("\"own_priority\":{number}")),
        2 => any::<bool>().prop_map(|lock| format!("\"lock_memory\":{lock}")),
        2 => shield.prop_map(|shield| format!("\"shield\":\"{shield}\"")),
        4 => pid.prop_map(|pid| format!("\"pid\":{pid}")),
        1 => "\"[a-z_]{1,12}\":(null|1|\"[a-z]{0,8}\"|\\[\\])",
    ];
    let verb = prop_oneof![
        4 => select(vec!["enter", "leave"]).prop_map(str::to_owned),
        1 => "[a-z-]{0,9}",
    ];
    let line = (verb, vec(field, 0..3)).prop_map(|(verb, fields)| {
        let fields: String = fields.iter().map(|field| format!(",{field}")).collect();
        format!("{{\"do\":\"{verb}\"{fields}}}\n").into_bytes()
    });
    let leave = select(pids.to_vec())
        .prop_map(|pid| format!("{{\"do\":\"leave\",\"pid\":{pid}}}\n").into_bytes());
    let line = prop_oneof![2 => line, 1 => leave];
    let edits = vec((any::<Index>(), any::<u8>(), 0..3_u8), 1..4);
    let edited = (line.clone(), edits).prop_map(|(mut line, edits)| {
        for (place, byte, edit) in edits {
            let place = place.index(line.len().max(1));
            match edit {
                0 => line.insert(place, byte),
                1 if place < line.len() => line[place] = byte,
                _ if place < line.len() => drop(line.remove(place)),
                _ => {}
            }
        }
        line
    });
    prop_oneof![6 => line, 3 => edited, 1 => vec(any::<u8>(), 0..600)]
}
