//! The wasmtime engine of the process: its configuration, the compiled code, the epoch clock.

mod code_cache;
mod compilations;
mod ticker;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use hexad_limits::instance_permit::STALLED_INSTANCES;
use hexad_manifest::MEMORY_CEILING;
use hexad_support::digest::Digest;
use hexad_support::machine;
use hexad_support::memory;
use wasmtime::component::{Component, Linker};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, Memory, MemoryType, OptLevel, PoolingAllocationConfig, Store,
};

use crate::guest::{self, Guest};

use code_cache::CodeCache;
pub use code_cache::CodeCacheError;
use compilations::Compilations;
use ticker::Ticker;

/// The most instances of all components and shards together: 512, and the stalled ones.
const MAX_INSTANCES: u32 = 512 + STALLED_INSTANCES as u32;

/// Bits of the address space that the pool must be able to reserve: 768 memories of about 6 GiB.
const POOL_ADDRESS_BITS: u32 = 43;

/// The engine and its linker, which all hosts of a process share.
pub struct Runtime {
    engine: Engine,
    linker: Linker<Guest>,
    cache: Option<CodeCache>,
    compilations: Compilations,
    _ticker: Ticker,
}

/// Why the engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("cannot set up the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
    #[error(transparent)]
    CodeCache(#[from] CodeCacheError),
    #[error("cannot start the epoch clock: {0}")]
    Ticker(std::io::Error),
}

impl Runtime {
    /// `cache` is a folder for compiled code. Only this user may write to it, because the host executes
    /// its files.
    pub fn new(cache: Option<PathBuf>) -> Result<Arc<Self>, RuntimeError> {
        Self::with(&config(), cache)
    }

    /// A runtime for components that the host checks and does not serve. It compiles faster, and the code runs slower.
    pub fn for_checks() -> Result<Arc<Self>, RuntimeError> {
        let mut config = config();
        config.cranelift_opt_level(OptLevel::None);
        Self::with(&config, None)
    }

    fn with(config: &Config, cache: Option<PathBuf>) -> Result<Arc<Self>, RuntimeError> {
        let engine = Engine::new(config).map_err(RuntimeError::Engine)?;
        let linker = guest::linker(&engine).map_err(RuntimeError::Engine)?;
        let cache = cache.map(|folder| CodeCache::open(folder, &engine)).transpose()?;
        let ticker = Ticker::start(&engine).map_err(RuntimeError::Ticker)?;
        let compilations = Compilations::new(machine::memory());
        Ok(Arc::new(Self { engine, linker, cache, compilations, _ticker: ticker }))
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn linker(&self) -> &Linker<Guest> {
        &self.linker
    }

    /// Removes compiled code from the cache that is not `wanted` and was not used for a long time.
    pub fn prune_cache(&self, wanted: &[Digest]) {
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.prune(wanted, SystemTime::now())) {
            tracing::warn!(%error, "compiled code that is not used cannot be removed");
        }
    }

    /// Keeps code in the cache, unless there is code for this component already. The host ignores code that this
    /// processor cannot run, and compiles the component.
    ///
    /// # Safety
    ///
    /// The code must be unchanged since [`compile_for_baseline`], because the host executes it.
    pub unsafe fn adopt(&self, digest: &Digest, code: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.adopt(digest, code);
        }
    }

    /// Takes the code of the component with this id from the cache, or compiles it once memory is free.
    pub fn compile(&self, id: &str, wasm: &[u8]) -> wasmtime::Result<(Digest, Component)> {
        // This host did not write compiled code in the input, so it must not execute it.
        if Engine::detect_precompiled(wasm).is_some() {
            wasmtime::bail!("it is compiled code; give the WebAssembly component itself");
        }
        let digest = Digest::of(wasm);
        let component = match &self.cache {
            Some(cache) => cache.load_or_compile(&self.engine, &digest, (id, wasm), &self.compilations)?,
            None => {
                let _compilation = self.compilations.begin(id, wasm.len());
                Component::from_binary(&self.engine, wasm)?
            }
        };
        // Otherwise, the first request would wait for it.
        component.initialize_copy_on_write_image()?;
        memory::release_free_memory();
        Ok((digest, component))
    }
}

/// Compiles a component for every processor of the last ten years: x86-64-v3, or the first version of a newer
/// architecture.
pub fn compile_for_baseline(wasm: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let mut config = config();
    // With a target, wasmtime does not look at the processor of this machine.
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    if cfg!(target_arch = "x86_64") {
        // SAFETY: the code runs only where the engine finds these instructions.
        unsafe { config.cranelift_flag_enable("x86-64-v3") };
    }
    Engine::new(&config)?.precompile_component(wasm)
}

fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.cranelift_opt_level(OptLevel::Speed);
    config.parallel_compilation(true);
    config.memory_init_cow(true);
    // Capturing a backtrace makes the other requests of the shard wait.
    config.wasm_backtrace_max_frames(NonZeroUsize::new(16));
    if pool_fits() {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    } else {
        tracing::warn!("too little address space for an instance pool; instances start more slowly");
    }
    config
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(MAX_INSTANCES);
    pool.total_memories(MAX_INSTANCES);
    pool.total_stacks(MAX_INSTANCES);
    // A component has several core instances (adapter, shim) and tables.
    pool.total_core_instances(4 * MAX_INSTANCES);
    pool.total_tables(2 * MAX_INSTANCES);
    pool.max_memory_size(usize::try_from(MEMORY_CEILING).unwrap_or(usize::MAX));
    // Spin's values: the defaults are too small for large guests.
    pool.table_elements(100_000);
    pool.max_component_instance_size(10 * 1024 * 1024);
    pool.max_core_instance_size(10 * 1024 * 1024);
    pool.max_memories_per_component(8);
    pool
}

/// Whether the system lets the pool reserve its address space, by trying it. Some machines and containers allow less
/// than the hardware.
fn pool_fits() -> bool {
    const PAGE_BITS: u32 = 16;
    let mut config = Config::new();
    config.wasm_memory64(true);
    config.memory_reservation(1 << POOL_ADDRESS_BITS);
    let Ok(engine) = Engine::new(&config) else {
        return false;
    };
    let memory = MemoryType::new64(0, Some(1 << (POOL_ADDRESS_BITS - PAGE_BITS)));
    Memory::new(&mut Store::new(&engine, ()), memory).is_ok()
}
