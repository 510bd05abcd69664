//! `make install` for a package: into a directory, without root. `make uninstall` and the scripts
//! of the packages: what they remove, and what they leave.

use crate::files::files_below;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The state directory in the scripts.
const STATE: &str = "/var/lib/cpushield";

/// An empty directory for a test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// `PATH` with a directory before the others.
fn path_with(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// What `make` prints, with these programs before the others.
fn make(words: &[&str], bin: &Path) -> String {
    let output = Command::new("make")
        .args(words)
        .env("PATH", path_with(bin))
        .env_remove("DESTDIR")
        // `make test` runs this; a make below another says in its output which directory it enters.
        .env_remove("MAKELEVEL")
        .env_remove("MAKEFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that `make` would run for an ordinary user.
fn steps(target: &str, variables: &[&str]) -> String {
    let bin = scratch(&format!("{target}-bin-{}", variables.len()));
    write_program(&bin.join("id"), "echo 1000");
    make(&[&["-n", target], variables].concat(), &bin)
}

#[test]
fn packaging_needs_neither_root_nor_a_package_manager() {
    let packaged = steps("install", &["DESTDIR=/pkg"]);
    assert!(!packaged.contains("sudo") && !packaged.contains("scripts/need"), "{packaged}");
    let installed = steps("install", &[]);
    assert!(installed.contains("sudo install") && installed.contains("scripts/need rust"));
}

/// Installs the program of this test, with compilers that fail, as packagers do.
fn make_package(target: &str, dest: &Path) {
    let bin = dest.with_extension("bin");
    for compiler in ["cargo", "rustc", "rustup", "cc"] {
        write_program(&bin.join(compiler), "exit 70");
    }
    let binary = concat!("BINARY=", env!("CARGO_BIN_EXE_cpushield"));
    make(&[target, "PREFIX=/usr", binary, &format!("DESTDIR={}", dest.display())], &bin);
}

#[test]
fn a_given_binary_is_installed_with_its_pages_and_the_book_and_nothing_is_compiled() {
    let dest = scratch("given");
    make_package("install", &dest);
    let share = dest.join("usr/share");
    let commands = cpushield::cli::command();
    let pages = names(&share.join("man/man1"));
    for sub in commands.get_subcommands() {
        assert!(pages.contains(&format!("cpushield-{}.1", sub.get_name())), "{pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("_") || page.contains("conclude")), "{pages:?}");
    let files = files_below(&dest);
    let has = |name: &str| files.iter().any(|file| *file == dest.join("usr").join(name));
    for file in [
        "bin/cpushield",
        "share/man/man1/cpushield.1",
        "share/man/man1/cpushield-boot-plan.1",
        "share/man/man5/cpushield-policy.5",
        "share/bash-completion/completions/cpushield",
        "share/zsh/site-functions/_cpushield",
        "share/fish/vendor_completions.d/cpushield.fish",
        "share/doc/cpushield/tutorial.md",
        "share/doc/cpushield/guides/recipes.md",
        "share/doc/cpushield/examples/policy.toml",
        "share/doc/cpushield/examples/cpushield-irqbalance.openrc",
    ] {
        assert!(has(file), "{file}: {files:?}");
    }
    let unit = share.join("doc/cpushield/examples/cpushield.service");
    assert!(fs::read_to_string(unit).unwrap().contains("/usr/bin/cpushield"));
    for page in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        for link in fs::read_to_string(page).unwrap().split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            let is_file = !target.contains(char::is_whitespace) && !target.contains("://");
            let found = page.parent().unwrap().join(target);
            assert!(!is_file || found.exists(), "{}: {target}", page.display());
        }
    }
    groff_reads_every_page(&share.join("man"));
    make_package("uninstall", &dest);
    assert_eq!(files_below(&dest), Vec::<PathBuf>::new());
}

fn groff_reads_every_page(man: &Path) {
    let groff = ["-man", "-Tutf8", "-Kutf8", "-ww", "-z"];
    match Command::new("groff").args(groff).args(files_below(man)).output() {
        Ok(groff) => assert_eq!(String::from_utf8_lossy(&groff.stderr), ""),
        Err(error) => crate::not_run::not_run(&format!("groff: {error}")),
    }
}

/// The state directory belongs to root alone. Here it exists only while `sudo` runs a command.
#[test]
fn uninstalling_as_an_ordinary_user_stops_an_experiment_and_removes_archived_journals() {
    let dir = scratch("uninstall");
    let (state, bin, calls) = (dir.join("state"), dir.join("bin"), dir.join("calls"));
    fs::create_dir_all(state.join("experiment")).unwrap();
    for name in [
        "experiment/journal.json",
        "lock",
        "try.lock",
        "waiting.lock",
        "experiment.lock",
        "tracer.lock",
        "programs.json",
        "boot-trial.json",
        "journal-1.jsonl",
        "boot-journal-1.json",
        "kept",
    ] {
        fs::write(state.join(name), "").unwrap();
    }
    let (hidden, shown) = (dir.join("hidden"), state.display());
    fs::rename(&state, &hidden).unwrap();
    let hidden = hidden.display();
    let sudo = format!("mv '{hidden}' '{shown}'\n\"$@\"\nn=$?\nmv '{shown}' '{hidden}'\nexit $n");
    write_program(&bin.join("sudo"), &sudo);
    write_program(&bin.join("cpushield"), &format!("echo \"$*\" >>'{}'", calls.display()));
    let text = steps("uninstall", &[&format!("PREFIX={}", dir.display())]);
    assert!(text.contains(STATE), "{text}");
    let text = text.replace(STATE, &state.display().to_string());
    let ran = Command::new("sh").args(["-c", &text]).env("PATH", path_with(&bin)).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let calls = fs::read_to_string(calls).unwrap();
    assert_eq!(calls, "experiment --stop\nundo --all\ndisable --now\nboot undo\n");
    assert_eq!(names(&dir.join("hidden")), ["experiment", "kept"]);
    assert_eq!(names(&bin), ["sudo"]);
}

/// Runs a script of a package on a state directory with these files. Returns what is left of it.
fn run_script(script: &str, argument: &str, files: &[&str]) -> Vec<String> {
    let dir = scratch(&format!("{}-script", script.replace('/', "-")));
    let state = dir.join("state");
    fs::create_dir_all(&state).unwrap();
    for file in files {
        fs::write(state.join(file), "").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(script);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(STATE), "{text}");
    let text = text.replace(STATE, &state.display().to_string());
    let text = text.replace("/etc/cpushield", &dir.join("etc").display().to_string());
    let text = text.replace("/usr/share", &dir.join("share").display().to_string());
    let ran = Command::new("sh").args(["-c", &text, "script", argument]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    names(&state)
}

#[test]
fn a_purge_leaves_the_journals_that_another_installation_uses() {
    let purge = |files: &[&str]| run_script("debian/postrm", "purge", files);
    assert_eq!(purge(&["journal-1.jsonl", "lock"]), Vec::<String>::new());
    for used in ["at-boot.json", "boot.json", "journal.jsonl"] {
        assert_eq!(purge(&[used]), [used]);
    }
    assert_eq!(run_script("debian/postrm", "remove", &["lock"]), ["lock"]);
}

#[test]
fn removing_the_rpm_leaves_no_lock_files() {
    let locks = ["lock", "try.lock", "waiting.lock", "experiment.lock", "tracer.lock"];
    assert_eq!(run_script("rpm/postun", "0", &locks), Vec::<String>::new());
    assert_eq!(run_script("rpm/postun", "0", &["journal.jsonl", "lock"]), ["journal.jsonl"]);
    assert_eq!(run_script("rpm/postun", "1", &["lock"]), ["lock"]);
}
