"""`plimsoll bench serve` against the real server: what it reports is what the server saw."""

import json
import signal
import subprocess

import pytest
from harness import MODEL, PATIENCE, environment, plimsoll, setting, wait_until


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return tmp_path_factory.mktemp("load")


def bench(server, folder, *flags):
    """Runs a bench and returns its JSON, what it printed, and its page."""
    files = folder / "report.json", folder / "report.html"
    result = plimsoll("bench", "serve", server.http, f"--json={files[0]}", f"--html={files[1]}", "--warmup=0s", *flags)
    assert result.returncode == 0, result.stderr
    return json.loads(files[0].read_text()), result.stdout, files[1].read_text()


def test_it_counts_what_the_server_counts(server, reports):
    def generated():
        return server.metric("plimsoll_generated_tokens_total"), server.metric("plimsoll_prompt_tokens_total")

    before = generated()
    report, printed, page = bench(
        server, reports, "--rate=8", "--requests=12", "--prompt-tokens=40-60", "--output-tokens=6", "--slo=e2e=100s"
    )
    after = generated()
    run = report["runs"][0]
    summary = run["summary"]
    assert summary["offered"] == summary["outcomes"]["in_promise"] == 12
    assert summary["tokens_by"] == "usage"
    assert all(record["completion_tokens"] == 6 for record in run["records"])
    # Two requests of two tokens found out how words become tokens.
    assert after[0] - before[0] == 12 * 6 + 2 * 2
    prompts = [record["prompt_tokens"] for record in run["records"]]
    assert all(35 <= tokens <= 65 for tokens in prompts), prompts
    computed = [record["prompt_tokens"] - record["cached_tokens"] for record in run["records"]]
    assert after[1] - before[1] > sum(computed)
    assert all(record["first"] <= record["last"] <= record["end"] for record in run["records"])
    assert "TTFT" in printed and "offered 12 (" in printed
    assert page.count("<svg") >= 4 and "<script" not in page and MODEL in page


def test_both_endpoints_and_classes(server, reports):
    flags = ["--rate=20", "--requests=6", "--output-tokens=3", "--prompt-tokens=20"]
    report, _, _ = bench(server, reports, "--endpoint=completions", "--mix=interactive=1,batch=1", *flags)
    run = report["runs"][0]
    assert [name for name, _ in run["classes"]] == ["interactive", "batch"]
    assert sum(summary["offered"] for _, summary in run["classes"]) == 6
    assert run["summary"]["outcomes"]["in_promise"] == 6


def test_conversations_share_their_beginning(server, reports):
    report, _, _ = bench(
        server, reports, "--sessions", "--turns=3", "--think=10ms", "--rate=30", "--requests=6", "--prompt-tokens=60",
        "--output-tokens=8",
    )
    records = report["runs"][0]["records"]
    assert len(records) == 6
    for conversation in {record["id"] for record in records}:
        turns = sorted((r for r in records if r["id"] == conversation), key=lambda r: r["turn"])
        assert [r["turn"] for r in turns] == [0, 1, 2]
        assert turns[0]["prompt_tokens"] < turns[1]["prompt_tokens"] < turns[2]["prompt_tokens"]
        assert turns[2]["cached_tokens"] > 0


def test_a_trace_is_replayed(server, reports, tmp_path):
    trace = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:15:{second:02}.5,400,50" for second in range(6)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    report, _, _ = bench(server, reports, f"--trace={trace}", "--speedup=10", "--scale-tokens=0.1")
    records = sorted(report["runs"][0]["records"], key=lambda r: r["id"])
    assert [round(r["intended"], 3) for r in records] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert all(r["completion_tokens"] == 5 for r in records)
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,a,1\n")
    refused = plimsoll("bench", "serve", server.http, f"--trace={trace}")
    assert refused.returncode != 0 and f"{trace}:2: " in refused.stderr, refused.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_was_measured_outlives_an_interruption(server, tmp_path, sent):
    result = tmp_path / "report.json"
    command = [setting("PLIMSOLL_TEST_BINARY"), "bench", "serve", server.http, "--rate=5", "--duration=1h", "--warmup=0s"]
    generated = server.metric("plimsoll_generated_tokens_total")
    process = subprocess.Popen(
        [*command, "--output-tokens=2", f"--json={result}"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    # Two requests of two tokens get to know the server; then three of the run.
    wait_until(lambda: server.metric("plimsoll_generated_tokens_total") >= generated + 10, "nothing is sent")
    process.send_signal(sent)
    printed, said = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0 and "stopped before the end" in said, said
    (run,) = json.loads(result.read_text())["runs"]
    assert run["cut_short"] and "(cut short)" in printed
    # What was under way is waited for, and nobody else sent anything.
    assert run["summary"]["offered"] == run["summary"]["outcomes"]["in_promise"] >= 3
    assert server.metric("plimsoll_generated_tokens_total") == generated + 4 + 2 * run["summary"]["offered"]


def test_a_full_disk_does_not_lose_the_figures(server, tmp_path):
    page = tmp_path / "report.html"
    flags = ["--rate=20", "--requests=2", "--warmup=0s", "--output-tokens=2", "--json=/dev/full", f"--html={page}"]
    result = plimsoll("bench", "serve", server.http, *flags)
    assert result.returncode != 0 and "--json: the report cannot be written" in result.stderr, result.stderr
    assert "offered 2 (" in result.stdout and "<svg" in page.read_text()


def test_what_cannot_run_says_why_in_one_line(server):
    cases = [
        (["--model=other", "--rate=1"], ["no model `other`", MODEL]),
        ([], ["--rate"]),
        (["--rate=1", "--json=/no/such/folder/x.json"], ["/no/such/folder/x.json"]),
    ]
    for flags, words in cases:
        result = plimsoll("bench", "serve", server.http, *flags)
        assert result.returncode != 0
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
        assert all(word in result.stderr for word in words), result.stderr
