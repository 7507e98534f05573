//! When a newcomer would have its first token: the next steps, played through in numbers.

use crate::load::Rates;
use crate::view::{ENDS, View};

/// Steps that are played through at most. What takes longer than that is late for anybody.
const STEPS: usize = 512;

/// Somebody at the door, and who goes before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Newcomer {
    /// Prompt tokens it needs computed.
    pub prompt: f64,
    /// Places in the batch it takes.
    pub sequences: f64,
    /// Prompt tokens to be computed before.
    pub tokens: f64,
    /// Sequences that get a place before.
    pub waiting: f64,
    /// Places that make way.
    pub yielding: f64,
    /// Share of the prefill time that is left for it and those before.
    pub share: f64,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Forecast {
    /// Seconds to its first token.
    pub first: f64,
    /// How long a step is that only decodes, when it has joined.
    pub decoding: f64,
    /// How long a step is that also prefills.
    pub step: f64,
}

/// Plays the lane of `max_seqs` places forward from `now` until the newcomer's prompt is computed. `until` seconds from
/// now are enough: what comes later is told by the rate so far.
pub(crate) fn forecast(view: &View, now: f64, max_seqs: f64, newcomer: &Newcomer, until: f64) -> Forecast {
    let Rates { base, prefill, decode, kv } = view.rates;
    let before = view.entering + newcomer.waiting;
    // Tokens of one of those before.
    let each = newcomer.tokens / before.max(1.0);
    let all = newcomer.tokens + newcomer.prompt;
    let mut at = (view.free_at - now).max(0.0);
    let (mut done, mut passed, mut decodes, mut read) = (0.0, 0.0_f64, view.decodes, view.kv);
    let mut step = view.budget;
    for _ in 0..STEPS {
        if done >= all || at > until {
            break;
        }
        let ended = ended(view, passed);
        let places = (max_seqs - view.active + ended + newcomer.yielding).max(0.0);
        let joined = places.min(newcomer.waiting);
        let has_place = places >= newcomer.waiting + newcomer.sequences.min(max_seqs);
        let reachable = if has_place { all } else { each * (view.entering + joined) };
        let decoding = base + decode * decodes + kv * read;
        let rows =
            ((view.budget - decoding) / prefill * newcomer.share).max(1.0).min((reachable - done).max(0.0));
        step = decoding + prefill * rows / newcomer.share;
        done += rows;
        at += step;
        passed += 1.0;
        let entered = if each > 0.0 { (done / each).min(before) } else { 0.0 };
        decodes = (view.decodes - ended.min(view.decodes) + entered).min(max_seqs);
        read = view.kv * decodes / view.decodes.max(1.0) + entered * each;
    }
    if done < all {
        // By the rate so far: good enough to say how late it is.
        at *= all / f64::max(done, 1.0);
    }
    let decodes = (decodes + newcomer.sequences).min(max_seqs);
    let read = read + newcomer.prompt * newcomer.sequences;
    Forecast { first: at, decoding: base + decode * decodes + kv * read, step }
}

/// Sequences of the batch that have ended, most likely, after so many steps.
fn ended(view: &View, steps: f64) -> f64 {
    if steps < 1.0 {
        return view.ends[0] * steps;
    }
    let octave = steps.log2();
    let (below, rest) = (octave.floor(), octave.fract());
    let at = |octave: f64| view.ends[(octave as usize).min(ENDS - 1)];
    at(below) + (at(below + 1.0) - at(below)) * rest
}

/// Seconds to the first token of `prompt` tokens on a lane that does nothing else, at `rates`.
pub(crate) fn idle(rates: &Rates, budget: f64, prompt: f64) -> f64 {
    let Rates { base, prefill, kv, .. } = *rates;
    let steps = (prompt * prefill / (budget - base).max(prefill)).ceil().max(1.0);
    prompt * prefill + base * steps + kv * prompt * prompt / 2.0
}
