#!/usr/bin/env python3
"""Plimsoll's own experiments on itself: queue policies against each other, and reading parked KV ahead on against off.

    python3 benches/experiments.py MODEL.gguf [--minutes 5] [--only queue,prefetch]

Each is a server of its own under Poisson load of `plimsoll bench serve`, about 100-token prompts and 48 tokens out, for so many
minutes; then `GET /experiments` says what it has shown. docs/experiments.md explains the figures.

The queue policies are compared beyond what the promise allows, where they matter if ever. For prefetch the KV cache is so small,
and so many requests are of the class that makes way, that sequences may be parked, in memory and in a file; how many blocks were is
printed, and when they are few the experiment says nothing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from serve import ROOT, free_port, serving

EXPERIMENTS = {
    "queue": {
        "vary": "queue_policy",
        "arms": ["little", "band", "fixed"],
        "measure": "goodput",
        "serve": [],
        "bench": ["--rate", "{rate}"],
    },
    "prefetch": {
        "vary": "prefetch",
        "arms": ["off", "on"],
        "measure": "e2e",
        # Twelve sequences of 170 tokens do not fit these; one does fit the memory that parking goes through.
        "serve": ["--ctx", "512", "--kv-memory", "24MiB", "--park-memory", "12MiB", "--park-folder", "{folder}"],
        "bench": ["--rate", "{slow_rate}", "--mix", "interactive=0.5,batch=0.5"],
    },
}


def config(name, args):
    experiment = EXPERIMENTS[name]
    arms = ", ".join(f'{{ value = "{arm}" }}' for arm in experiment["arms"])
    return f"""
[[experiment]]
name = "{name}"
vary = "{experiment['vary']}"
arms = [{arms}]
measure = "{experiment['measure']}"
block = "{args.block}"
wash_out = "{args.wash_out}"
seed = {args.seed}
"""


def get(url):
    return urllib.request.urlopen(url, timeout=60).read().decode()


def run(name, args):
    """Serves, loads, and returns what the experiment has shown, and how many blocks of KV were parked."""
    experiment = EXPERIMENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        fill = {"rate": args.rate, "slow_rate": args.slow_rate, "folder": folder}
        file = pathlib.Path(folder) / "plimsoll.toml"
        file.write_text(config(name, args))
        http, admin = free_port(), free_port()
        serve = [args.plimsoll, "serve", f"bench={args.model}", "--config", file, "--http", f"127.0.0.1:{http}",
                 "--admin", f"127.0.0.1:{admin}", "--slo", f"bench:{args.slo}"]
        serve += [flag.format(**fill) for flag in experiment["serve"]]
        bench = [args.plimsoll, "bench", "serve", f"http://127.0.0.1:{http}", "--prompt-tokens", "100", "--output-tokens", "48",
                 "--slo", args.slo, "--duration", f"{args.minutes * 60:.0f}s", "--seed", args.seed]
        bench += [flag.format(**fill) for flag in experiment["bench"]]
        with serving(serve, http, args.log):
            print(f"== {name}", file=sys.stderr)
            subprocess.run([str(part) for part in bench], check=True, stdout=sys.stderr)
            deadline = time.monotonic() + 60
            while True:
                report = json.loads(get(f"http://127.0.0.1:{admin}/experiments"))["experiments"][0]
                if report["open_blocks"] == 0 or time.monotonic() > deadline:
                    break
                time.sleep(1)
            metrics = get(f"http://127.0.0.1:{admin}/metrics").splitlines()
            moved = [line for line in metrics if line.startswith("plimsoll_park_moves_total")]
            return report, moved


def shown(interval, scale=1.0, digits=2):
    if interval is None:
        return "–"
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    text = f"{value * scale:.{digits}f}"
    return text if low is None or high is None else f"{text} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def table(report):
    print(f"\n`{report['name']}`: {report['rounds']} rounds, {report['blocks']} blocks of {report['block_seconds']:g} s in the mean, "
          f"{report['wash_out_seconds']:g} s washed out; by `{report['measure']}`\n")
    print("| arm | offered | refused | late | goodput/s | in promise, % | TTFT p95, ms | gap p95, ms | E2E p95, ms | less the first | verdict |")
    print("| --- |" + " ---: |" * 9 + " --- |")
    for arm in report["arms"]:
        p95 = lambda key: shown(arm[key]["p95"], 1e3, 0)
        compared = arm["against_first"]
        scale = 1.0 if report["measure"] in ("goodput", "in_promise") else 1e3
        cells = [arm["name"], arm["offered"], arm["refused"], arm["late"], shown(arm["goodput"]),
                 shown(arm["share_in_promise"], 100, 1), p95("ttft_seconds"), p95("itl_seconds"), p95("e2e_seconds"),
                 shown(compared["difference"], scale) if compared else "", compared["verdict"].replace("_", " ") if compared else ""]
        print("| " + " | ".join(map(str, cells)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=5, help="for each experiment")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help="which, and in which order")
    parser.add_argument("--slo", default="ttft=500ms,itl=60ms")
    parser.add_argument("--rate", type=float, default=12, help="requests/s for the queue policies")
    parser.add_argument("--slow-rate", type=float, default=4, help="requests/s for prefetch")
    parser.add_argument("--block", default="10s")
    parser.add_argument("--wash-out", default="2s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plimsoll", type=pathlib.Path, default=ROOT / "target" / "release" / "plimsoll")
    parser.add_argument("--log", type=pathlib.Path, default=ROOT / "target" / "experiments.log")
    args = parser.parse_args()
    args.log.parent.mkdir(parents=True, exist_ok=True)
    for name in args.only.split(","):
        report, moved = run(name, args)
        table(report)
        if name == "prefetch":
            print("\n" + ", ".join(moved))


if __name__ == "__main__":
    main()
