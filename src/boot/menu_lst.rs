//! Steps for GRUB 0.97, whose menu the user edits: each kernel that its `menu.lst` lists gets the
//! words that it knows. Real-time kernels alone get words where there are any. Only reads.

use super::kernel_file::read_config;
use super::kernels;
use super::line;
use super::loaders::{ListedKernel, LoaderEntry, listed_kernels};
use super::parameters::{KernelFacts, known_words};
use cpushield_linux::Host;

/// Plans the words of one kernel; `None` when that is not possible.
pub(super) type WordsOfKernel<'a> = dyn Fn(&LoaderEntry) -> Option<Vec<String>> + 'a;

/// The steps; `None` on a machine without such a menu. `words` are those for the running kernel: a
/// listed kernel gets those of them that it knows, where it has no plan of its own.
pub(super) fn steps(
    host: &Host,
    words: &[String],
    plan_words: &WordsOfKernel<'_>,
) -> Option<Vec<String>> {
    let (path, mut kernels) = listed_kernels(host)?;
    let is_realtime = |it: &ListedKernel| kernels::is_realtime(host, &it.entry);
    if kernels.iter().any(is_realtime) {
        kernels.retain(is_realtime);
    }
    let mut steps = vec![format!("in {path}, for the kernels that should get the parameters:")];
    for ListedKernel { line, text, entry } in kernels {
        let own = plan_words(&entry).filter(|own| !own.is_empty());
        let own = own.unwrap_or_else(|| words.to_vec());
        let known = known_by(host, &entry, &own);
        let missing: Vec<&str> =
            known.iter().copied().filter(|word| !line::has(&entry.args, word)).collect();
        steps.push(match (known.as_slice(), missing.as_slice()) {
            ([], _) => {
                format!("line {line}: unchanged: this kernel supports none of the parameters")
            }
            (_, []) => format!("line {line}: unchanged: it already has the parameters"),
            (_, missing) => format!("line {line}: {text} {}", missing.join(" ")),
        });
    }
    Some(steps)
}

/// Those of the words that the kernel of an entry knows.
fn known_by<'a>(host: &Host, entry: &LoaderEntry, words: &'a [String]) -> Vec<&'a str> {
    let options = read_config(host, &[entry.release()]);
    let release = Some(entry.release()).filter(|it| !it.is_empty());
    known_words(words, &KernelFacts { options: &options, arch: None, release })
}
