//! Caches from level 2 on, from `/sys/devices/system/cpu/cpu*/cache`. (Level 1 belongs to a core
//! and affects no decision.) Each cache is read from the first of its CPUs: the kernel makes the
//! relation symmetric (`cache_shared_cpu_map_setup()` in drivers/base/cacheinfo.c, 6.12). CPUs of
//! one model have the same caches, so only their sharers are read again.

use super::Cache;
use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use cpushield_linux::CpuSet;
use cpushield_linux::text::size;
use std::collections::BTreeMap;

/// The lowest level that is read.
const LEVEL_MIN: u32 = 2;

/// The kind of a cache: its level, and `Data` or `Unified`.
type CacheKind = (u32, String);

/// A cache that every CPU of a model has.
#[derive(Debug, Clone)]
struct CacheShape {
    index: usize,
    kind: CacheKind,
    size_kib: Option<u64>,
}

/// Reads the caches of CPUs one by one. CPUs with an equal `Model` have the same caches.
pub(super) struct CacheReader<'a, Model> {
    r: &'a SurveyReader<'a>,
    online: &'a CpuSet,
    models: BTreeMap<Model, Vec<CacheShape>>,
    /// The sharers that were read, by kind of cache and by CPU.
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
            if let Some(caches) = self.read_known_model(cpu, &shapes) {
                return caches;
            }
        }
        let shapes = self.read_shapes(cpu);
        let caches = shapes.iter().map(|shape| {
            let shared = self.read_sharers(cpu, shape).unwrap_or_else(|| CpuSet::single(cpu));
            to_cache(shape, shared)
        });
        let caches = caches.collect();
        self.models.entry(model).or_insert(shapes);
        caches
    }

    /// The caches of a CPU of a known model; `None` when it does not have all of them.
    fn read_known_model(&mut self, cpu: usize, shapes: &[CacheShape]) -> Option<Vec<Cache>> {
        shapes.iter().map(|shape| Some(to_cache(shape, self.read_sharers(cpu, shape)?))).collect()
    }

    /// Levels, kinds and sizes, from near to far.
    fn read_shapes(&self, cpu: usize) -> Vec<CacheShape> {
        let indexes = self.r.numbered(&directory(cpu), "index");
        let mut shapes: Vec<CacheShape> =
            indexes.into_iter().filter_map(|index| self.read_shape(cpu, index)).collect();
        shapes.sort_by(|a, b| a.kind.cmp(&b.kind));
        shapes
    }

    fn read_shape(&self, cpu: usize, index: usize) -> Option<CacheShape> {
        let dir = format!("{}/index{index}", directory(cpu));
        let level = self.r.number(&format!("{dir}/level")).filter(|level| *level >= LEVEL_MIN)?;
        let kind = self.r.line(&format!("{dir}/type")).filter(|kind| kind != "Instruction")?;
        let size_path = format!("{dir}/size");
        let size_kib = self.r.line(&size_path).and_then(|text| {
            let kib = size::kib(&text).map_err(|error| error.at(&size_path));
            self.r.required(kib).filter(|kib| *kib > 0)
        });
        Some(CacheShape { index, kind: (level, kind), size_kib })
    }

    /// The online CPUs that share a cache, read once for all of them; `None` when unknown.
    fn read_sharers(&mut self, cpu: usize, shape: &CacheShape) -> Option<CpuSet> {
        let known = self.known.entry(shape.kind.clone()).or_default();
        if let Some(shared) = known.get(&cpu) {
            return Some(shared.clone());
        }
        let dir = format!("{}/index{}", directory(cpu), shape.index);
        let (list, mask) = (format!("{dir}/shared_cpu_list"), format!("{dir}/shared_cpu_map"));
        let shared = self.r.set(&[(&mask, Mask), (&list, List)])?;
        let shared = shared.union(&CpuSet::single(cpu)).intersection(self.online);
        for member in shared.iter() {
            known.entry(member).or_insert_with(|| shared.clone());
        }
        Some(shared)
    }
}

fn directory(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cache")
}

fn to_cache(shape: &CacheShape, shared: CpuSet) -> Cache {
    let (level, kind) = shape.kind.clone();
    Cache { level, kind, size_kib: shape.size_kib, shared }
}
