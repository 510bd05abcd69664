//! The page of `report`, given to a browser: it loads without an error and asks for nothing, zooms,
//! follows dark mode, prints, fits a phone, can be read without a script and with a screen reader,
//! and escapes every name in a document.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use cpushield::cli::Cli;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::Browser;
use crate::documents::{HOSTILE, latency, verified};
use crate::not_run::not_run;

/// A separate directory.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn put(&self, name: &str, document: &Value) {
        fs::write(self.0.join(name), document.to_string()).unwrap();
    }

    /// Runs the program here.
    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cpushield"));
        let output = command.args(words).current_dir(&self.0).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Documents of every kind, and the arguments that show them.
fn documents(dir: &Dir) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-smt/root");
    let root = root.display().to_string();
    for (name, words) in [("machine.json", vec!["survey"]), ("plan.json", vec!["plan"])] {
        let words = [&words[..], &["--json", "--root", &root]].concat();
        fs::write(dir.0.join(name), dir.run(&words)).unwrap();
    }
    let before = [("tick", "", 4_000), ("irq", HOSTILE, 77), ("user-task", "ruby", 3)];
    dir.put("verify-before.json", &verified(2, &before));
    dir.put("verify-after.json", &verified(2, &[("irq", HOSTILE, 2)]));
    dir.put("latency-before.json", &latency(&[2, 3], 60, 1_000, 40_000));
    dir.put("latency-after.json", &latency(&[2, 3], 60, 1_000, 3_000));
    let files = ["machine.json", "plan.json", "verify-before.json", "latency-before.json"];
    // A label ends at the first `=`, and has no slash.
    let label = HOSTILE.replace(['/', '=', '\0'], "");
    let named = |file: &str| format!("{label}={file}");
    let mut words: Vec<String> = files.map(str::to_owned).to_vec();
    words.extend(["verify-after.json", "latency-after.json"].map(named));
    words
}

/// `UPDATE_EXPECT=1` makes the example again; `vm/example` makes its documents and its picture.
#[test]
fn the_example_is_what_the_program_makes_of_its_documents() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/example");
    let dir = Dir::new("example");
    for entry in fs::read_dir(&example).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|kind| kind == "json" || kind == "plan") {
            fs::copy(&file, dir.0.join(file.file_name().unwrap())).unwrap();
        }
    }
    let mut render = Command::new(example.join("render"));
    let render = render.arg(env!("CARGO_BIN_EXE_cpushield")).arg(&dir.0);
    assert!(render.status().unwrap().success());
    let made = fs::read_to_string(dir.0.join("report.html")).unwrap();
    let page = example.join("report.html");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&page, &made).unwrap();
    }
    let same = fs::read_to_string(&page).is_ok_and(|text| text == made);
    assert!(same, "docs/example/report.html is old: UPDATE_EXPECT=1 cargo test --test live page");
}

/// The report of all documents, in this format.
fn report(dir: &Dir, output: &str, more: &[&str]) {
    let files = documents(dir);
    let mut words = vec!["report", "--quiet", "-o", output];
    words.extend(more);
    words.extend(files.iter().map(String::as_str));
    dir.run(&words);
}

