"""Starting, stopping, being stopped; metrics; the other commands."""

import concurrent.futures
import http.server
import json
import pathlib
import re
import signal
import socket
import subprocess
import threading

import httpx
import pytest
from harness import MODEL, PATIENCE, REPOSITORY, Server, environment, events, plimsoll, setting, wait_until

LONG = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 150, "ignore_eos": True, "stream": True}


def one_line(result):
    """The error a person sees: one line, and no traceback."""
    assert result.returncode != 0
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_the_banner_says_what_was_chosen_and_its_curl_line_streams(server):
    banner = "\n".join(server.banner)
    for word in ("kernel", "threads", "KV", "context", server.http, f"{server.admin}/metrics"):
        assert word in banner, f"no {word} in:\n{banner}"
    start = next(i for i, line in enumerate(server.banner) if line.strip().startswith("curl"))
    command = []
    for line in server.banner[start:]:
        command.append(line)
        if not line.endswith("\\"):
            break
    result = subprocess.run(["bash", "-c", "\n".join(command)], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("data: ") > 3, result.stdout
    assert "data: [DONE]" in result.stdout


def test_metrics_are_what_prometheus_reads(server):
    server.client.post("/v1/completions", json=LONG | {"stream": False, "max_tokens": 2})
    answer = httpx.get(f"{server.admin}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    checked = subprocess.run(["promtool", "check", "metrics"], input=answer.text, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = {name for name, _ in server.metrics()}
    for name in (
        "plimsoll_requests_total plimsoll_queue_depth plimsoll_queue_limit plimsoll_running plimsoll_ttft_seconds_bucket "
        "plimsoll_itl_seconds_bucket plimsoll_e2e_seconds_bucket plimsoll_queue_seconds_bucket plimsoll_step_seconds_bucket "
        "plimsoll_batch_size_bucket plimsoll_prompt_tokens_total plimsoll_generated_tokens_total plimsoll_kv_blocks "
        "plimsoll_admission_total"
    ).split():
        assert name in names


def test_prompts_are_not_logged():
    with Server(log_level="trace") as server:
        server.client.post("/v1/completions", json={"model": MODEL, "prompt": "xyzzy-secret", "max_tokens": 2})
        server.stop()
        log = server.log.read_text()
    assert "xyzzy-secret" not in log
    assert all(json.loads(line) for line in log.splitlines())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_drain(sent):
    server = Server()
    with httpx.stream("POST", f"{server.http}/v1/completions", json=LONG, timeout=PATIENCE) as answer:
        stream = events(answer)
        next(stream)
        server.process.send_signal(sent)
        wait_until(lambda: httpx.get(f"{server.admin}/health").status_code == 503, "never drained")
        # `timeout -s INT` sends it to the process, and then to its group: that is one signal.
        server.process.send_signal(sent)
        refused = server.client.post("/v1/completions", json=LONG)
        assert refused.status_code == 503, refused.text
        assert refused.json()["error"]["code"] == "draining"
        rest = list(stream)
        assert rest[-1] == "[DONE]"
        assert "error" not in json.dumps(rest)
        assert sum(len(event["choices"]) for event in rest[:-1]) > 10
    assert server.wait() == 0


def test_a_second_signal_ends_it_at_once():
    server = Server("--drain=10min")
    with httpx.stream("POST", f"{server.http}/v1/completions", json=LONG | {"max_tokens": 8000}, timeout=PATIENCE) as answer:
        stream = events(answer)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{server.admin}/health").status_code == 503, "never drained")

        def has_ended():
            # Within a second of the first they are the same one.
            server.process.send_signal(signal.SIGTERM)
            return server.process.poll() is not None

        wait_until(has_ended, "a second signal does not end it")
        assert server.wait() == 130


def test_it_outlives_its_terminal_when_told_to():
    """As `nohup` starts it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = Server()
    finally:
        signal.signal(signal.SIGHUP, before)
    with server:
        server.process.send_signal(signal.SIGHUP)
        for _ in range(2):
            answer = server.client.post("/v1/completions", json={"model": MODEL, "prompt": "Hi", "max_tokens": 2})
            assert answer.status_code == 200, answer.text
        assert httpx.get(f"{server.admin}/health").status_code == 200


def test_a_drain_is_bounded():
    server = Server("--drain=200ms")
    with httpx.stream("POST", f"{server.http}/v1/completions", json=LONG | {"max_tokens": 8000}, timeout=PATIENCE) as answer:
        stream = events(answer)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0


def test_what_cannot_start_says_why_in_one_line(tmp_path):
    source = setting("PLIMSOLL_TEST_SMOLLM2")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = one_line(plimsoll("serve", source, f"--http=127.0.0.1:{port}", "--admin=:0"))
        assert str(port) in said and "--http" in said
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(pathlib.Path(source).read_bytes()[:100_000])
    said = one_line(plimsoll("serve", str(broken), "--http=:0", "--admin=:0"))
    assert "broken.gguf" in said
    said = one_line(plimsoll("serve", "no-such-model", "--http=:0", "--admin=:0"))
    assert "no-such-model" in said
    said = one_line(plimsoll("serve"))
    assert "plimsoll serve smollm2" in said
    said = one_line(plimsoll("serve", source, "--grpc=:8001"))
    assert "gRPC" in said
    config = tmp_path / "plimsoll.toml"
    config.write_text("[server]\nhtpp = ':1'\n")
    said = one_line(plimsoll("serve", source, f"--config={config}"))
    assert "did you mean `server.http`" in said


def test_run():
    result = plimsoll("run", setting("PLIMSOLL_TEST_SMOLLM2"), "Name a fruit.", "--temperature=0", "--max-tokens=8")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    talk = plimsoll("run", setting("PLIMSOLL_TEST_SMOLLM2"), "--temperature=0", "--max-tokens=8", input="Hi\nAnd again\n")
    assert talk.returncode == 0, talk.stderr
    assert len(talk.stdout.strip().splitlines()) >= 2


def test_models_lists_the_built_in_names():
    result = plimsoll("models")
    assert result.returncode == 0, result.stderr
    assert "smollm2" in result.stdout and "minilm" in result.stdout


def test_bench_engine():
    result = plimsoll("bench", "engine", setting("PLIMSOLL_TEST_SMOLLM2"), "--json", "--steps=4", "--depth=16")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [row["batch"] for row in report["decode"]] == [1, 2, 4, 8, 16, 32]
    assert [row["tokens"] for row in report["prefill"]] == [128, 512]
    assert all(row["tokens_per_second"] > 0 for row in report["decode"] + report["prefill"])


class SlowFile(http.server.BaseHTTPRequestHandler):
    """Serves one file, with ranges; the first answer stops half way until the puller is gone."""

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        content, start = self.server.content, 0
        if (wanted := self.headers.get("range")) and wanted.startswith("bytes="):
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            self.server.resumed_at = start
        self.send_response(206 if start else 200)
        self.send_header("content-length", str(len(content) - start))
        self.send_header("accept-ranges", "bytes")
        self.send_header("etag", '"1"')
        if start:
            self.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if not body:
            return
        if start == 0 and not self.server.stalled.is_set():
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.server.stalled.set()
            self.server.let_go.wait(PATIENCE)
            return
        self.wfile.write(content[start:])

    def log_message(self, *_):
        pass


def test_a_pull_that_was_killed_goes_on(tmp_path):
    content = pathlib.Path(setting("PLIMSOLL_TEST_SMOLLM2")).read_bytes()[: 4 << 20]
    stand_in = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowFile)
    stand_in.content, stand_in.resumed_at = content, None
    stand_in.stalled, stand_in.let_go = threading.Event(), threading.Event()
    threading.Thread(target=stand_in.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{stand_in.server_port}/model.gguf"
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    first = subprocess.Popen([setting("PLIMSOLL_TEST_BINARY"), "pull", url], env=environment(**cache), stderr=subprocess.PIPE)

    def on_disk():
        return sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())

    assert stand_in.stalled.wait(PATIENCE), first.stderr
    wait_until(lambda: on_disk() > len(content) // 4, "nothing reaches the disk")
    first.kill()
    first.wait()
    first.stderr.close()
    stand_in.let_go.set()
    second = plimsoll("pull", url, env=cache)
    assert second.returncode == 0, second.stderr
    assert pathlib.Path(second.stdout.strip()).read_bytes() == content
    # Nobody sees a bar: it is said in lines.
    assert re.search(r"model\.gguf: [\d.]+ MiB of 4 MiB", second.stderr), second.stderr
    stand_in.shutdown()


def test_pull_says_what_it_tried(tmp_path):
    result = plimsoll("pull", "http://127.0.0.1:9/none.gguf", env={"XDG_CACHE_HOME": str(tmp_path)})
    *tries, said = result.stderr.strip().splitlines()
    assert result.returncode != 0 and "127.0.0.1:9" in said
    assert len(tries) == 3 and all("trying again" in line for line in tries), tries


def test_what_cannot_be_said_is_no_panic(tmp_path):
    command = [setting("PLIMSOLL_TEST_BINARY"), "pull", "http://127.0.0.1:9/none.gguf"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, env=environment(XDG_CACHE_HOME=str(tmp_path)), stdout=subprocess.DEVNULL, stderr=full, timeout=PATIENCE
        )
    assert result.returncode == 1


def test_two_models_and_a_file(tmp_path):
    source = setting("PLIMSOLL_TEST_SMOLLM2")
    config = tmp_path / "plimsoll.toml"
    entry = '[[model]]\nname = "{}"\nsource = "{}"\nctx = 512\nkv_memory = "16MiB"\n'
    config.write_text("[server]\nmax_seqs = 4\n" + entry.format("a", source) + entry.format("b", source))
    with Server(f"--config={config}", models=["a", "b"]) as server, concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert [model.id for model in server.openai().models.list()] == ["a", "b"]
        body = {"prompt": "The capital of France is", "max_tokens": 24, "temperature": 0}
        answers = [pool.submit(server.client.post, "/v1/completions", json=body | {"model": name}) for name in "ab"]
        texts = [answer.result().json()["choices"][0]["text"] for answer in answers]
        assert texts[0] == texts[1]


def test_the_readme_names_commands_that_exist():
    text = (REPOSITORY / "README.md").read_text()
    assert "cargo run --release -- serve smollm2" in text
