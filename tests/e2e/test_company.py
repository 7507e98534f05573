"""Many clients at once: everybody gets the text they would get alone, and what leaves is gone."""

import concurrent.futures
import random

import httpx
from harness import golden, greedy, streamed

PROMPTS = [case["prompt"] for case in golden()["completions"]]


def test_the_same_text_alone_and_among_fifteen_others(server):
    alone = {prompt: greedy(server, prompt, 32) for prompt in PROMPTS}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = [(prompt, pool.submit(streamed, server, prompt, 32)) for prompt in PROMPTS * 2]
        for prompt, text in together:
            assert text.result() == alone[prompt]
    assert server.metric("plimsoll_batch_size_bucket", le="8") < server.metric("plimsoll_batch_size_count")


def test_a_hundred_streams_with_a_tenth_vanishing(server):
    order = random.Random(20261130)
    # Lengths differ so that sequences join and leave at many steps.
    requests = [(PROMPTS[i % len(PROMPTS)], 8 + i % 17) for i in range(100)]
    vanishing = {i: order.randrange(8) for i in order.sample(range(100), 10)}
    alone = {(prompt, length): greedy(server, prompt, length) for prompt, length in set(requests)}
    memory = server.metric("process_resident_memory_bytes")
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        texts = [
            pool.submit(streamed, server, prompt, length, vanishing.get(i)) for i, (prompt, length) in enumerate(requests)
        ]
        for i, (text, request) in enumerate(zip(texts, requests)):
            assert text.result() == (None if i in vanishing else alone[request]), request
    server.wait_until_idle()
    # Connections and buffers of a hundred clients do not stay: 16 MiB is what an allocator may keep for the next ones.
    assert server.metric("process_resident_memory_bytes") < memory + (16 << 20)


def test_the_control_plane_answers_while_every_core_computes(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool, httpx.Client(base_url=server.admin) as admin:
        streams = [pool.submit(streamed, server, "Once upon a time", 60, ignore_eos=True) for _ in range(16)]
        server.wait_until_busy()
        asked = 0
        while not all(stream.done() for stream in streams):
            assert admin.get("/health", timeout=5).status_code == 200
            assert "plimsoll_running" in admin.get("/metrics", timeout=5).text
            asked += 1
        assert len({stream.result() for stream in streams}) == 1
    assert asked > 0
