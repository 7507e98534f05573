//! What computes: the instruction set and the threads.

use crate::config;
use crate::config::keys::Kernel;
use anyhow::{Context, anyhow};
use plimsoll_host::Host;
use plimsoll_kernels::{Compute as Kernels, Isa, Team};
use plimsoll_model::decoder::SharedCompute;
use std::sync::{Arc, Mutex};

/// Computing threads give way to those that talk to clients.
const COMPUTE_NICE: i32 = 5;

/// What computes, for all models of the process.
#[derive(Clone)]
pub struct Compute {
    pub isa: Isa,
    pub threads: usize,
    shared: SharedCompute,
}

impl Compute {
    /// The best of this machine, or what the configuration forces.
    pub fn new(wanted: config::Compute) -> anyhow::Result<Self> {
        let isa = match wanted.kernel {
            Kernel::Auto => Isa::detect(),
            Kernel::Avx512 => forced("avx512")?,
            Kernel::Avx2 => forced("avx2")?,
            Kernel::Portable => forced("portable")?,
        };
        let threads = wanted.threads.unwrap_or_else(|| Host::this().cores().usable());
        let team = Team::new(threads, |_| {
            // Refused in some containers; then they compete as equals.
            plimsoll_host::thread::set_nice(COMPUTE_NICE).ok();
        });
        let team =
            team.with_context(|| format!("cannot start {threads} computing threads; lower --threads"))?;
        let mut kernels = Kernels::new(isa, team);
        kernels.set_prefetch(wanted.prefetch);
        Ok(Self { isa, threads, shared: Arc::new(Mutex::new(kernels)) })
    }

    /// What engines compute with, one at a time.
    pub fn shared(&self) -> SharedCompute {
        Arc::clone(&self.shared)
    }
}

fn forced(name: &str) -> anyhow::Result<Isa> {
    name.parse().map_err(|error: String| anyhow!(error))
}
