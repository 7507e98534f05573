#!/usr/bin/env python3
"""Lane stalls and handling times of the release server under full decode load, over loopback.

    python3 benches/steady.py MODEL.gguf [--streams 16] [--seconds 20] [--plimsoll target/release/plimsoll]

So many streams side by side, each begun when the one before it ended; every fourth request brings a prompt of 500 words, the others a
short one of their own. Both figures are the server's, from its histograms: what is printed is the upper bound of the bucket that
holds the quantile, and the share that keeps the target. docs/metrics.md defines both. Before it, what the machine itself takes away
from a thread that only looks at the clock, on all cores at once: on a shared host no server can be better than that.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import re
import socket
import time
import urllib.request

from serve import free_port, histogram, serving

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = {"plimsoll_lane_stall_seconds": 280e-6, "plimsoll_handling_seconds": 5e-3}

# Seconds. All begin at once, which is not what is measured.
WARM_UP = 5
# Bytes; more than an answer has, so that its end is what wakes the client.
WHOLE = 1 << 20


# Seconds between two looks at the clock that count as time taken away.
GAP = 1e-3


def gaps(core, seconds):
    """Times that a spinning thread on one core was not there, in seconds."""
    os.sched_setaffinity(0, {core})
    last = time.perf_counter()
    end, found = last + seconds, []
    while last < end:
        now = time.perf_counter()
        if now - last > GAP:
            found.append(now - last)
        last = now
    return found


def report_machine(seconds):
    cores = sorted(os.sched_getaffinity(0))
    with multiprocessing.Pool(len(cores)) as pool:
        of_cores = pool.starmap(gaps, [(core, seconds) for core in cores], chunksize=1)
    for core, found in zip(cores, of_cores):
        longest = max(found, default=0) * 1e3
        print(f"core {core} by itself: {len(found) / seconds:.1f} gaps over 1 ms a second, {sum(found) / seconds:.2%} of its time, longest {longest:.1f} ms")


async def stream(port, number, tokens):
    """One request, read to its end. Returns whether it was served."""
    words = 500 if number % 4 == 0 else 20
    body = json.dumps({"prompt": f"Story {number}. " + "Once upon a time " * (words // 4), "max_tokens": tokens, "stream": True,
                       "ignore_eos": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # Woken when the answer is whole, not for every token: what the client computes is taken from the server's cores.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WHOLE)
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    return b" 200 " in answer.split(b"\r\n", 1)[0]


async def load(port, args, scrape):
    """Keeps the streams going, and looks at the server when they have got out of step. Returns how many were served, how many
    refused, and what was seen."""
    until, served, refused, number = time.monotonic() + WARM_UP + args.seconds, 0, 0, iter(range(1 << 30))

    async def client():
        nonlocal served, refused
        while time.monotonic() < until:
            if await stream(port, next(number), args.tokens):
                served += 1
            else:
                refused += 1
                await asyncio.sleep(0.05)

    async def look():
        nonlocal served, refused
        await asyncio.sleep(WARM_UP)
        served, refused = 0, 0
        return await asyncio.to_thread(scrape)

    before, *_ = await asyncio.gather(look(), *(client() for _ in range(args.streams)))
    return served, refused, before


def report(name, before, after):
    target = TARGETS[name]
    counts = [(bound, count - old) for (bound, count), (_, old) in zip(after, before)]
    total = counts[-1][1]
    at = lambda share: next(bound for bound, count in counts if count >= share * total)
    kept = max(count for bound, count in counts if bound <= target * 1.0001) / total
    print(f"| {name} | {total} | {at(0.5) * 1e6:.0f} | {at(0.99) * 1e6:.0f} | {target * 1e6:.0f} | {100 * kept:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--plimsoll", default=ROOT / "target/release/plimsoll")
    parser.add_argument("--log", default=ROOT / "target/steady.log")
    args = parser.parse_args()
    report_machine(10)
    port, admin = free_port(), free_port()
    command = [args.plimsoll, "serve", f"bench={args.model}", "--http", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    with serving(command, port, args.log):
        scrape = lambda: urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics").read().decode()
        served, refused, before = asyncio.run(load(port, args, scrape))
        after = scrape()
    tokens = sum(int(re.search(r"^plimsoll_generated_tokens_total{.*?} (\d+)$", text, re.M)[1]) * sign
                 for text, sign in ((after, 1), (before, -1)))
    print(f"{args.streams} streams, {args.seconds:.0f} s: {served} served, {refused} refused, {tokens / args.seconds:.0f} tokens/s")
    print("| | events | P50, us | P99, us | target | kept, % |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in TARGETS:
        report(name, histogram(before, name), histogram(after, name))


if __name__ == "__main__":
    main()
