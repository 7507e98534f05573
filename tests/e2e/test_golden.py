"""Answers of another engine on the same file, over HTTP."""

import pytest
from harness import MODEL, certain, golden, greedy

GOLDEN = golden()


def test_tokenize(server):
    for case in GOLDEN["tokenize"]:
        for field, parse_special in (("plain", False), ("special", True)):
            body = {"content": case["text"], "add_special_tokens": False, "parse_special": parse_special}
            answer = server.client.post("/tokenize", json=body | {"model": MODEL})
            assert answer.status_code == 200, answer.text
            assert answer.json()["tokens"] == case[field], case["text"]
            assert answer.json()["count"] == len(case[field])


def test_detokenize(server):
    for case in GOLDEN["tokenize"]:
        answer = server.client.post("/detokenize", json={"model": MODEL, "tokens": case["plain"]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["content"] == case["text"]


def prefix(server, case):
    """The text that every engine must give: that of the steps before the first near tie."""
    ids = [step["id"] for step in case["steps"][: certain(case)]]
    answer = server.client.post("/detokenize", json={"model": MODEL, "tokens": ids}).json()
    return answer["content"].rstrip("\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("case", GOLDEN["completions"], ids=lambda case: case["prompt"][:20])
def test_completions(server, case):
    text = greedy(server, case["prompt"], max_tokens=len(case["steps"]))
    assert text.startswith(prefix(server, case))


@pytest.mark.parametrize("case", GOLDEN["chats"], ids=lambda case: case["messages"][-1]["content"][:20])
def test_chats(server, case):
    body = {"model": MODEL, "messages": case["messages"], "temperature": 0, "max_tokens": len(case["steps"])}
    answer = server.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["prompt_tokens"] == len(case["prompt_ids"])
    assert answer.json()["choices"][0]["message"]["content"].startswith(prefix(server, case))


def test_each_kernel():
    from harness import Server

    case = GOLDEN["completions"][0]
    for kernel in ("portable", "avx2"):
        with Server(f"--kernel={kernel}") as server:
            assert greedy(server, case["prompt"], max_tokens=8).startswith(prefix(server, case)[:10])
