"""The benchmark runs and checks what it measures. Its figures are judged by `make bench`, not here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.load import LoadError, Session, check_response, check_stream
from benchmarks.measure import CPU_ROWS, IDLE_ROW, Sample
from benchmarks.proxies import COMMANDS, Cores, Proxy, ProxyError, running
from benchmarks.report import Result, is_within
from benchmarks.upstream import STYLES, Upstream

ROOT = Path(__file__).resolve().parent.parent
RUN_S = 120.0


def run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False)


def event(token: int, step: int) -> bytes:
    params = {"progressToken": token, "progress": step, "total": 3}
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return f"event: message\ndata: {json.dumps(message, separators=(',', ':'))}\n\n".encode()


def response(request_id: int, key: str) -> bytes:
    result = {"content": [{"type": "text", "text": f"{key} ..."}]}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


def final(request_id: int, key: str) -> bytes:
    return b"data: " + response(request_id, key) + b"\n\n"


@pytest.mark.parametrize("subject", ["bare", "epochgate"])
def test_a_tiny_run_prints_every_row_with_both_proxies(subject: str) -> None:
    done = run_benchmark("--subject", subject, "--rounds", "1", "--scale", "0.002", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["row"] for row in report["rows"]] == [row.name for row in (*CPU_ROWS, IDLE_ROW)]
    for row in report["rows"]:
        assert [proxy["name"] for proxy in row["proxies"]][:2] == ["bare", subject]
        assert all(len(proxy["samples"]) == 1 for proxy in row["proxies"])


def test_a_trickle_event_is_one_read_of_the_proxy() -> None:
    done = run_benchmark(
        "--subject", "bare", "--rounds", "1", "--scale", "0.02", "--json", "--rows", "trickle"
    )
    (row,) = json.loads(done.stdout)["rows"]
    assert row["proxies"][0]["units_per_read"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([sys.executable, "-c", "raise SystemExit('no such upstream')"], "no such upstream"),
        (["/nonexistent/proxy"], "not installed"),
    ],
)
async def test_a_proxy_that_does_not_start_is_named_with_its_last_words(
    command: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "broken", lambda *_: command)
    own = os.sched_getaffinity(0)
    with pytest.raises(ProxyError, match=words):
        async with running("broken", "127.0.0.1:1", Cores.choose()):
            pass
    assert os.sched_getaffinity(0) == own


@pytest.mark.parametrize("style", STYLES)
async def test_the_load_takes_what_the_upstream_gives_in_every_style(style: str) -> None:
    upstream = Upstream(has_epochs=True)
    session = await Session.open(await upstream.start())
    await session.call_json()
    await session.call_stream(upstream, events=10, block=3, style=style)
    await session.end()
    upstream.close()


@pytest.mark.parametrize(
    ("steps", "token", "key"),
    [
        ([1, 3], 7, "k"),  # an event lost
        ([1, 2, 2, 3], 7, "k"),  # an event twice
        ([2, 1, 3], 7, "k"),  # order
        ([1, 2, 3], 8, "k"),  # another call's events
        ([1, 2, 3], 7, "other"),  # another call's answer
    ],
)
def test_a_wrong_stream_fails_the_run(steps: list[int], token: int, key: str) -> None:
    body = b"".join(event(token, step) for step in steps) + final(7, key)
    with pytest.raises(LoadError):
        check_stream(body, request_id=7, key="k", events=3)


def test_two_answers_or_none_fail_the_run() -> None:
    events = b"".join(event(7, step) for step in (1, 2, 3))
    check_stream(events + final(7, "k"), request_id=7, key="k", events=3)
    for body in (events, events + final(7, "k") + final(7, "k"), final(7, "k") + events):
        with pytest.raises(LoadError):
            check_stream(body, request_id=7, key="k", events=3)


def test_cursors_and_priming_of_the_guard_are_no_messages() -> None:
    body = b"id: 5\ndata: \n\n" + b"".join(b"id: %d\n" % n + event(7, n) for n in (1, 2, 3)) + final(7, "k")
    check_stream(body, request_id=7, key="k", events=3)


def test_the_answer_to_another_request_fails_the_run() -> None:
    check_response(response(7, "k"), request_id=7, key="k")
    with pytest.raises(LoadError, match="id 8"):
        check_response(response(8, "k"), request_id=7, key="k")


def test_the_limit_is_on_the_median_of_the_rounds() -> None:
    result = Result(CPU_ROWS[0], ["bare", "epochgate"])
    for bare, mine in ((10.0, 11.0), (10.0, 30.0), (20.0, 24.0)):
        result.add(0, Sample(bare))
        result.add(1, Sample(mine))
    assert result.ratio() == pytest.approx(1.2)
    assert result.ratio_of_minima() == pytest.approx(1.1)
    assert is_within([result])
    result.add(0, Sample(10.0))
    result.add(1, Sample(14.0))
    assert result.ratio() == pytest.approx(1.3)
    assert not is_within([result])


def test_cpu_time_is_that_of_proc_stat() -> None:
    me = Proxy("me", os.getpid(), "")
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    assert me.cpu_s() == pytest.approx(ticks / os.sysconf("SC_CLK_TCK"), abs=0.05)
