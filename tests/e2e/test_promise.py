"""What a request is told when it cannot have what it was promised: before it is let in, and after."""

import concurrent.futures

import pytest
from harness import MODEL, Server, events

TEXT = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 4}
# Takes many times as long as the timeouts below.
LONG = {**TEXT, "max_tokens": 1500, "ignore_eos": True}


@pytest.fixture(scope="module")
def one():
    """A server with one place in its batch, and a promise that is easy to keep."""
    with Server("--slo=ttft=60s,itl=10s", "--max-seqs=1") as server:
        yield server


def ask(server, body, **headers):
    headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return server.client.post("/v1/completions", json=body, headers=headers)


def refused(answer, status, reason):
    assert answer.status_code == status, answer.text
    assert answer.headers["x-plimsoll-reason"] == reason
    assert answer.json()["error"]["code"] == reason


def test_what_is_late_even_alone_has_no_time_to_come_back(one):
    long_prompt = {**TEXT, "prompt": "word " * 400}
    answer = ask(one, long_prompt, x_slo_ttft_ms=1)
    refused(answer, 400, "never_in_time")
    assert not {"retry-after", "retry-after-ms"} & answer.headers.keys()
    assert ask(one, long_prompt).status_code == 200


def test_whose_time_is_up_gets_no_200_that_pretends(one):
    before = one.metric("plimsoll_expired_total")
    refused(ask(one, LONG, x_request_timeout_ms=700), 504, "expired")
    # Beside anybody else it would be foreseen, and refused.
    one.wait_until_idle()
    with one.client.stream(
        "POST", "/v1/completions", json={**LONG, "stream": True}, headers={"x-request-timeout-ms": "700"}
    ) as stream:
        assert stream.status_code == 200
        *said, error, done = events(stream)
    assert said and all("choices" in event for event in said)
    assert (error["error"]["code"], done) == ("expired", "[DONE]")
    assert one.metric("plimsoll_expired_total") == before + 2
    one.wait_until_idle()
    assert ask(one, TEXT, x_request_timeout_ms=60_000).status_code == 200


def test_who_would_be_late_is_told_when_to_come_back(one):
    assert ask(one, TEXT, x_slo_ttft_ms=400).status_code == 200
    with (
        concurrent.futures.ThreadPoolExecutor() as pool,
        one.client.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as stream,
    ):
        running = events(stream)
        next(running)
        answer = ask(one, TEXT, x_slo_ttft_ms=400)
        refused(answer, 429, "deadline")
        assert int(answer.headers["retry-after-ms"]) > 0 and int(answer.headers["retry-after"]) > 0
        # Who is promised nothing waits for the place, and has it when it is free.
        waits = pool.submit(ask, one, TEXT, x_priority="batch")
    assert waits.result().status_code == 200
    one.wait_until_idle()
    assert ask(one, TEXT, x_slo_ttft_ms=400).status_code == 200


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x_priority", "urgent"),
        ("x_slo_ttft_ms", "0"),
        ("x_slo_itl_ms", "soon"),
        ("x_request_timeout_ms", "86400001"),
        # More than a hundred times what the model promises.
        ("x_slo_ttft_ms", "6000001"),
    ],
)
def test_what_cannot_be_asked_for_is_named(one, header, value):
    answer = ask(one, TEXT, **{header: value})
    refused(answer, 400, "invalid_request")
    assert answer.json()["error"]["param"] == header.replace("_", "-")
