//! The requests a lane's thread has, by the numbers of their sequences.

use crate::admission::Admission;
use crate::link::Item;
use crate::request::Request;
use plimsoll_api::error::Error;
use plimsoll_sched::{Arrival, Event, Planner, SeqId, Start};
use std::time::Instant;

/// The requests of a lane, in the order of arrival; and what happened to them, for the planner.
#[derive(Default)]
pub(super) struct Roster {
    requests: Vec<Request>,
    next: u64,
    pub(super) events: Vec<Event>,
}

impl Roster {
    /// Room for the requests of so many sequences, and for what happens to them in a step.
    pub(super) fn with_room(sequences: usize) -> Self {
        // Each may arrive, fill a block and finish between two plans; and there is a word on the step itself.
        let events = Vec::with_capacity(3 * sequences + 64);
        Self { requests: Vec::with_capacity(sequences), next: 0, events }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// How many sequences it ever took in.
    pub(super) fn taken(&self) -> u64 {
        self.next
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The request of a sequence, and which of its continuations that is.
    pub(super) fn find(&self, seq: SeqId) -> Option<(usize, usize)> {
        let after = self.requests.partition_point(|request| request.first <= seq);
        let i = after.checked_sub(1)?;
        let choice = usize::try_from(seq.0 - self.requests[i].first.0).ok()?;
        (choice < self.requests[i].sequences.len()).then_some((i, choice))
    }

    pub(super) fn get_mut(&mut self, i: usize) -> &mut Request {
        &mut self.requests[i]
    }

    /// Takes a request in and numbers its sequences. Their names go to lists of the planner's.
    pub(super) fn arrive(&mut self, mut request: Request, planner: &mut Planner) {
        request.first = SeqId(self.next);
        self.next += request.sequences.len() as u64;
        let all_logits = request.scores.of_prompt;
        let (first, deadlines) = (request.first, request.deadlines);
        let arrivals = request.sequences.iter().enumerate().map(|(i, sequence)| {
            let seq = SeqId(first.0 + i as u64);
            let (prompt, max_len) = (sequence.prompt, sequence.max_len);
            let mut names = planner.spare_names();
            names.extend_from_slice(&sequence.names);
            let fork_of = (i > 0).then_some(first);
            Event::Arrived(Arrival { seq, prompt, max_len, all_logits, names, fork_of, deadlines })
        });
        self.events.extend(arrivals);
        self.requests.push(request);
    }

    /// The planner has said what follows from those that arrived.
    pub(super) fn published(&mut self) {
        let coming = self.requests.iter_mut().rev().map(|request| &mut request.admission);
        coming.take_while(|admission| admission.is_coming()).for_each(Admission::arrived);
    }

    /// Notes what a sequence that joined the batch found in the cache, for the usage its reader is told. Returns how
    /// many tokens of its prompt that is.
    pub(super) fn start(&mut self, start: &Start) -> usize {
        let Some((i, choice)) = self.find(start.seq) else { return 0 };
        let request = &mut self.requests[i];
        let tokens = start.shared.min(request.sequences[choice].prompt);
        if choice == 0 && !request.has_started {
            request.control().set_cached_tokens(tokens);
        }
        tokens
    }

    /// Looks for readers that left, have enough, or made room. Calls `satisfied` for each request that is over because
    /// its reader has enough.
    pub(super) fn look(&mut self, satisfied: impl Fn(&Request)) {
        for request in &mut self.requests {
            let control = request.out.control();
            for (i, sequence) in request.sequences.iter_mut().enumerate() {
                if !sequence.is_done && control.is_over(i) {
                    sequence.is_done = true;
                    self.events.push(Event::Cancelled(SeqId(request.first.0 + i as u64)));
                }
            }
            if request.is_done() && !request.control().is_gone() {
                request.answered(Instant::now());
                satisfied(request);
            }
            if request.is_paused && request.has_room() {
                request.is_paused = false;
                request.control().set_paused(false);
                self.events.extend(request.running().map(Event::Resumed));
            }
        }
        self.drop_done();
    }

    /// Wakes the readers of requests `touched` by a step, pauses those whose ring is nearly full, and lets the finished
    /// ones go.
    pub(super) fn settle(&mut self, touched: impl Iterator<Item = SeqId>) {
        for seq in touched {
            if let Some((i, _)) = self.find(seq) {
                self.requests[i].wake();
                self.pause_if_full(i);
            }
        }
        self.drop_done();
    }

    fn pause_if_full(&mut self, i: usize) {
        let request = &mut self.requests[i];
        if request.is_paused || request.out.free() >= request.items_per_step() {
            return;
        }
        request.control().set_paused(true);
        if request.has_room() {
            request.control().set_paused(false);
            return;
        }
        request.is_paused = true;
        self.events.extend(request.running().map(Event::Paused));
    }

    /// Ends the requests of the sequences in `lost` with `error`. Returns how many that were.
    pub(super) fn fail(&mut self, lost: impl Iterator<Item = SeqId>, error: &Error) -> usize {
        let mut ended = 0;
        for seq in lost {
            if let Some((i, _)) = self.find(seq) {
                ended += usize::from(self.fail_request(i, error));
            }
        }
        self.drop_done();
        ended
    }

    /// Ends all requests with `error`.
    pub(super) fn fail_all(&mut self, error: &Error) {
        (0..self.requests.len()).for_each(|i| _ = self.fail_request(i, error));
        self.drop_done();
    }

    fn fail_request(&mut self, i: usize, error: &Error) -> bool {
        let request = &mut self.requests[i];
        if request.is_done() {
            return false;
        }
        self.events.extend(request.running().map(Event::Cancelled));
        request.sequences.iter_mut().for_each(|sequence| sequence.is_done = true);
        request.push(Item::Failed(Box::new(error.clone())));
        request.wake();
        true
    }

    fn drop_done(&mut self) {
        self.requests.retain(|request| !request.is_done());
    }
}
