"""`plimsoll tune` and `plimsoll simulate`: a profile is made, served from, and simulated with; bad input says what is wrong."""

import json
import tomllib

import pytest
from harness import Server, plimsoll, setting

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{15 + i // 60}:{i % 60:02}.0000000,{80 + i % 40},{20 + i % 30}\n" for i in range(300)
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "model.toml"
    model = setting("PLIMSOLL_TEST_SMOLLM2")
    result = plimsoll("tune", model, f"--out={path}", "--time=10s", "--ctx=512", "--max-seqs=4", "--threads=2")
    assert result.returncode == 0, result.stderr
    assert "knee" in result.stdout and str(path) in result.stdout
    return path


def test_a_profile_says_what_was_measured(profile):
    said = tomllib.loads(profile.read_text())
    assert said["version"] == 1 and said["model"]["file"].endswith(".gguf")
    assert said["machine"]["threads"] == 2 and said["machine"]["kv_type"] == "f16"
    assert all(cost >= 0 for cost in said["cost"].values()) and said["cost"]["step"] + said["cost"]["decode_sequence"] > 0
    ratios = said["residuals"]["ratios"]
    assert ratios == sorted(ratios) and 0.5 < ratios[4] < 2
    assert said["knee"]["batch"] in (1, 2, 4, 8) and said["lane"]["max_seqs"] == 4


def test_it_finds_how_many_replicas_hold(profile, tmp_path):
    files = tmp_path / "r.json", tmp_path / "r.html"
    flags = ["--rate=30", "--requests=3000", "--slo=ttft=500ms,itl=100ms,quantile=0.95"]
    result = plimsoll("simulate", f"--profile={profile}", f"--json={files[0]}", f"--html={files[1]}", *flags)
    assert result.returncode == 0, result.stderr
    report = json.loads(files[0].read_text())
    holds = report["holds"]
    runs = {run["replicas"]: run for run in report["runs"]}
    assert f"{holds} replica" in result.stdout
    assert runs[holds]["in_promise"] >= 0.95 * 3000
    assert all(run["in_promise"] < 0.95 * 3000 for replicas, run in runs.items() if replicas < holds)
    for run in runs.values():
        refused = run["refused_late"] + run["refused_never"] + run["refused_full"]
        assert run["in_promise"] + run["late"] + run["expired"] + refused == run["offered"] == 3000
    page = files[1].read_text()
    assert page.count("<svg") == 2 and "<script" not in page and "replica" in page
    again = plimsoll("simulate", f"--profile={profile}", *flags)
    assert again.stdout == result.stdout


def test_a_trace_on_stated_numbers_of_replicas(profile, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    flags = [f"--trace={trace}", "--speedup=10", "--replicas=2,1", "--slo=ttft=1s", "--spread=round-robin"]
    result = plimsoll("simulate", f"--profile={profile}", f"--json={tmp_path / 'r.json'}", *flags)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert [run["replicas"] for run in report["runs"]] == [1, 2]
    assert all(run["offered"] == 300 for run in report["runs"])
    assert report["holds"] is None and not report["searched"]


def test_bad_input_is_named(profile, tmp_path):
    trace = tmp_path / "bad.csv"
    trace.write_text("a,b\n1,2\n")
    other = tmp_path / "other.toml"
    other.write_text(profile.read_text().replace("version = 1", "version = 9"))
    cases = [
        ([f"--profile={tmp_path / 'none.toml'}", "--rate=1"], "cannot read the profile"),
        ([f"--profile={tmp_path}", "--rate=1"], "is a folder"),
        ([f"--profile={other}", "--rate=1"], "its version is 9"),
        ([f"--profile={trace}", "--rate=1"], "is no profile"),
        ([f"--profile={profile}"], "how much?"),
        ([f"--profile={profile}", "--rate=0"], "--rate must be above 0"),
        ([f"--profile={profile}", f"--trace={tmp_path / 'none.csv'}"], "none.csv"),
        ([f"--profile={profile}", f"--trace={trace}"], "layout"),
        ([f"--profile={profile}", "--rate=1", "--replicas=0"], "--replicas must be from 1 to 100000"),
        ([f"--profile={profile}", "--rate=1", "--slo=tpot=1ms"], "nobody promises"),
        ([f"--profile={profile}", "--rate=1", "--mix=urgent=1"], "no class `urgent`"),
    ]
    for flags, says in cases:
        result = plimsoll("simulate", *flags)
        assert result.returncode != 0 and says in result.stderr, (flags, result.stderr)


def test_a_server_begins_with_a_profile_of_its_own(profile):
    model = setting("PLIMSOLL_TEST_SMOLLM2")
    wrong = plimsoll("serve", model, "--http=127.0.0.1:0", "--admin=127.0.0.1:0", "--threads=1", f"--profile={profile}")
    assert wrong.returncode != 0 and "its number of threads is 2, and here it is 1" in wrong.stderr
    q8 = plimsoll("run", model, "hello", "--threads=2", "--kv-type=q8", f"--profile={profile}")
    assert q8.returncode != 0 and "its KV type is f16, and here it is q8" in q8.stderr
    said = plimsoll("run", model, "hello", "--max-tokens=2", "--threads=2", f"--profile={profile}")
    assert said.returncode == 0, said.stderr


def test_predictions_are_held_against_what_came(profile):
    """How good they are is tested strictly on the simulated lane: here nobody knows what else the machine does."""
    flags = ["--threads=2", "--max-seqs=4", "--ctx=512", f"--profile={profile}", "--slo=ttft=20s,itl=5s"]
    with Server(*flags) as server:
        load = ["--rate=4", "--requests=40", "--prompt-tokens=40", "--output-tokens=8"]
        result = plimsoll("bench", "serve", server.http, *load)
        assert result.returncode == 0, result.stderr
        kept, missed = (server.metric("plimsoll_predictions_total", result=result) for result in ("kept", "missed"))
        assert kept + missed == server.metric("plimsoll_ttft_seconds_count") >= 40
        assert kept >= 0.5 * (kept + missed), (kept, missed)
