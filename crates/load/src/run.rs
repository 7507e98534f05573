//! One run: every request of a plan is sent at its time, whatever became of those before it (an open loop).

use crate::client::{Ask, Client};
use crate::conversation::Writer;
use crate::cpu;
use crate::exchange::Exchange;
use crate::manner::Conduct;
use crate::openai::{Message, Role};
use crate::prompts::derived;
use crate::record::{Outcome, Record};
use crate::stop::Stop;
use crate::workload::{Offer, Plan, Workload};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use plimsoll_host::Host;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How a run goes about it.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Most requests under way; those beyond wait here, and the wait counts.
    pub max_in_flight: usize,
    /// Which of the runs that the seed could give.
    pub round: u64,
    /// A process of this machine whose memory is read, and how often.
    pub watched: Option<(u32, Duration)>,
    /// Ends it before its time.
    pub stop: Stop,
}

/// What a run tells while it goes.
pub trait Watch {
    /// A request is over, `in_flight` others are not. `false` ends the run: what is under way is given up.
    fn over(&mut self, record: &Record, in_flight: usize) -> bool;
}

/// What a run was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Every request that was sent, in the order in which they ended.
    pub records: Vec<Record>,
    /// Seconds over which the measured requests were offered.
    pub window: f64,
    /// Seconds from the start to the end of the last request.
    pub wall: f64,
    /// Seconds from the start, and the resident memory of the watched process then, in bytes.
    pub rss: Vec<(f64, u64)>,
    /// Seconds of processor time that this process took.
    pub cpu: f64,
    /// Ended before its time, by who watched it or by [`Stop`].
    pub cut_short: bool,
}

/// A request on the agenda.
#[derive(Debug)]
struct Turn {
    offer: Offer,
    turn: u32,
    /// When it should be sent, in seconds from the start.
    intended: f64,
    messages: Vec<Message>,
}

/// Requests by the time they are due, in microseconds; the second number keeps equal times in their order.
type Agenda = BinaryHeap<Reverse<(u64, u64)>>;

struct Runner<'a> {
    client: &'a Client,
    workload: &'a Workload,
    writer: Writer,
    warmup: f64,
    start: Instant,
    agenda: Agenda,
    /// Further turns of conversations, by their key in the agenda; a first turn has none and is made when it is due.
    turns: BTreeMap<u64, Turn>,
    /// When it was told to send nothing more.
    stopped: Option<Instant>,
}

/// Sends all of `plan` and waits for every answer. Finite: each request has its time limit.
pub async fn run(
    client: &Client,
    workload: &Workload,
    plan: &Plan,
    options: RunOptions,
    watch: &mut dyn Watch,
) -> Run {
    let cpu_before = cpu::seconds();
    let mut runner = Runner::new(client, workload, plan, options.round);
    let mut run = Run::default();
    let mut under_way = FuturesUnordered::new();
    let mut memory = Memory::new(options.watched, runner.start);
    loop {
        let next = runner.due().filter(|_| under_way.len() < options.max_in_flight.max(1));
        let has_work = next.is_some() || !under_way.is_empty();
        tokio::select! {
            biased;
            () = wait(next), if next.is_some() => {
                if let Some(turn) = runner.take(plan) {
                    under_way.push(runner.send(turn));
                }
            }
            Some((record, follows)) = under_way.next(), if !under_way.is_empty() => {
                let goes_on = watch.over(&record, under_way.len());
                run.records.push(record);
                run.cut_short |= follows.is_some() && runner.stopped.is_some();
                runner.agenda_add(follows);
                if !goes_on {
                    run.cut_short = true;
                    break;
                }
            }
            () = options.stop.stopped(), if has_work && runner.stopped.is_none() => run.cut_short |= runner.stop(),
            () = options.stop.given_up(), if has_work => {
                run.cut_short |= !under_way.is_empty();
                break;
            }
            () = memory.due(), if has_work => memory.read(),
            else => break,
        }
    }
    // Dropping what is under way hangs up.
    memory.read();
    run.rss = memory.readings;
    run.wall = runner.start.elapsed().as_secs_f64();
    run.cpu = cpu::seconds() - cpu_before;
    let until =
        runner.stopped.map_or(run.wall, |at| at.saturating_duration_since(runner.start).as_secs_f64());
    let offered_until = if run.cut_short { until.min(plan.span) } else { plan.span };
    let last = run.records.iter().map(|record| record.intended).fold(offered_until, f64::max);
    run.window = (last - plan.warmup).max(1e-3);
    run
}

async fn wait(until: Option<Instant>) {
    if let Some(until) = until {
        sleep_until(until).await;
    }
}

/// The memory of the watched process, over the run.
struct Memory {
    watched: Option<(u32, Duration)>,
    start: Instant,
    next: Instant,
    readings: Vec<(f64, u64)>,
}

impl Memory {
    fn new(watched: Option<(u32, Duration)>, start: Instant) -> Self {
        let next = watched.map_or(start, |(_, every)| start + every);
        Self { watched, start, next, readings: Vec::new() }
    }

    /// Waits for the next reading; for ever if nothing is watched.
    async fn due(&self) {
        match self.watched {
            Some(_) => sleep_until(self.next).await,
            None => std::future::pending().await,
        }
    }

