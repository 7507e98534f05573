#!/usr/bin/env python3
"""Plimsoll beside llama-server under the same load, in one run: the highest rate in a promise, and goodput beyond it.

    python3 benches/serve.py MODEL.gguf [--requests 1000] [--slo ttft=500ms,itl=60ms] [--json-dir target/serve]

One server at a time, each on all threads: `plimsoll bench serve --sweep` finds its C (the highest rate at which 99 % of what is
offered keeps the promise) and runs at 1, 2, 4 and 0.5 times of it; then Plimsoll is offered 4 times llama-server's C. About
100-token prompts, 48 tokens out, Poisson. llama-server comes as in engine.py, and serves the file requantized to Q4_0, its fastest.

Short of an hour, `--rates llama-server=1.2,4.8 --rates plimsoll=4.8,9.6 --duration 2min` offers each server just these rates, so long each.
"""

import argparse
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from engine import ROOT, build_peer, requantized

MULTIPLES = [1.0, 2.0, 4.0, 0.5]
START = 180


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, log):
    """A server as a process, from the moment it is healthy: its address and its number."""
    url = f"http://127.0.0.1:{port}"
    with open(log, "w") as out:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + START
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command[0]} did not start: see {log}")
            with contextlib.suppress(OSError, urllib.error.URLError):
                if urllib.request.urlopen(f"{url}/health", timeout=5).status == 200:
                    break
            time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()


def bench(args, url, name, *flags):
    """One `bench serve`; its JSON. Progress goes to the terminal, the report into files."""
    files = args.json_dir / f"{name}.json", args.json_dir / f"{name}.html"
    command = [args.plimsoll, "bench", "serve", url, "--prompt-tokens", args.prompt_tokens, "--output-tokens", args.output_tokens,
               "--slo", args.slo, *(["--duration", args.duration] if args.rates else ["--requests", args.requests]), "--seed", args.seed, "--json", files[0], "--html", files[1], *flags]
    print(f"== {name}", file=sys.stderr)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench serve failed for {name}")
    return json.loads(files[0].read_text())


def commands(args, binaries, port, admin):
    """How each server is started."""
    peer_file = requantized(binaries, args.model)
    return {
        "plimsoll": [args.plimsoll, "serve", f"bench={args.model}", "--http", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}",
                     "--threads", args.threads, "--slo", f"bench:{args.slo}", *args.plimsoll_flags.split()],
        "llama-server": [binaries / "llama-server", "-m", peer_file, "-t", args.threads, "-np", "16", "-c", 16 * 1024,
                         "--host", "127.0.0.1", "--port", port, *args.peer_flags.split()],
    }


def histogram(text, name):
    """Cumulative counts of a histogram on `/metrics`, by bucket bound."""
    found = re.findall(rf'^{name}_bucket{{.*?le="([^"]+)"}} (\d+)$', text, re.M)
    return [(float(bound), int(count)) for bound, count in found]


def refusals(admin):
    """What Plimsoll's refusals took by its own clock: bounds of the buckets that hold the quantiles."""
    counts = histogram(urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=30).read().decode(), "plimsoll_refusal_seconds")
    total = counts[-1][1] if counts else 0
    if total == 0:
        return "no refusals"
    p50, p99 = (next(bound for bound, count in counts if count >= share * total) for share in (0.5, 0.99))
    return f"{total} refusals, from headers parsed to answer written: P50 under {p50 * 1e3:g} ms, P99 under {p99 * 1e3:g} ms (target 2 ms)"


def cells(run):
    s = run["summary"]
    p99 = lambda spread: f"{spread['p99']:.0f}" if spread else "–"
    accepted = s["attainment_accepted"]
    others = s["offered"] - sum(s["outcomes"][k] for k in ("in_promise", "late", "refused", "expired"))
    return [f"{run['rate']:.2f}", f"{s['goodput']:.2f}", f"{100 * s['attainment_offered']:.1f}",
            f"{100 * accepted:.1f}" if accepted is not None else "–", p99(s["ttft_ms"]), p99(s["tpot_ms"]),
            str(s["outcomes"]["refused"]), str(s["outcomes"]["expired"]), str(others)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--slo", default="ttft=500ms,itl=60ms,quantile=0.99", help="what is measured, and what Plimsoll is told to keep")
    parser.add_argument("--requests", type=int, default=1000, help="that each rate's figures, and C, rest on")
    parser.add_argument("--rates", action="append", default=[], metavar="SERVER=RATE,...", help="offer these and look for no C; may be repeated")
    parser.add_argument("--duration", default="2min", help="of each rate of --rates")
    parser.add_argument("--prompt-tokens", default="100")
    parser.add_argument("--output-tokens", default="48")
    parser.add_argument("--precision", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", default="llama-server,plimsoll", help="in this order")
    parser.add_argument("--plimsoll-flags", default="", help="more flags of `plimsoll serve`, which is given the promise already")
    parser.add_argument("--peer-flags", default="", help="more flags of llama-server")
    parser.add_argument("--peer", type=pathlib.Path, help="folder with llama.cpp's binaries")
    parser.add_argument("--plimsoll", type=pathlib.Path, default=ROOT / "target" / "release" / "plimsoll")
    parser.add_argument("--json-dir", type=pathlib.Path, default=ROOT / "target" / "serve")
    args = parser.parse_args()
    args.json_dir.mkdir(parents=True, exist_ok=True)
    binaries = args.peer or build_peer()

    highest, rows, refused = {}, [], None
    wanted = dict(pair.split("=", 1) for pair in args.rates)
    for name in wanted or args.servers.split(","):
        port, admin = free_port(), free_port()
        with serving(commands(args, binaries, port, admin)[name], port, args.json_dir / f"{name}.log") as (url, _):
            if args.rates:
                rows += [[name, f"{rate}/s", *cells(bench(args, url, f"{name}-{rate}", "--rate", rate)["runs"][0])]
                         for rate in wanted[name].split(",")]
                refused = refusals(admin) if name == "plimsoll" else refused
                continue
            multiples = ",".join(map(str, MULTIPLES))
            report = bench(args, url, name, "--sweep", "--precision", args.precision, "--multiples", multiples)
            highest[name] = report["sweep"]["highest"]
            if highest[name] is None:
                print(f"{name}: no rate that was tried keeps the promise", file=sys.stderr)
            rows += [[name, f"{multiple:g} C", *cells(run)] for multiple, run in zip(MULTIPLES, report["runs"])]
            peer = highest.get("llama-server")
            if name == "plimsoll" and peer:
                run = bench(args, url, "plimsoll-at-peer", "--rate", f"{4 * peer:.3f}")["runs"][0]
                rows.append([name, "4 C of llama-server", *cells(run)])
            if name == "plimsoll":
                refused = refusals(admin)

    print("| server | offered | requests/s | goodput/s | % of offered | % of accepted | TTFT p99, ms | mean gap p99, ms | 429 | 504 | other |")
    print("| --- | --- |" + " ---: |" * 9)
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if refused:
        print(f"\nPlimsoll: {refused}")
    for name, rate in highest.items():
        print(f"\nC of {name}: {f'{rate:.2f}/s' if rate else 'none'}")


if __name__ == "__main__":
    main()
