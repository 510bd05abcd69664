//! Free CPUs → blocks: the CPUs in no shield, by node and cache, and what has the others. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TextLine};
use super::machine::size;
use crate::documents::free_cpus::{CpuHolding, FreeCpus, FreeGroup};
use crate::documents::plan::named;

/// The blocks of `cpushield plan --free`.
#[must_use]
pub fn blocks(found: &FreeCpus) -> Vec<ReportBlock> {
    let first = match found.free.is_empty() {
        true => "Free: none.".to_owned(),
        false => format!("Free: {}.", named(&found.free)),
    };
    let mut blocks = vec![ReportBlock::line(TextLine::new(first))];
    let rows = found.groups.iter().map(group_cells);
    blocks.extend(
        Table::new("By node and cache", ["node", "last-level cache", "free"], rows.collect())
            .into_block(),
    );
    blocks.extend(holdings("Not free", &found.taken));
    blocks.extend(holdings("Free, but isolated by the kernel", &found.isolated));
    blocks
}

fn group_cells(group: &FreeGroup) -> Vec<TableCell> {
    let cache = group.cache.as_ref().map(|cache| {
        let size = cache.size_kib.map(|kib| format!("{}, ", size(kib))).unwrap_or_default();
        format!("L{} ({size}{})", cache.level, named(&cache.shared))
    });
    let node = TableCell::known(group.node);
    vec![node, TableCell::known(cache), TableCell::new(named(&group.cpus))]
}

fn holdings(title: &str, holdings: &[CpuHolding]) -> Option<ReportBlock> {
    let rows = holdings
        .iter()
        .map(|it| [named(&it.cpus), it.holder.to_string()].map(TableCell::new).to_vec());
    Table::new(title, ["CPUs", "by"], rows.collect()).into_block()
}
