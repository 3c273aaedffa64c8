"""The demo must really be wrong directly and right when guarded, and say so by its exit code."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from epochgate import SessionEpoch, resume_or_restart
from epochgate.demo import main, play
from epochgate.demo.client import Client, Seen, SseReader
from epochgate.demo.ledger import LEDGER
from epochgate.demo.server import Server

DEMO = (sys.executable, "-m", "epochgate", "demo")
MAX_DEMO_S = 60
MARKER = "DEMO_TEST_MARKER"  # in the environment of everything that a demo started by a test starts


def ignore(seen: Seen) -> None:
    """For plays that nobody watches."""


@pytest.fixture(scope="module")
def direct() -> play.Outcome:
    return asyncio.run(play.play_direct(ignore))


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """The JSON line of one piped demo that ended with exit code 0."""
    ended = subprocess.run(
        [*DEMO, "--json", "--no-color"], capture_output=True, text=True, timeout=MAX_DEMO_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "\x1b" not in ended.stdout
    assert ended.stderr == ""
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


# --- the direct play ----------------------------------------------------------------------------


def test_the_direct_answer_is_spliced_and_nothing_but_its_value_shows_it(direct: play.Outcome) -> None:
    assert direct.call.statuses == [200, 200]
    assert direct.call.cursors == ["900"]
    assert [row.event_id for row in direct.rows] == [str(n) for n in range(1, 1002)]
    assert direct.total == sum(LEDGER[950:])
    assert sum(LEDGER) == play.EXPECTED_TOTAL
    assert play.find_faults_of_direct(direct) == []


def test_events_are_tagged_with_the_epoch_they_were_produced_in(direct: play.Outcome) -> None:
    assert [row.epoch for row in direct.rows] == [1] * 950 + [2] * 51


def test_the_first_resumed_event_passes_the_check_and_a_later_one_does_not(direct: play.Outcome) -> None:
    captured = SessionEpoch("any", 1)

    def verdict(event_id: int) -> str:
        row = direct.rows[event_id - 1]
        event = {"id": row.event_id, "_meta": {"session_epoch": row.epoch}}
        return resume_or_restart(captured, event, event_id - 1)

    assert (verdict(901), verdict(950), verdict(951)) == ("resume", "resume", "restart")


def test_without_the_fault_the_direct_play_is_right_and_the_demo_would_fail() -> None:
    healthy = asyncio.run(play.play_direct(ignore, ["--cut-after", "0"]))

    assert healthy.total == play.EXPECTED_TOTAL
    assert play.find_faults_of_direct(healthy) != []
    assert "guarded: the fault did not happen on the server" in play.find_faults_of_guarded(healthy)


def test_an_unguarded_answer_is_not_taken_for_a_guarded_one(direct: play.Outcome) -> None:
    assert [fault for fault in play.find_faults_of_guarded(direct) if "whole run" not in fault] == [
        f"guarded: the total is {sum(LEDGER[950:])}, not {sum(LEDGER)}",
        "guarded: the running total is wrong at entry 951",
        "guarded: the answer does not say that it was run again",
    ]


def test_a_right_total_behind_a_wrong_running_total_is_still_wrong(direct: play.Outcome) -> None:
    answer = direct.call.answers[0] | {
        "result": {"structuredContent": {"total": sum(LEDGER)}, "_meta": {play.MARK: {"generation": 2}}}
    }
    mended = dataclasses.replace(direct, call=dataclasses.replace(direct.call, answers=[answer]))

    assert "guarded: the running total is wrong at entry 951" in play.find_faults_of_guarded(mended)


def test_an_answer_without_a_whole_run_behind_it_is_not_taken_for_right(direct: play.Outcome) -> None:
    assert any("not exactly one whole run" in fault for fault in play.find_faults_of_guarded(direct))


# --- the guarded play ---------------------------------------------------------------------------


def test_the_guarded_answer_is_right_although_the_fault_happened(told: dict[str, Any]) -> None:
    guarded = told["guarded"]

    assert told["ok"] is True
    assert told["expected_total"] == sum(LEDGER)
    assert told["direct"]["total"] == sum(LEDGER[950:])
    assert guarded["total"] == sum(LEDGER)
    assert guarded["first_wrong_entry"] is None
    assert guarded["answers"] == 1
    assert guarded["server"]["silently_recreated"] == 1
    assert guarded["server"]["initializes"] == 2
    assert guarded["server"]["runs"][-1]["first_entry"] == 1
    assert guarded["verdicts"] == ["resume (epoch_match)", "restart (epoch_mismatch)"]
    assert guarded["mark"]["reason"] == "epoch_mismatch"
    assert guarded["mark"]["reissued"] is True


def test_the_metrics_show_the_verdict_the_heal_and_the_price(told: dict[str, Any]) -> None:
    moved: dict[str, float] = told["guarded"]["metrics_moved"]

    def gained(name: str, *labels: str) -> float:
        return sum(
            gain
            for series, gain in moved.items()
            if series.partition("{")[0] == name and all(label in series for label in labels)
        )

    restart = ('leg="upstream"', 'stream="request"', 'verdict="restart"')
    assert gained("epochgate_resumes_total", *restart) == 1
    assert gained("epochgate_resumes_total", *restart, 'reason="epoch_mismatch"') == 1
    assert gained("epochgate_heals_total", 'trigger="epoch_mismatch"', 'outcome="healed"') == 1
    assert gained("epochgate_reissues_total", 'method="tools/call"', 'outcome="sent"') == 1
    assert gained("epochgate_discarded_events_total") == told["guarded"]["mark"]["discarded_events"] == 950
    assert gained("epochgate_discarded_work_seconds_sum") > 0


# --- the command --------------------------------------------------------------------------------


def test_a_demo_whose_proxy_does_not_come_up_fails_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    assert main.main(["--json"]) == 1
    ended = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert ended["faults"] == ["a process of the demo ended early: it said nothing"]
    assert ended["direct"] is None


def test_a_demo_that_is_stopped_leaves_no_process_behind() -> None:
    marker = f"{MARKER}={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = marker.partition("=")
    running = subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, text=True, env=os.environ | {name: value, "PYTHONUNBUFFERED": "1"}
    )
    assert running.stdout is not None
    with running.stdout as lines:
        assert any("entry 250" in line for line in lines)
        assert len(processes_with(marker)) >= 2
        running.send_signal(signal.SIGTERM)
        rest = lines.read()

    assert running.wait(MAX_DEMO_S) == 1
    assert "stopped by a signal" in rest
    assert processes_with(marker) == []


def processes_with(marker: str) -> list[str]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in environment.read_bytes().split(b"\0"):
                found.append(environment.parent.name)
        except OSError:
            continue  # it ended, or is not ours to look into
    return found


def test_the_readme_tells_the_play_as_it_is(direct: play.Outcome) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for event_id in (900, 901, 950, 951):
        row = direct.rows[event_id - 1]
        assert f"| {event_id} | {row.said:,} | {row.true:,} |" in readme
    assert f"| 1001 | `1,000 entries, total {direct.total:,}` | {sum(LEDGER):,} |" in readme


# --- the parts ----------------------------------------------------------------------------------


async def test_a_resume_into_a_session_that_lives_goes_on_rightly() -> None:
    """The server's fault is the coincidence, not its resumes: without an eviction they are right."""
    runner = web.AppRunner(Server(cut_after=0).app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    async with ClientSession() as http:
        client = Client(http, url)
        await client.open()
        left = False

        def leave_once(seen: Seen) -> None:
            nonlocal left
            if seen.event_id == "10" and not left:
                left = True
                raise ConnectionResetError

        call = await client.call_tool("sum_ledger", leave_once)
    await runner.cleanup()

    assert call.cursors == ["10"]
    assert [seen.event_id for seen in call.seen] == [str(n) for n in range(1, 1002)]
    assert call.answers[0]["result"]["structuredContent"]["total"] == sum(LEDGER)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_reader_finds_the_same_events_wherever_the_bytes_are_cut(size: int) -> None:
    stream = b": hi\n\nid: 1\r\nevent: message\r\ndata: a\r\n\r\nid: 2\ndata: b\ndata: c\n\nid: 3\ndata: \n\n"
    reader = SseReader()
    events = [
        event for start in range(0, len(stream), size) for event in reader.feed(stream[start : start + size])
    ]

    assert events == [("1", b"a"), ("2", b"b\nc"), ("3", b"")]
