"""Memory: passing a limit sheds cache, then admissions, and the server lives."""

import concurrent.futures
import re
import time

import httpx
from harness import MODEL, PATIENCE, Server, wait_until

MIB = 1 << 20


def words(number):
    """A prompt of some 1,000 tokens that begins like no other."""
    return f"{number} " + " ".join(f"word{number + i}" for i in range(250))


def ask(server, number):
    body = {"model": MODEL, "prompt": words(number), "max_tokens": 2, "ignore_eos": True}
    return httpx.post(f"{server.http}/v1/completions", json=body, timeout=PATIENCE)


def ask_until_served(server, number):
    """All answers to one client, which comes back when it is told to."""
    answers = [ask(server, number)]
    while answers[-1].status_code == 429:
        time.sleep(int(answers[-1].headers["retry-after-ms"]) / 1000)
        answers.append(ask(server, number))
    return answers


def resident(server):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def test_caches_shrink_under_a_limit_and_the_server_lives():
    with Server("--max-seqs=4", "--kv-memory=512MiB") as server:
        ask(server, 0)
        idle = resident(server)
    # Room for about 100 MiB of KV blocks, of 512.
    limit = idle + 100 * MIB
    with Server("--max-seqs=4", "--kv-memory=512MiB", f"--memory-limit={limit // MIB}MiB") as server:
        levels, answers = set(), []
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            for client in clients.map(lambda number: ask_until_served(server, number), range(1, 25)):
                levels.add(server.metric("plimsoll_memory_level"))
                assert client[-1].status_code == 200, client[-1].text
                answers += client
        assert server.process.poll() is None, "it did not live"
        # Twenty-four prompts of 1,000 tokens would have taken some five times the room.
        assert max(levels) >= 1, "nothing was shed"
        assert resident(server) < limit, f"{resident(server) // MIB} MiB of {limit // MIB}"
        refused = [answer for answer in answers if answer.status_code != 200]
        assert all((r.status_code, r.headers["x-plimsoll-reason"]) == (429, "memory") for r in refused)
        assert len(refused) < len(answers) / 2, "shedding cache should have been enough for most"
        server.wait_until_idle()


def test_beyond_the_limit_nobody_is_let_in_and_the_server_lives():
    with Server("--memory-limit=64MiB") as server:
        wait_until(lambda: server.metric("plimsoll_memory_level") == 2, "the weights alone pass the limit")
        answer = ask(server, 1)
        assert (answer.status_code, answer.headers["x-plimsoll-reason"]) == (429, "memory")
        assert int(answer.headers["retry-after-ms"]) > 0
        assert httpx.get(f"{server.admin}/ping").status_code == 200
