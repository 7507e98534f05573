"""The official client, as an application uses it."""

import httpx
import openai
import pytest
from harness import MODEL, Server, golden

QUESTION = [{"role": "user", "content": "What colour is the sky?"}]


def ask(server, **options):
    options = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 12} | options
    return server.openai().chat.completions.create(**options)


def test_models(server):
    models = server.openai().models.list().data
    assert [model.id for model in models] == [MODEL]
    assert server.openai().models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        server.openai().models.retrieve("no-such-model")


def test_chat(server):
    answer = ask(server)
    choice = answer.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert answer.model == MODEL
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert choice.finish_reason in ("stop", "length")


def test_chat_streamed_is_the_same_text(server):
    chunks = list(ask(server, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = ask(server)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert finishes[-1] == whole.choices[0].finish_reason and set(finishes[:-1]) <= {None}
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_only_sent_when_asked_for(server):
    assert all(chunk.usage is None and chunk.choices for chunk in ask(server, stream=True))


def test_completions(server):
    client = server.openai()
    options = {"model": MODEL, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}
    answer = client.completions.create(**options)
    assert answer.choices[0].text.startswith(" Paris")
    assert answer.usage.completion_tokens == 8
    assert answer.choices[0].finish_reason == "length"
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**options, stream=True))
    assert streamed == answer.choices[0].text
    echoed = client.completions.create(**options, echo=True)
    assert echoed.choices[0].text == options["prompt"] + answer.choices[0].text
    ids = golden()["completions"][0]["prompt_ids"]
    assert client.completions.create(**options | {"prompt": ids}).choices[0].text == answer.choices[0].text


def test_several_prompts_and_choices(server):
    prompts = ["Water boils at", "In the beginning"]
    answer = server.openai().completions.create(model=MODEL, prompt=prompts, max_tokens=4, temperature=0, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    texts = [choice.text for choice in answer.choices]
    assert texts[0] == texts[1] != texts[2] == texts[3]


def test_seed(server):
    def once(seed):
        options = {"model": MODEL, "prompt": "My favourite", "max_tokens": 16, "temperature": 1.0}
        return server.openai().completions.create(**options, seed=seed).choices[0].text

    assert once(7) == once(7)
    assert len({once(seed) for seed in range(4)}) > 1


def test_stop_strings_do_not_leak(server):
    options = {"model": MODEL, "prompt": "List three colours:\n1.", "temperature": 0, "max_tokens": 16}
    whole = server.openai().completions.create(**options).choices[0].text
    # Across a token's border, and begun in the middle of one.
    stop = whole[3:9]
    for stream in (False, True):
        answer = server.openai().completions.create(**options, stop=[stop], stream=stream)
        chunks = list(answer) if stream else [answer]
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole[: whole.index(stop)]
        assert chunks[-1].choices[0].finish_reason == "stop"


def test_logprobs(server):
    answer = ask(server, logprobs=True, top_logprobs=3, max_tokens=5)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    for token in tokens:
        # Greedy takes the most likely.
        assert token.token == token.top_logprobs[0].token
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        assert [top.logprob for top in token.top_logprobs] == sorted((top.logprob for top in token.top_logprobs), reverse=True)


def test_cancel(server):
    for stream in (True, False):
        body = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": stream}
        with httpx.Client(base_url=server.http) as client:
            if stream:
                with client.stream("POST", "/v1/completions", json=body) as answer:
                    lines = answer.iter_lines()
                    next(lines)
                    assert server.held()["running"] == 1
            else:
                with pytest.raises(httpx.ReadTimeout):
                    client.post("/v1/completions", json=body, timeout=0.3)
        server.wait_until_idle()


def test_cancel_with_the_official_client(server):
    stream = server.openai().completions.create(
        model=MODEL, prompt="Once upon a time", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    server.wait_until_idle()


def test_cancel_while_the_prompt_is_read(server):
    before = server.metric("plimsoll_generated_tokens_total")
    body = {"model": MODEL, "prompt": "word " * 6000, "max_tokens": 1}
    with httpx.Client(base_url=server.http) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/completions", json=body, timeout=0.3)
    server.wait_until_idle()
    assert server.metric("plimsoll_generated_tokens_total") == before


def test_api_keys():
    with Server("--api-key=alice", env={}) as server:
        assert server.openai("alice").models.list().data
        for key in ("bob", "alic", "alice2"):
            with pytest.raises(openai.AuthenticationError) as refused:
                server.openai(key).models.list()
            assert refused.value.body["code"] == "invalid_api_key"
        assert httpx.get(f"{server.http}/v1/models").status_code == 401
        assert httpx.get(f"{server.http}/health").status_code == 200
    with Server(env={"PLIMSOLL_API_KEY": "alice,bob"}) as server:
        assert server.openai("bob").models.list().data
