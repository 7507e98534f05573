#!/usr/bin/env python3
"""A soak: the release server offered 1.2 times a rate, with clients that misbehave, and whether it is the same at the end.

    python3 benches/soak.py MODEL.gguf [--minutes 15] [--rate R] [--plimsoll target/release/plimsoll]

The server has a promise, and so few KV blocks that sequences are parked. Beside ordinary requests come slow readers, clients that hang
up, bad requests and times too short to be met, and prompts of 300 to 600 tokens of class batch. Checked, and said with a figure each:

- memory is flat: the mean resident memory of the last third against that of the first (after a warm-up);
- nothing is left over: a minute after the last request all gauges are as they were before the first;
- throughput and P99s are flat: tokens per second, TTFT P99 and mean gap P99 of the last third against the first;
- it happened: sequences were parked, requests refused, expired or never in time, cancelled, and bad ones answered with 400; nothing was a 500.

Ends with 1 if one of them does not hold.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from serve import free_port, serving

ROOT = pathlib.Path(__file__).resolve().parent.parent
OVER = 1.2
WINDOW = 30
# What must be as it was: gauges of what somebody holds. KV blocks in the prefix cache are meant to stay.
HELD = ['plimsoll_queue_depth', 'plimsoll_running', 'plimsoll_kv_blocks{state="used"}', 'plimsoll_kv_blocks{state="shared"}',
        'plimsoll_parked_blocks{place="memory"}', 'plimsoll_parked_blocks{place="file"}']


class Metrics:
    """One reading of `/metrics`: samples by name and labels, those of the model left out."""

    def __init__(self, text):
        self.samples = {}
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*?)\})? (\S+)$", text, re.M):
            rest = ",".join(part for part in re.findall(r'\w+="[^"]*"', labels) if not part.startswith("model="))
            key = f"{name}{{{rest}}}" if rest else name
            self.samples[key] = self.samples.get(key, 0) + float(value)

    def sum(self, name, part=""):
        return sum(value for key, value in self.samples.items() if re.fullmatch(rf"{name}(\{{.*\}})?", key) and part in key)

    def held(self):
        pools = [key for key in self.samples if key.startswith("plimsoll_pool_outstanding")]
        return {key: self.samples.get(key, 0) for key in HELD + sorted(pools)}


class Watch(threading.Thread):
    """Reads the server's metrics once in a while."""

    def __init__(self, admin, every):
        super().__init__(daemon=True)
        self.url, self.every, self.over, self.readings = f"http://127.0.0.1:{admin}/metrics", every, threading.Event(), []

    def read(self):
        return Metrics(urllib.request.urlopen(self.url, timeout=30).read().decode())

    def run(self):
        while not self.over.wait(self.every):
            self.readings.append((time.monotonic(), self.read()))


class Verdicts:
    def __init__(self):
        self.all_hold = True

    def say(self, holds, text):
        self.all_hold &= holds
        print(f"{'ok  ' if holds else 'FAIL'} {text}")

    def flat(self, name, values, unit, most, may_fall=False):
        """The last third against the first. `may_fall`: only growing is bad."""
        third = len(values) // 3
        if third == 0:
            return self.say(False, f"{name}: too few windows for thirds")
        first, last = statistics.mean(values[:third]), statistics.mean(values[-third:])
        change = (last - first) / first if first else 0.0
        holds = change <= most if may_fall else abs(change) <= most
        self.say(holds, f"{name}: first third {first:.1f} {unit}, last third {last:.1f} {unit}, {100 * change:+.1f} % (allowed {100 * most:.0f} %)")


def drive(args, url, rate, name, minutes, *flags):
    """One `bench serve`; its JSON."""
    path = args.json_dir / f"{name}.json"
    command = [args.plimsoll, "bench", "serve", url, "--rate", rate, "--duration", f"{minutes * 60:.0f}s", "--slo", args.slo, "--window",
               f"{WINDOW}s", "--timeout", "120s", "--seed", args.seed, "--json", path, *flags]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench serve failed for {name}")
    return json.loads(path.read_text())["runs"][0]


def offer(args, url, pid):
    """All load at once: the ordinary with those who misbehave, and long prompts of class batch that need KV blocks."""
    rate = OVER * args.rate
    odd = ["--slow-readers", "0.05", "--hang-up", "0.1", "--bad", "0.05", "--short-timeouts", "0.1", "--pid", str(pid)]
    ordinary = ["--prompt-tokens", "60-140", "--output-tokens", "16-80", "--mix", "interactive=0.3,standard=0.7", *odd]
    batch = ["--prompt-tokens", "300-600", "--output-tokens", "64-160", "--header", "x-priority: batch"]
    runs = {}
    threads = [threading.Thread(target=lambda name=name, share=share, flags=flags: runs.update(
        {name: drive(args, url, f"{rate * share:.3f}", name, args.minutes, *flags)})) for name, share, flags in
        (("ordinary", 0.9, ordinary), ("batch", 0.1, batch))]
    # One after the other: a bench first asks a few questions, which must not be refused.
    for thread in threads:
        thread.start()
        time.sleep(3)
    for thread in threads:
        thread.join()
    if len(runs) != len(threads):
        sys.exit("bench serve failed")
    return runs["ordinary"], runs["batch"]


