//! Caches from level 2 outwards, from `/sys/devices/system/cpu/cpu*/cache`. (Level 1 belongs to a
//! core; nothing is decided by it.) A cache is described by the first of its CPUs: the kernel makes
//! the relation symmetric (`cache_shared_cpu_map_setup()` in drivers/base/cacheinfo.c, 6.12). CPUs
//! of one model have the same caches, so that only their sharers are read again.

use super::Cache;
use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use cpushield_linux::CpuSet;
use cpushield_linux::text::size;
use std::collections::BTreeMap;

/// Nearer caches are not read.
const LEVEL_MIN: u32 = 2;

/// What caches of one kind are: level, and `Data` or `Unified`.
type CacheKind = (u32, String);

/// One cache of every CPU of a model.
#[derive(Debug, Clone)]
struct CacheShape {
    index: usize,
    kind: CacheKind,
    size_kib: Option<u64>,
}

/// Reads the caches of one CPU after the other. `Model` is what alike CPUs have in common.
pub(super) struct CacheReader<'a, Model> {
    r: &'a SurveyReader<'a>,
    online: &'a CpuSet,
    models: BTreeMap<Model, Vec<CacheShape>>,
    /// The sharers that were read, by the kind of cache and by each of their CPUs.
    known: BTreeMap<CacheKind, BTreeMap<usize, CpuSet>>,
}

impl<'a, Model: Ord> CacheReader<'a, Model> {
    pub(super) fn new(r: &'a SurveyReader<'a>, online: &'a CpuSet) -> CacheReader<'a, Model> {
        CacheReader { r, online, models: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// The caches of a CPU, from near to far.
    pub(super) fn read(&mut self, cpu: usize, model: Model) -> Vec<Cache> {
        if let Some(shapes) = self.models.get(&model).filter(|shapes| !shapes.is_empty()) {
            let shapes = shapes.clone();
            if let Some(caches) = self.alike(cpu, &shapes) {
                return caches;
            }
        }
        let shapes = self.shapes(cpu);
        let caches = shapes.iter().map(|shape| {
            let shared = self.sharers(cpu, shape).unwrap_or_else(|| CpuSet::one(cpu));
            cache(shape, shared)
        });
        let caches = caches.collect();
        self.models.entry(model).or_insert(shapes);
        caches
    }

    /// The caches of a CPU of a known model; `None` when it has not all of them.
    fn alike(&mut self, cpu: usize, shapes: &[CacheShape]) -> Option<Vec<Cache>> {
        shapes.iter().map(|shape| Some(cache(shape, self.sharers(cpu, shape)?))).collect()
    }

    /// Levels, kinds and sizes, from near to far.
    fn shapes(&self, cpu: usize) -> Vec<CacheShape> {
        let indexes = self.r.numbered(&directory(cpu), "index");
        let mut shapes: Vec<CacheShape> =
            indexes.into_iter().filter_map(|index| self.shape(cpu, index)).collect();
        shapes.sort_by(|a, b| a.kind.cmp(&b.kind));
        shapes
    }

    fn shape(&self, cpu: usize, index: usize) -> Option<CacheShape> {
        let file = |name: &str| format!("{}/index{index}/{name}", directory(cpu));
        let level = self.r.number(&file("level")).filter(|level| *level >= LEVEL_MIN)?;
        let kind = self.r.line(&file("type")).filter(|kind| kind != "Instruction")?;
        let size_kib = self.r.line(&file("size")).and_then(|text| {
            let kib = size::kib(&text).map_err(|e| e.at(&file("size")));
            self.r.wanted(kib).filter(|kib| *kib > 0)
        });
        Some(CacheShape { index, kind: (level, kind), size_kib })
    }

    /// The online CPUs that share a cache, read once for all of them; `None` when nothing says.
    fn sharers(&mut self, cpu: usize, shape: &CacheShape) -> Option<CpuSet> {
        let known = self.known.entry(shape.kind.clone()).or_default();
        if let Some(shared) = known.get(&cpu) {
            return Some(shared.clone());
        }
        let file = |name: &str| format!("{}/index{}/{name}", directory(cpu), shape.index);
        let (list, mask) = (file("shared_cpu_list"), file("shared_cpu_map"));
        let shared = self.r.set(&[(&mask, Mask), (&list, List)])?;
        let shared = shared.union(&CpuSet::one(cpu)).and(self.online);
        for member in shared.iter() {
            known.entry(member).or_insert_with(|| shared.clone());
        }
        Some(shared)
    }
}

fn directory(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cache")
}

fn cache(shape: &CacheShape, shared: CpuSet) -> Cache {
    let (level, kind) = shape.kind.clone();
    Cache { level, kind, size_kib: shape.size_kib, shared }
}
