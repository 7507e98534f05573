"""Every way to be refused: status, shape, and what to do next."""

import concurrent.futures
import socket

import httpx
import openai
import pytest
from harness import MODEL, Server, events, wait_until

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
TEXT = {"model": MODEL, "prompt": "Hi", "max_tokens": 4}


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code, error
    assert error["message"] and error["type"]
    assert "param" in error
    return error


@pytest.mark.parametrize(
    ("path", "change", "param"),
    [
        ("chat", {"temperature": -0.1}, "temperature"),
        ("chat", {"temperature": "hot"}, "temperature"),
        ("chat", {"top_p": 1.5}, "top_p"),
        ("chat", {"top_p": 0}, "top_p"),
        ("chat", {"n": 0}, "n"),
        ("chat", {"max_tokens": 0}, "max_tokens"),
        ("chat", {"max_tokens": -1}, "max_tokens"),
        ("chat", {"presence_penalty": 3}, "presence_penalty"),
        ("chat", {"frequency_penalty": -3}, "frequency_penalty"),
        ("chat", {"logit_bias": {"99999999": 1}}, "logit_bias"),
        ("chat", {"logit_bias": {"1": 101}}, "logit_bias"),
        ("chat", {"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ("chat", {"stop": ["a", "b", "c", "d", ""]}, "stop"),
        ("chat", {"messages": []}, "messages"),
        ("chat", {"messages": [{"content": "no role"}]}, "messages[0].role"),
        ("chat", {"messages": "hi"}, "messages"),
        ("chat", {"stream": "yes"}, "stream"),
        ("text", {"prompt": None}, "prompt"),
        ("text", {"prompt": [99999999]}, "prompt"),
        ("text", {"prompt": {"a": 1}}, "prompt"),
        ("text", {"min_p": 2}, "min_p"),
        ("text", {"seed": "x"}, "seed"),
    ],
)
def test_a_wrong_field_is_named(server, path, change, param):
    url, body = ("/v1/chat/completions", CHAT) if path == "chat" else ("/v1/completions", TEXT)
    error = refused(server.client.post(url, json=body | change), 400, "invalid_request")
    assert error["type"] == "invalid_request_error"
    assert error["param"] and error["param"].startswith(param), error


def test_unknown_fields_are_ignored(server):
    assert server.client.post("/v1/completions", json=TEXT | {"metadata": {"a": [1]}, "zzz": 1}).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": "smollm2", "prompt": "\\ud800"}', b"[" * 100_000, b"1e999"]
)
def test_a_body_that_is_no_request(server, body):
    refused(server.client.post("/v1/completions", content=body, headers={"content-type": "application/json"}), 400, "invalid_request")


def test_places_that_are_not_there(server):
    refused(server.client.get("/v1/nothing"), 404, "not_found")
    refused(server.client.get("/v1/completions"), 405, "method_not_supported")
    refused(server.client.post("/v1/completions", json=TEXT | {"model": "other"}), 404, "model_not_found")


def test_a_body_that_is_too_large(server):
    refused(server.client.post("/v1/completions", json=TEXT | {"prompt": "x" * (9 << 20)}), 413, "body_too_large")


def test_a_prompt_that_can_never_fit(server):
    for request in (TEXT | {"prompt": "word " * 20_000}, TEXT | {"max_tokens": 1_000_000}):
        error = refused(server.client.post("/v1/completions", json=request), 400, "context_length_exceeded")
        assert any(c.isdigit() for c in error["message"]), "says neither length nor limit"


def test_a_template_that_refuses(server):
    # SmolLM2's template indexes the first message; a role it cannot render is its own business, not a 500.
    body = CHAT | {"messages": [{"role": "user", "content": {"not": "text"}}]}
    assert server.client.post("/v1/chat/completions", json=body).status_code in (200, 400)


def test_the_official_client_raises_the_right_class(server):
    client = server.openai()
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**CHAT | {"temperature": 9})
    assert error.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**CHAT | {"model": "other"})


def test_request_ids(server):
    given = server.client.get("/v1/models", headers={"x-request-id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    assert server.client.get("/v1/models").headers["x-request-id"]


def test_a_full_queue_says_when_to_come_back():
    with Server("--max-seqs=1", "--queue=1") as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        endless = TEXT | {"max_tokens": 2000, "ignore_eos": True, "stream": True}

        def take():
            with httpx.stream("POST", f"{server.http}/v1/completions", json=endless, timeout=60) as answer:
                if answer.status_code != 200:
                    answer.read()
                    return answer
                for _ in events(answer):
                    if done:
                        return answer
            return answer

        done = False
        first = pool.submit(take)
        server.wait_until_busy()
        second = pool.submit(take)
        wait_until(lambda: server.held()["queued"] == 1, "the second does not wait")
        try:
            third = take()
            refused(third, 429, "queue_full")
            assert third.headers["x-plimsoll-reason"] == "queue_full"
            assert int(third.headers["retry-after-ms"]) > 0
            assert int(third.headers["retry-after"]) > 0
            with pytest.raises(openai.RateLimitError):
                server.openai().completions.create(**TEXT)
        finally:
            done = True
        assert first.result().status_code == second.result().status_code == 200
        server.wait_until_idle()
        assert server.client.post("/v1/completions", json=TEXT).status_code == 200


def test_more_than_a_key_may_ever_have_is_no_matter_of_waiting(tmp_path):
    config = tmp_path / "plimsoll.toml"
    config.write_text('[server]\napi_key = ["free"]\n\n[[key]]\nkey = "two"\nmax_in_flight = 2\n')
    with Server(f"--config={config}") as server:

        def ask(key, **more):
            return server.client.post("/v1/completions", json={**TEXT, **more}, headers={"authorization": f"Bearer {key}"})

        for more in ({"prompt": ["a", "b", "c"]}, {"n": 3}, {"prompt": ["a", "b"], "n": 2}):
            answer = ask("two", **more)
            refused(answer, 400, "invalid_request")
            assert "2" in answer.json()["error"]["message"]
            assert ask("free", **more).status_code == 200
        assert ask("two", prompt=["a", "b"]).status_code == 200


def test_a_key_for_batch_asks_for_nothing_more_urgent(tmp_path):
    config = tmp_path / "plimsoll.toml"
    config.write_text('[[key]]\nkey = "nightly"\npriority = "batch"\nleast_timeout = "5s"\n')
    with Server(f"--config={config}") as server:

        def ask(more=None, **headers):
            headers = {"authorization": "Bearer nightly", **headers}
            return server.client.post("/v1/completions", json={**TEXT, **(more or {})}, headers=headers)

        # As clients of vLLM have it who mean nothing by it.
        for more in ({}, {"priority": 0}, {"priority": None}, {"priority": 3}):
            assert ask(more).status_code == 200, more
        refused(ask({"priority": -1}), 400, "invalid_request")
        refused(ask(**{"x-priority": "standard"}), 400, "invalid_request")
        refused(ask(**{"x-request-timeout-ms": "4999"}), 400, "invalid_request")
        assert ask(**{"x-request-timeout-ms": "60000"}).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    ],
)
def test_bytes_that_are_no_http(server, sent):
    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # The server hung up first, which is an answer too.
    assert server.client.get("/v1/models").status_code == 200
