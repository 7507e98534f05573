//! Whether there is time for somebody who has a place.

use super::ticket::Ticket;
use super::{Ask, Refusal, Shared, TOKENS, pack, unpack};
use crate::predict::{Forecast, Newcomer, forecast, idle};
use crate::promise::{Class, Expected, Terms};
use crate::view::View;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

/// Seconds of a deadline that go to what is not predicted: tokenizing, sampling, the way out.
const WAY_OUT: f64 = 0.005;
/// Seconds that predictions look ahead when there is no deadline.
const HORIZON: f64 = 30.0;
/// What of its time a tenant may plan with that has more than its share in flight while others ask: the rest is theirs.
const OVER_SHARE: f64 = 0.6;

/// Somebody who has a place, while it is decided whether there is time for it.
pub(super) struct Visit<'a> {
    pub(super) ask: &'a Ask,
    /// Seconds.
    pub(super) now: f64,
    /// Nobody else had a place. Then the prediction is not asked: a model of costs that has gone wrong is put right by
    /// work alone.
    pub(super) is_alone: bool,
    /// Its tenant has more than its share.
    pub(super) is_over: bool,
}

impl<'a> Visit<'a> {
    /// Of somebody who has a place, among `in_flight` sequences. `tenant`: how many of these are its tenant's, and how many
    /// tenants ask.
    pub(super) fn new(ask: &'a Ask, now: Duration, tenant: (u32, u32), in_flight: u32) -> Self {
        let (own, crowd) = tenant;
        let is_over = crowd > 1 && u64::from(own) * u64::from(crowd) > u64::from(in_flight);
        Self { ask, now: now.as_secs_f64(), is_alone: in_flight <= ask.sequences, is_over }
    }
}

impl Shared {
    /// Decides by prediction, and counts the newcomer among those who are coming, instead of what it counted for before.
    pub(super) fn let_in(&self, visit: &Visit<'_>, ticket: &mut Ticket) -> Result<(), Refusal> {
        let view = self.snapshot.view();
        let ask = visit.ask;
        let own = &self.coming[ask.terms.class.index()];
        let mut word = own.load(Acquire);
        loop {
            let others = word - ticket.coming;
            let expected = self.judge(visit, &view, others)?;
            let coming = pack(ask.sequences, ask.prompt.min(TOKENS));
            match own.compare_exchange_weak(word, others + coming, AcqRel, Acquire) {
                Ok(_) => {
                    (ticket.coming, ticket.expected) = (coming, Some(expected));
                    return Ok(());
                }
                Err(seen) => word = seen,
            }
        }
    }

    fn judge(&self, visit: &Visit<'_>, view: &View, own: u64) -> Result<Expected, Refusal> {
        let Ask { terms, prompt, arrived, .. } = *visit.ask;
        let computed = (prompt as f64 * view.fresh).max(1.0);
        let alone = idle(&view.best, view.idle_budget, computed);
        let is_never =
            |limit: Option<Duration>, takes: f64| limit.is_some_and(|limit| takes > limit.as_secs_f64());
        if is_never(terms.ttft, alone)
            || is_never(terms.e2e, alone)
            || is_never(terms.itl, view.best.base + view.best.decode)
        {
            return Err(Refusal::Never);
        }
        let time = |limit: Option<Duration>| {
            let share = if visit.is_over { OVER_SHARE } else { 1.0 };
            limit.map(|limit| arrived.as_secs_f64() - visit.now - WAY_OUT + limit.as_secs_f64() * share)
        };
        let (first_by, last_by) = (time(terms.ttft), time(terms.e2e));
        let newcomer = self.newcomer(visit.ask, view, own, computed);
        let until = first_by.map_or(HORIZON, |by| by.max(0.0) + HORIZON);
        let seen = forecast(view, visit.now, f64::from(self.door.places), &newcomer, until);
        let [near, far] = view.allowance.map(|allowance| allowance[terms.class.index()]);
        let at_most = seen.first + near + far * seen.first;
        // Somebody may have come in since it was found to be alone.
        let is_alone = visit.is_alone && newcomer.waiting <= 0.0 && newcomer.tokens <= 0.0 && own == 0;
        let late = |by: Option<f64>, at: f64| by.map_or(0.0, |by| at - by);
        let all = self.output(visit.ask, view) * seen.step.max(seen.decoding);
        let ends_late = late(last_by, at_most + all / view.aim_last[terms.class.index()]);
        if !is_alone {
            let over = late(first_by, at_most).max(ends_late).max(overtaking(visit, view, &newcomer));
            if over > 0.0 {
                return Err(Refusal::Late { retry_after: Duration::from_secs_f64(over.clamp(0.05, 30.0)) });
            }
            if crowds(&terms, view, &seen) {
                return Err(Refusal::Late { retry_after: self.wait_for(1) });
            }
        }
        let after = |seconds: f64| Duration::from_secs_f64(visit.now + seconds.min(1e6));
        let at = Duration::from_secs_f64(visit.now);
        let (first, at_most) = (after(seen.first), after(at_most));
        Ok(Expected { at, first, at_most, ends_in_time: ends_late <= 0.0 })
    }

    fn newcomer(&self, ask: &Ask, view: &View, own: u64, prompt: f64) -> Newcomer {
        let class = ask.terms.class;
        let (mut tokens, mut waiting) = (0.0, 0.0);
        for other in Class::ALL.into_iter().filter(|other| *other <= class) {
            let word = if other == class { own } else { self.coming[other.index()].load(Acquire) };
            let (sequences, coming) = unpack(word);
            tokens += view.pending[other.index()] + coming as f64 * view.fresh;
            waiting += view.waiting[other.index()] + f64::from(sequences);
        }
        let less = Class::ALL.into_iter().filter(|other| *other > class && view.pending[other.index()] > 0.0);
        let kept: f64 = less.map(Class::share).sum();
        Newcomer {
            prompt,
            sequences: f64::from(ask.sequences),
            tokens,
            waiting,
            yielding: view.yielding[class.index()],
            share: (1.0 - kept) * (1.0 - view.above[class.index()]).max(class.share().max(0.1)),
        }
    }

    /// Tokens that one should be ready for: as many as nine of ten outputs have.
    fn output(&self, ask: &Ask, view: &View) -> f64 {
        ask.max_tokens
            .map_or(view.output[1].min(f64::from(u16::MAX)), |most| view.output[1].min(f64::from(most)))
    }
}

/// Seconds by which somebody who waits would be late, if the newcomer with its earlier deadline went before.
fn overtaking(visit: &Visit<'_>, view: &View, newcomer: &Newcomer) -> f64 {
    let terms = &visit.ask.terms;
    let class = terms.class.index();
    // As the planner puts it in line.
    let Some(due) = terms.ttft.or(terms.e2e) else { return 0.0 };
    if (visit.ask.arrived + due).as_secs_f64() >= view.latest[class] {
        return 0.0;
    }
    newcomer.prompt * view.rates.prefill / newcomer.share - view.slack[class]
}

/// Whether with the newcomer in the batch steps take longer than the promised gaps allow, its own or others'.
fn crowds(terms: &Terms, view: &View, seen: &Forecast) -> bool {
    let own = terms.itl.map_or(f64::INFINITY, |itl| itl.as_secs_f64() * view.aim);
    seen.decoding > own.min(view.tightest)
}