#[test]
fn the_page_is_self_contained_and_escapes_every_name() {
    let dir = Dir::new("page-loads");
    report(&dir, "report.html", &["--title", HOSTILE.trim_end_matches('\0')]);
    let page = fs::read_to_string(dir.0.join("report.html")).unwrap();
    // The XML namespace of SVG is an address that is never fetched.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("http://") && !page.contains("https://"), "an address");
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    browser.open(&dir.0.join("report.html"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The names appear as text; their scripts did not run.
    assert_eq!(browser.value("typeof window.hacked"), "undefined");
    assert_eq!(
        browser
            .value("document.querySelectorAll('img,iframe,script[src],link[href^=http]').length"),
        0
    );
    assert_eq!(browser.value("document.querySelectorAll('script').length"), 1);
    let shown = "document.body.innerText.split('window.hacked=1').length > 10";
    assert_eq!(browser.value(shown), true);
    let odd = "/[\\u0000-\\u0008\\u001b\\u202e]/.test(document.documentElement.outerHTML)";
    assert_eq!(browser.value(odd), false);
    // A foreign script in the page does not run: the security policy works.
    browser.value(
        "{ const s = document.createElement('script'); s.textContent = 'window.hacked = 3'; \
         document.body.append(s); 0 }",
    );
    assert_eq!(browser.value("typeof window.hacked"), "undefined");
    assert!(!browser.complaints().is_empty(), "complaints are heard");
}

/// How the shell parsed the lines of a recipe: the arguments of each command, and the files that
/// existed when it began. The shell or `-o` creates the file that a command writes.
fn calls(dir: &Dir, recipe: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let script = format!(
        "exec 3>../calls; cpushield() {{ for f in *; do [ -s \"$f\" ] && printf '%s\\0' \"$f\" >&3; done; \
         printf '\\1\\0' >&3; was=; for w; do printf '%s\\0' \"$w\" >&3; \
         if [ \"$was\" = -o ]; then echo made > \"$w\"; fi; was=$w; done; printf '\\2\\0' >&3; echo made; }}\n\
         {recipe}"
    );
    let work = dir.0.join("recipe");
    fs::create_dir_all(&work).unwrap();
    let status = Command::new("sh").args(["-eu", "-c", &script]).current_dir(&work).status();
    assert!(status.unwrap().success(), "{recipe}");
    let recorded = String::from_utf8(fs::read(dir.0.join("calls")).unwrap()).unwrap();
    let words = |text: &str| {
        text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let calls =
        recorded.split_terminator("\u{2}\0").map(|call| call.split_once("\u{1}\0").unwrap());
    calls.map(|(files, call)| (words(call), words(files))).collect()
}

/// The lines of the recipe of a report in Markdown.
fn recipe(markdown: &str) -> String {
    let (_, rest) = markdown.split_once("In a shell, as root").unwrap();
    let (_, rest) = rest.split_once("```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_commands_of_a_report_reproduce_it() {
    let dir = Dir::new("page-recipe");
    let mut files = documents(&dir);
    // The second half was measured under the shield.
    let mut shielded = latency(&[2, 3], 60, 1_000, 3_000);
    shielded["isolation"]["shield"] = json!("cpushield");
    dir.put("latency-after.json", &shielded);
    let mut before = latency(&[2, 3], 60, 1_000, 40_000);
    before["isolation"]["shield"] = Value::Null;
    dir.put("latency-before.json", &before);
    let mut watched = verified(2, &[("tick", "", 4_000)]);
    watched["evidence"]["workload"] = json!("given");
    watched["evidence"]["options"] = json!({
        "warmup_ns": 250_000_000, "syscalls": true, "stacks": true, "before_breach_ns": 20_000,
        "cgroup": "/sys/fs/cgroup/a b", "started_program": true,
    });
    dir.put("verify-before.json", &watched);
    // Other runs of the same two commands.
    let mut first = verified(2, &[("tick", "", 3_000)]);
    first["evidence"]["workload"] = watched["evidence"]["workload"].clone();
    first["evidence"]["options"] = watched["evidence"]["options"].clone();
    dir.put("verify-first.json", &first);
    let mut first = latency(&[2, 3], 60, 1_000, 50_000);
    first["isolation"]["shield"] = Value::Null;
    dir.put("latency-first.json", &first);
    files.extend(["before=verify-first.json", "before=latency-first.json"].map(str::to_owned));
    let mut words = vec!["report", "--quiet", "-o", "report.md", "--title", "It's repeated"];
    words.extend(files.iter().map(String::as_str));
    dir.run(&words);
    let report = fs::read_to_string(dir.0.join("report.md")).unwrap();
    let recipe = recipe(&report);
    let calls = calls(&dir, &recipe);
    let options = "--warmup 250ms --syscalls --stacks --stop-on-breach --before 20us --cgroup";
    let watch: Vec<&str> = ["verify", "--cpus", "2", "--for", "4s"]
        .into_iter()
        .chain(options.split(' '))
        .chain(["/sys/fs/cgroup/a b", "--json", "--", "PROGRAM"])
        .collect();
    assert!(calls.iter().any(|(words, _)| *words == watch), "{recipe}");
    assert!(report.contains("Replace PROGRAM with that command."), "{report}");
    for (words, there) in &calls {
        let line = std::iter::once("cpushield").chain(words.iter().map(String::as_str));
        let cli = Cli::try_parse_from(line);
        let cli = cli.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let read: Vec<&str> = match words[0].as_str() {
            "report" => words[5..].iter().map(|it| it.rsplit('=').next().unwrap()).collect(),
            "apply" => vec![&words[1]],
            _ => Vec::new(),
        };
        for file in read {
            assert!(
                there.iter().any(|it| it == file),
                "{file} is read before it is written: {recipe}"
            );
        }
        drop(cli);
    }
    let at = |part: &str| recipe.lines().position(|line| line.contains(part)).unwrap();
    let apply = at("cpushield apply ");
    assert!(at("latency-before.json") < apply && at("verify-before.json") < apply, "{recipe}");
    let after = recipe.lines().skip(apply).filter(|line| line.contains(" > ")).count();
    assert_eq!(after, 2, "{recipe}");
    assert_eq!(recipe.lines().last(), Some("cpushield undo"), "{recipe}");
    let mut written: Vec<&str> =
        recipe.lines().filter_map(|line| line.rsplit_once(" > ")).map(|(_, file)| file).collect();
    let all = written.len();
    written.sort_unstable();
    written.dedup();
    assert_eq!((written.len(), all), (7, 7), "no document overwrites another: {recipe}");
}

#[test]
fn a_report_in_a_pipe_has_lines_of_120_columns() {
    let dir = Dir::new("page-width");
    let mut words = vec!["report", "--quiet"];
    documents(&dir);
    // A name without a blank has no place for a line break.
    let hostile = json!(HOSTILE).to_string();
    for file in ["machine", "plan", "verify-before", "verify-after", "latency-before"] {
        let path = dir.0.join(format!("{file}.json"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(&hostile, "\"a name of some words\"")).unwrap();
    }
    words.extend(["machine.json", "plan.json", "verify-before.json", "verify-after.json"]);
    words.push("latency-before.json");
    let text = dir.run(&words);
    // A word without a place for a break stays whole: a path, a quoted word.
    let wide = |line: &&str| line.chars().count() > 120 && line.trim().split(' ').count() > 2;
    let quoted = |line: &&str| !line.contains('\'');
    assert_eq!(text.lines().filter(wide).filter(quoted).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(text.contains("logarithmic scale"), "{text}");
}

#[test]
fn curves_can_be_zoomed_and_show_values() {
    let dir = Dir::new("page-zooms");
    report(&dir, "report.html", &[]);
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    browser.screen(1280, "light");
    browser.open(&dir.0.join("report.html"));
    browser.value("document.getElementById('histogram').scrollIntoView({ behavior: 'instant' })");
    let ticks = "[...document.querySelectorAll('#histogram .xaxis text')].map(t => t.textContent)";
    let whole = browser.value(ticks);
    browser.value("document.querySelector('#histogram [data-zoom=in]').click()");
    browser.value("document.querySelector('#histogram [data-zoom=in]').click()");
    assert_eq!(browser.value("document.getElementById('histogram').dataset.zoom"), "4.000");
    assert_ne!(browser.value(ticks), whole);
    browser.value("document.querySelector('#histogram [data-zoom=whole]').click()");
    assert_eq!(browser.value(ticks), whole);
    // With the mouse: from a quarter to a half of the picture.
    let place = "(() => { const r = document.querySelector('#histogram svg').getBoundingClientRect(); \
                 return [r.x, r.y, r.width, r.height] })()";
    let place: Vec<f64> = serde_json::from_value(browser.value(place)).unwrap();
    let at = |part: f64| (place[0] + place[2] * part, place[1] + place[3] / 2.0);
    browser.mouse("mousePressed", at(0.25));
    browser.mouse("mouseMoved", at(0.5));
    let output = "document.querySelector('#histogram output').value";
    let said = browser.value(output);
    assert!(said.as_str().unwrap().contains("latency-before: "), "{said}");
    browser.mouse("mouseReleased", at(0.5));
    let zoom = browser.value("document.getElementById('histogram').dataset.zoom");
    let zoom: f64 = zoom.as_str().unwrap().parse().unwrap();
    assert!((3.0..4.0).contains(&zoom), "{zoom}");
    // With the keyboard.
    browser.value(
        "document.querySelector('#histogram .drawing').dispatchEvent(new KeyboardEvent('keydown', \
         { key: 'Escape', bubbles: true }))",
    );
    assert_eq!(browser.value(ticks), whole);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_supports_dark_mode_printing_and_phones() {
    let dir = Dir::new("page-looks");
    report(&dir, "report.html", &[]);
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    browser.open(&dir.0.join("report.html"));
    let brightness = "(() => { const c = getComputedStyle(document.body); const sum = (s) => \
                      s.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0); \
                      return [sum(c.backgroundColor), sum(c.color)] })()";
    for (scheme, light) in [("light", true), ("dark", false)] {
        browser.screen(1280, scheme);
        let pair: Vec<f64> = serde_json::from_value(browser.value(brightness)).unwrap();
        assert_eq!(pair[0] > pair[1], light, "{scheme}: {pair:?}");
    }
    for width in [1280, 400, 320] {
        browser.screen(width, "light");
        let wide = format!(
            "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > \
             {width} + 1 && !e.closest('.wide,.drawing,pre')).map(e => e.outerHTML.slice(0, 90))"
        );
        assert_eq!(browser.value(&wide), json!([]), "{width}");
        let wide = browser.value("document.scrollingElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{width}: {wide}");
    }
    let pdf = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    let pdf = STANDARD.decode(pdf["data"].as_str().unwrap()).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 20_000, "{} bytes", pdf.len());
}

#[test]
fn the_page_is_readable_without_scripts_and_by_screen_readers() {
    let dir = Dir::new("page-reads");
    report(&dir, "report.html", &[]);
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&dir.0.join("report.html"));
    assert_eq!(browser.value("document.querySelector('.tools').offsetParent === null"), true);
    assert_eq!(browser.value("document.querySelectorAll('#histogram .curve path.line').length"), 2);
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": false }));
    for (what, wrong) in [
        (
            "headings that leave out a level",
            "[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1])).filter((n, i, \
             all) => i > 0 && n > all[i - 1] + 1)",
        ),
        ("more or fewer than one h1", "document.querySelectorAll('h1').length === 1 ? [] : [1]"),
        (
            "tables without caption",
            "[...document.querySelectorAll('table')].filter(t => !t.caption)",
        ),
        ("th without scope", "[...document.querySelectorAll('th')].filter(t => !t.scope)"),
        (
            "pictures without title, description or table",
            "[...document.querySelectorAll('figure.picture')].filter(f => !f.querySelector('svg > \
             title') || !f.querySelector('svg > desc') || !f.querySelector('details table'))",
        ),
        (
            "names that are there twice",
            "[...document.querySelectorAll('[id]')].map(e => e.id).filter((id, i, all) => \
             all.indexOf(id) !== i)",
        ),
    ] {
        let expression = format!("{wrong}.map(it => it.outerHTML || String(it))");
        assert_eq!(browser.value(&expression), json!([]), "{what}");
    }
    let axe =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/axe/node_modules/axe-core/axe.min.js");
    let Ok(axe) = fs::read_to_string(axe) else {
        return not_run("no axe-core in target/axe (scripts/need rust tests)");
    };
    browser.value(&format!("{axe}; 0"));
    for scheme in ["light", "dark"] {
        browser.screen(1280, scheme);
        let found = browser.value(
            "document.querySelectorAll('details').forEach(d => d.open = true); axe.run().then(r => \
             r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html).join(' ')))",
        );
        assert_eq!(found, json!([]), "{scheme}");
    }
}

#[test]
fn a_picture_is_self_contained_and_the_other_formats_have_every_doubt() {
    let dir = Dir::new("page-forms");
    for name in ["map", "noise", "histogram", "timeline"] {
        report(&dir, &format!("{name}.svg"), &["--picture", name]);
    }
    report(&dir, "report.md", &[]);
    let text = fs::read_to_string(dir.0.join("report.md")).unwrap();
    assert!(text.contains("on another CPU") && text.contains("did not watch"), "{text}");
    // Between fences nothing is markup.
    let outside: String = text.split("```").step_by(2).collect();
    assert!(!outside.contains("<script") && !text.contains('\u{1b}'), "{text}");
    report(&dir, "report.json", &[]);
    let bundle: Value =
        serde_json::from_str(&fs::read_to_string(dir.0.join("report.json")).unwrap()).unwrap();
    assert_eq!(bundle["documents"].as_array().map(Vec::len), Some(6));
    let Some(mut browser) = Browser::start(&dir.0) else { return };
    for name in ["map", "noise", "histogram", "timeline"] {
        browser.open(&dir.0.join(format!("{name}.svg")));
        assert_eq!(browser.value("document.documentElement.nodeName"), "svg", "{name}");
        assert_eq!(
            browser.value("document.getElementsByTagName('parsererror').length"),
            0,
            "{name}"
        );
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_day_of_ten_kilohertz_on_four_cpus_is_less_than_a_mebibyte() {
    let dir = Dir::new("page-day");
    for (name, typical_ns) in [("before", 4_000), ("after", 4_001)] {
        dir.put(&format!("{name}.json"), &latency(&[0, 1, 2, 3], 86_400, 10_000, typical_ns));
    }
    dir.run(&["report", "--quiet", "-o", "day.html", "before.json", "after.json"]);
    let size = fs::metadata(dir.0.join("day.html")).unwrap().len();
    assert!(size < 1 << 20, "{size} bytes");
    // It contains the whole time and all latencies.
    let page = fs::read_to_string(dir.0.join("day.html")).unwrap();
    assert!(page.contains("86400000000000,") && page.matches(" data-steps=").count() == 4);
}
