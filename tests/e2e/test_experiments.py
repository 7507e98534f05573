"""Experiments on the real server: policies truly change, and what came of it is told."""

import json

import httpx
import pytest
from harness import MODEL, PATIENCE, Server, plimsoll, setting, wait_until

CONFIG = """
[[experiment]]
name = "queue"
vary = "queue_policy"
arms = [{ value = "little" }, { value = "fixed" }]
block = "1s"
wash_out = "100ms"

[[experiment]]
name = "prefix"
vary = "prefix_cache"
arms = [{ value = "on" }, { value = "off" }]
block = "200ms"
"""
PROMPT = "A Plimsoll line is the mark on a ship's hull that says how far it may be loaded. " * 3


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    config = tmp_path_factory.mktemp("experiments") / "plimsoll.toml"
    config.write_text(CONFIG)
    # By Little's law fewer than 256 may wait: three seconds' worth.
    with Server(f"--config={config}", "--slo=ttft=3s", "--queue=256") as server:
        yield server


def experiments(server):
    answer = httpx.get(f"{server.admin}/experiments", timeout=PATIENCE)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    return {report["name"]: report for report in answer.json()["experiments"]}


def ask(server, name, **headers):
    body = {"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 4}
    return server.client.post("/v1/completions", json=body, headers={"x-request-id": name, **headers})


def test_the_lane_goes_by_the_arm_in_force(tried):
    seen, number = set(), iter(range(1 << 30))

    def in_force(metrics, arm):
        return metrics[("plimsoll_experiment_in_force", frozenset({("experiment", "queue"), ("arm", arm)}))]

    def both():
        assert ask(tried, f"lane-{next(number)}").status_code in (200, 429)
        metrics = tried.metrics()
        limit = metrics[("plimsoll_queue_limit", frozenset())]
        arms = [arm for arm in ("little", "fixed") if in_force(metrics, arm)]
        seen.update((arm, limit) for arm in arms)
        return ("fixed", 256) in seen and any(arm == "little" and limit < 256 for arm, limit in seen)

    wait_until(both, lambda: f"seen: {seen}")


def test_both_arms_of_the_lane_are_counted(tried):
    number = iter(range(1 << 30))

    def counted():
        ask(tried, f"count-{next(number)}")
        report = experiments(tried)["queue"]
        return all(arm["in_promise"] > 0 and arm["blocks"] > 1 for arm in report["arms"])

    wait_until(counted, lambda: json.dumps(experiments(tried), indent=1))
    report = experiments(tried)["queue"]
    assert report["model"] == MODEL and report["unit"] == "lane" and report["in_force"] in ("little", "fixed")
    first, second = report["arms"]
    assert first["against_first"] is None
    assert second["against_first"]["verdict"] in ("too_little_data", "no_difference_shown", "better", "worse")
    for arm in report["arms"]:
        assert arm["offered"] == arm["accepted"] + arm["refused"]
        assert arm["goodput"]["value"] == pytest.approx(arm["in_promise"] / arm["seconds"])
        assert 0 < arm["ttft_seconds"]["p50"]["value"] <= arm["e2e_seconds"]["p99"]["value"]


def test_a_request_keeps_its_arm(tried):
    def cached(name):
        # Promised nothing, and so never late.
        answer = ask(tried, name, **{"x-priority": "batch"})
        assert answer.status_code == 200, answer.text
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0

    # Once for the cache: what the first one of those who share computes, the others find.
    for number in range(10):
        cached(f"arm-{number}")
    arms = {number: cached(f"arm-{number}") for number in range(10)}
    assert set(arms.values()) == {True, False}
    assert all(cached(f"arm-{number}") == arm for number, arm in arms.items())


def test_a_client_that_leaves_is_lost(tried):
    def lost():
        return sum(arm["lost"] for arm in experiments(tried)["prefix"]["arms"])

    before = lost()
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 400, "stream": True, "ignore_eos": True}
    with httpx.stream("POST", f"{tried.http}/v1/completions", json=body, timeout=PATIENCE) as answer:
        assert next(answer.iter_lines())
    wait_until(lambda: lost() == before + 1, lambda: f"{lost()} lost, {before} before")


@pytest.mark.parametrize(
    "experiment, words",
    [
        ("name = 'e'\nvary = 'queue_policy'\narms = [{ value = 'little' }, { value = 'lifo' }]", ["`lifo`", "band"]),
        ("name = 'e'\nvary = 'prefetch'\narms = [{ value = 'on' }]", ["`e`", "2 to 16"]),
        ("name = 'e'\nvery = 'prefetch'", ["experiment.very", "experiment.vary"]),
    ],
)
def test_what_cannot_be_tried_ends_the_start(experiment, words, tmp_path):
    config = tmp_path / "plimsoll.toml"
    config.write_text(f"[[experiment]]\n{experiment}\n")
    model = f"{MODEL}={setting('PLIMSOLL_TEST_SMOLLM2')}"
    result = plimsoll("serve", model, f"--config={config}", "--http=127.0.0.1:0", "--admin=127.0.0.1:0")
    assert result.returncode != 0
    assert all(word in result.stderr for word in words), result.stderr