def settled(watch, before):
    """What is still held a while after the last request, as (name, then, now)."""
    deadline = time.monotonic() + 60
    while True:
        after = watch.read().held()
        left = [(key, before.get(key, 0), value) for key, value in after.items() if value > before.get(key, 0)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(1)


def judge(args, ordinary, batch, watch, before, left):
    verdicts = Verdicts()
    windows = [w for w in ordinary["over_time"] if w["from"] >= WINDOW and w["to"] <= args.minutes * 60]
    memory = [w["rss_bytes"] / 2**20 for w in windows if w["rss_bytes"]]
    verdicts.flat("resident memory", memory, "MiB", 0.05, may_fall=True)
    verdicts.say(not left, "left over: " + (", ".join(f"{key} {now:.0f} (was {then:.0f})" for key, then, now in left) or "nothing"))
    rates = [(b.sum("plimsoll_generated_tokens_total") - a.sum("plimsoll_generated_tokens_total")) / (t2 - t1)
             for (t1, a), (t2, b) in zip(watch.readings, watch.readings[1:])]
    verdicts.flat("tokens generated", rates[1:-1], "/s", 0.15)
    for key, name in (("ttft_p99_ms", "TTFT P99"), ("tpot_p99_ms", "mean gap P99")):
        verdicts.flat(name, [w[key] for w in windows if w[key] is not None], "ms", 0.25, may_fall=True)
    after = watch.read()
    grown = lambda name, part="": after.sum(name, part) - before.sum(name, part)
    happened = {
        "blocks parked": grown("plimsoll_park_moves_total", 'direction="out"'),
        "refusals": sum(grown("plimsoll_requests_total", f'outcome="{code}"') for code in ("deadline", "queue_full", "kv_full")),
        # A time too short is mostly seen at the door.
        "times expired, or seen to be too short": grown("plimsoll_expired_total")
        + grown("plimsoll_requests_total", 'outcome="never_in_time"'),
        "cancellations": grown("plimsoll_requests_total", 'outcome="cancelled"'),
        "bad requests": sum(ordinary["misbehaved"].get("bad", {}).get(f"status {status}", 0) for status in (400, 404, 422)),
    }
    for name, count in happened.items():
        verdicts.say(count > 0, f"{name}: {count:.0f}")
    failed = sum(grown("plimsoll_requests_total", f'outcome="{code}"') for code in ("internal", "engine_failed"))
    failed += grown("plimsoll_step_panics_total")
    verdicts.say(failed == 0, f"failures of the server: {failed:.0f}")
    for run, name in ((ordinary, "ordinary"), (batch, "batch")):
        s = run["summary"]
        accepted = s["attainment_accepted"]
        print(f"     {name}: {s['offered']} offered, goodput {s['goodput']:.2f}/s, in promise "
              f"{100 * (accepted or 0):.1f} % of accepted, outcomes {json.dumps(s['outcomes'])}")
    print(f"     misbehaving: {json.dumps(ordinary['misbehaved'])}")
    return verdicts.all_hold


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=float, default=6.0, help="highest rate in the promise, as benches/serve.py finds it; 1.2 times of it is offered")
    parser.add_argument("--slo", default="ttft=500ms,itl=60ms,quantile=0.99")
    parser.add_argument("--kv-memory", default="48MiB", help="so little that sequences are parked")
    parser.add_argument("--ctx", default="1024")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plimsoll", type=pathlib.Path, default=ROOT / "target/release/plimsoll")
    parser.add_argument("--json-dir", type=pathlib.Path, default=ROOT / "target/soak")
    args = parser.parse_args()
    args.json_dir.mkdir(parents=True, exist_ok=True)
    port, admin = free_port(), free_port()
    command = [args.plimsoll, "serve", f"bench={args.model}", "--http", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--slo",
               f"bench:{args.slo}", "--kv-memory", args.kv_memory, "--ctx", args.ctx, "--park-memory", "16MiB",
               "--park-folder", args.json_dir]
    with serving(command, port, args.json_dir / "server.log") as (url, pid):
        watch = Watch(admin, WINDOW)
        drive(args, url, f"{args.rate / 2:.3f}", "warm-up", 0.5)
        time.sleep(2)
        before = watch.read()
        watch.start()
        ordinary, batch = offer(args, url, pid)
        watch.over.set()
        watch.join()
        left = settled(watch, before.held())
        holds = judge(args, ordinary, batch, watch, before, left)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
