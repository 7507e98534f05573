"""The server under test as a process, its metrics, and the reference answers."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import httpx
import openai
from prometheus_client.parser import text_string_to_metric_families

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = "smollm2"
# A step of a small model on a busy machine takes far less; a test that hits this has hung.
PATIENCE = 120.0


def setting(name):
    """A path that ./test sets; without it a test fails and says what to run."""
    value = os.environ.get(name)
    assert value, f"{name} is not set: run ./test e2e, which builds the server and pulls the models"
    return value


def environment(**more):
    """This process's environment without settings that would change the server's behaviour."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLIMSOLL_")}
    return kept | more


def plimsoll(*args, env=None, **options):
    """Runs the binary to its end."""
    options.setdefault("timeout", PATIENCE)
    return subprocess.run(
        [setting("PLIMSOLL_TEST_BINARY"), *args],
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        **options,
    )


class Server:
    """`plimsoll serve` on free ports. Ready when the constructor returns."""

    def __init__(self, *flags, models=None, env=None, log_level="info"):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
        self.log = folder / "log.jsonl"
        announce = folder / "addresses.json"
        models = models or [f"{MODEL}={setting('PLIMSOLL_TEST_SMOLLM2')}"]
        command = [setting("PLIMSOLL_TEST_BINARY"), "serve", *models, "--http=127.0.0.1:0", "--admin=127.0.0.1:0"]
        command += [f"--announce={announce}", f"--log={log_level}", "--log-format=json", *flags]
        self.process = subprocess.Popen(
            command, env=environment(**(env or {})), stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True
        )
        # The banner ends when the server takes work; a server that cannot start closes its output instead.
        self.banner = []
        for line in self.process.stdout:
            self.banner.append(line.rstrip("\n"))
            if line.startswith("ready"):
                break
        else:
            raise AssertionError(f"the server did not start: {self.log.read_text()}")
        addresses = json.loads(announce.read_text())
        self.http = f"http://{addresses['http']}"
        self.admin = f"http://{addresses['admin']}"
        self.client = httpx.Client(base_url=self.http, timeout=PATIENCE)

    def openai(self, key="none", **options):
        options.setdefault("max_retries", 0)
        return openai.OpenAI(base_url=f"{self.http}/v1", api_key=key, timeout=PATIENCE, **options)

    def metrics(self):
        """{(name, frozen labels without `model`): value} of /metrics."""
        families = text_string_to_metric_families(httpx.get(f"{self.admin}/metrics", timeout=PATIENCE).text)
        return {
            (sample.name, frozenset((k, v) for k, v in sample.labels.items() if k != "model")): sample.value
            for family in families
            for sample in family.samples
        }

    def metric(self, name, **labels):
        return self.metrics()[(name, frozenset(labels.items()))]

    def held(self):
        """What requests hold: slots, queue places, KV blocks."""
        now = self.metrics()
        return {
            "running": now[("plimsoll_running", frozenset())],
            "queued": now[("plimsoll_queue_depth", frozenset())],
            "kv blocks": now[("plimsoll_kv_blocks", frozenset({("state", "used")}))],
        }

    def wait_until_idle(self):
        wait_until(lambda: not any(self.held().values()), lambda: f"still held: {self.held()}")

    def wait_until_busy(self):
        wait_until(lambda: self.held()["running"] > 0, "nothing runs")

    def stop(self):
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(timeout=PATIENCE)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def wait_until(reached, message, timeout=PATIENCE):
    """Asks again and again until it is so: for what cannot be waited for by an event."""
    deadline = time.monotonic() + timeout
    while not reached():
        assert time.monotonic() < deadline, message() if callable(message) else message
        time.sleep(0.01)


def events(response):
    """The `data:` payloads of an SSE answer, decoded; the closing `[DONE]` as that string."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            payload = line.removeprefix("data: ")
            yield payload if payload == "[DONE]" else json.loads(payload)


def golden():
    return json.loads((REPOSITORY / "tests/golden/smollm2.json").read_text())


def certain(case):
    """How many of the reference's steps another engine must repeat: those before the first near tie."""
    for step, chosen in enumerate(case["steps"]):
        (_, first), (_, second) = chosen["top"][:2]
        if first - second < 0.3:
            return step
    return len(case["steps"])


def greedy(server, prompt, max_tokens=24, **more):
    """The greedy continuation of a prompt, not streamed."""
    body = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": max_tokens, **more}
    answer = server.client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def streamed(server, prompt, max_tokens=24, leave_after=None, **more):
    """The greedy continuation of a prompt, streamed over a connection of its own; `leave_after` hangs up after as many
    events and returns None."""
    body = {"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": max_tokens, "stream": True, **more}
    text = ""
    with httpx.stream("POST", f"{server.http}/v1/completions", json=body, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, answer.read()
        for count, event in enumerate(events(answer)):
            if event == "[DONE]":
                return text
            if leave_after is not None and count >= leave_after:
                return None
            assert "error" not in event, event
            text += "".join(choice["text"] for choice in event["choices"])
    raise AssertionError("the stream ended without [DONE]")
