//! A turnstile before each step, in the test's hand.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Lets the test say when a step runs, and wait until one is about to. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct StepGate {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// Steps that may still run.
    allowed: usize,
    is_open: bool,
    /// Steps that wait.
    waiting: usize,
    passed: usize,
}

impl StepGate {
    /// Lets `steps` more steps run.
    pub fn allow(&self, steps: usize) {
        self.change(|state| state.allowed += steps);
    }

    /// Lets all steps run from now on.
    pub fn open(&self) {
        self.change(|state| state.is_open = true);
    }

    /// Lets no step run from now on.
    pub fn close(&self) {
        self.change(|state| (state.is_open, state.allowed) = (false, 0));
    }

    /// Waits until a step stands at the gate and may not run.
    pub fn wait_until_blocked(&self) {
        drop(self.wait(|state| state.waiting > 0 && state.allowed == 0));
    }

    /// Steps that ran.
    pub fn passed(&self) -> usize {
        self.lock().passed
    }

    /// Called by the engine: waits until a step may run.
    pub(super) fn pass(&self) {
        self.change(|state| state.waiting += 1);
        let mut state = self.wait(|state| state.is_open || state.allowed > 0);
        state.waiting -= 1;
        state.passed += 1;
        state.allowed = state.allowed.saturating_sub(1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.shared.1.notify_all();
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let wait = self.shared.1.wait_while(self.lock(), |state| !until(state));
        wait.unwrap_or_else(PoisonError::into_inner)
    }
}