    fn read(&mut self) {
        let Some((pid, every)) = self.watched else { return };
        // Stands for the end of its window, however late it is read.
        let at = self.next.min(Instant::now()).saturating_duration_since(self.start).as_secs_f64();
        self.next += every;
        self.readings.extend(Host::this().resident_of(pid).map(|resident| (at, resident.now)));
    }
}

impl<'a> Runner<'a> {
    fn new(client: &'a Client, workload: &'a Workload, plan: &Plan, round: u64) -> Self {
        let seed = (workload.seed, round);
        let writer =
            Writer { calibration: client.calibration(), shared_prefix: workload.shared_prefix, seed };
        let agenda = plan.offers.iter().map(|offer| Reverse((micros(offer.at), offer.id))).collect();
        Self {
            client,
            workload,
            writer,
            warmup: plan.warmup,
            // A breath to get going, so that the first is not late.
            start: Instant::now() + Duration::from_millis(5),
            agenda,
            turns: BTreeMap::new(),
            stopped: None,
        }
    }

    /// From now on nothing is sent; whether anything would have been.
    fn stop(&mut self) -> bool {
        self.stopped = Some(Instant::now());
        self.turns.clear();
        !std::mem::take(&mut self.agenda).is_empty()
    }

    /// When the next request is due.
    fn due(&self) -> Option<Instant> {
        let Reverse((at, _)) = self.agenda.peek()?;
        Some(self.start + Duration::from_micros(*at))
    }

    fn take(&mut self, plan: &Plan) -> Option<Turn> {
        let Reverse((_, key)) = self.agenda.pop()?;
        if let Some(turn) = self.turns.remove(&key) {
            return Some(turn);
        }
        let offer = *plan.offers.get(usize::try_from(key).ok()?)?;
        Some(Turn { offer, turn: 0, intended: offer.at, messages: vec![self.writer.first(&offer)] })
    }

    /// One request; the next turn of its conversation comes with its record.
    fn send(&self, turn: Turn) -> impl Future<Output = (Record, Option<Turn>)> + use<'a> {
        let (client, workload, writer, start, warmup) =
            (self.client, self.workload, self.writer, self.start, self.warmup);
        async move {
            let more = workload.sessions.filter(|sessions| turn.turn + 1 < sessions.turns);
            let ask = Ask {
                messages: &turn.messages,
                max_tokens: turn.offer.output_tokens,
                priority: workload.mix.get(turn.offer.class).map(|class| class.name.as_str()),
                keep_text: more.is_some(),
                conduct: turn.conduct(workload.seed),
            };
            let asked = client.ask(&ask).await;
            let record = record(&turn, &asked, start, warmup);
            let follows = more.filter(|_| record.outcome == Outcome::Done).map(|sessions| {
                let think = sessions.think.as_secs_f64() * exponential(workload.seed, &turn);
                next_turn(turn, asked.text, writer, record.end + think)
            });
            (record, follows)
        }
    }

    fn agenda_add(&mut self, turn: Option<Turn>) {
        let Some(turn) = turn.filter(|_| self.stopped.is_none()) else { return };
        // Above every number of a first turn.
        let key = (u64::from(turn.turn) << 40) | turn.offer.id;
        self.agenda.push(Reverse((micros(turn.intended), key)));
        self.turns.insert(key, turn);
    }
}

impl Turn {
    /// What its client does; another thing in each turn.
    fn conduct(&self, seed: u64) -> Conduct {
        const CONDUCT: u64 = 9;
        let seed = derived(derived(seed, CONDUCT, self.offer.id), 0, u64::from(self.turn));
        self.offer.manner.conduct(seed, self.offer.output_tokens)
    }
}

fn next_turn(turn: Turn, answer: String, writer: Writer, intended: f64) -> Turn {
    let Turn { offer, turn, mut messages, .. } = turn;
    messages.push(Message { role: Role::Assistant, content: answer });
    messages.push(writer.next(&offer, turn + 1));
    Turn { offer, turn: turn + 1, intended, messages }
}

/// A gap of mean 1.
fn exponential(seed: u64, turn: &Turn) -> f64 {
    const THINKING: u64 = 7;
    let seed = derived(derived(seed, THINKING, turn.offer.id), 0, u64::from(turn.turn));
    -(1.0 - fastrand::Rng::with_seed(seed).f64()).ln()
}

fn record(turn: &Turn, asked: &Exchange, start: Instant, warmup: f64) -> Record {
    let seconds = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
    let usage = asked.usage.unwrap_or_default();
    Record {
        id: turn.offer.id,
        class: turn.offer.class,
        manner: turn.offer.manner,
        turn: turn.turn,
        measured: turn.intended >= warmup,
        intended: turn.intended,
        sent: seconds(asked.sent).max(turn.intended),
        first: asked.first.map(seconds),
        last: asked.last.map(seconds),
        end: seconds(asked.end),
        chunks: asked.chunks,
        gaps_ms: asked.gaps_ms.clone(),
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
        completion_tokens: usage.completion_tokens,
        outcome: asked.outcome,
        message: asked.message.clone(),
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}
