"""The scenario, played directly and through the proxy, and what is true about its outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate

from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from epochgate.demo.client import Call, Client, Seen
from epochgate.demo.ledger import LEDGER, TOOL, Json
from epochgate.demo.process import running
from epochgate.demo.server import RAN_AHEAD_TO

Metrics = dict[str, float]
OnSeen = Callable[[Seen], None]

TRUE_TOTALS: tuple[int, ...] = tuple(accumulate(LEDGER))
EXPECTED_TOTAL = sum(LEDGER)
WITH_REISSUE = 3  # runs of the handler: the first, the one re-created by the server, the whole one
MARK = "dev.epochgate/restart"


@dataclass(frozen=True, slots=True)
class Row:
    """One message of the tool's stream; `said` and `true` are running totals (None: not progress)."""

    leg: int
    event_id: str | None
    kind: str  # progress | notice | answer
    entry: int | None
    said: int | None
    true: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One play: what the client got, and (`facts`) what the server really did."""

    call: Call
    rows: tuple[Row, ...]
    facts: Json

    @property
    def total(self) -> int | None:
        content = self.call.answers[0].get("result", {}).get("structuredContent", {})
        total = content.get("total")
        return total if isinstance(total, int) else None

    @property
    def first_wrong_entry(self) -> int | None:
        """The first entry whose running total, as told, is not the true one."""
        return next((row.entry for row in self.rows if row.said != row.true), None)

    @property
    def mark(self) -> Json | None:
        answer = self.call.answers[0]
        holder = answer.get("result", {}).get("_meta") or answer.get("error", {}).get("data") or {}
        mark: Json | None = holder.get(MARK)
        return mark


@dataclass(frozen=True, slots=True)
class Guarded:
    outcome: Outcome
    before: Metrics
    after: Metrics

    @property
    def moved(self) -> Metrics:
        """What each series of the proxy gained during the play."""
        gains = {key: value - self.before.get(key, 0.0) for key, value in self.after.items()}
        return {key: gain for key, gain in sorted(gains.items()) if gain}


def _row(seen: Seen) -> Row:
    message = seen.message
    if "method" not in message:
        meta = message.get("result", {}).get("_meta", {})
        return Row(seen.leg, seen.event_id, "answer", None, None, None, meta.get("session_epoch"))
    params = message.get("params", {})
    epoch = params.get("_meta", {}).get("session_epoch")
    if message["method"] != "notifications/progress":
        return Row(seen.leg, seen.event_id, "notice", None, None, None, epoch)
    entry, said = params["progress"], int(params["message"].rpartition(" ")[2])
    return Row(seen.leg, seen.event_id, "progress", entry, said, TRUE_TOTALS[entry - 1], epoch)


# --- judging the plays --------------------------------------------------------------------------


def find_faults_of_direct(direct: Outcome) -> list[str]:
    """Why the direct play does not show the splice; empty when it was really wrong."""
    faults = []
    if direct.total is None or direct.total == EXPECTED_TOTAL:
        faults.append(f"direct: the total {direct.total} is not wrong")
    if direct.first_wrong_entry != RAN_AHEAD_TO + 1:
        faults.append(f"direct: wrong from entry {direct.first_wrong_entry}, not from {RAN_AHEAD_TO + 1}")
    if [row.event_id for row in direct.rows] != [str(n + 1) for n in range(len(LEDGER) + 1)]:
        faults.append("direct: the event ids show a gap")
    if set(direct.call.statuses) != {200}:
        faults.append(f"direct: the statuses {direct.call.statuses} give it away")
    return faults


def find_faults_of_guarded(guarded: Outcome) -> list[str]:
    """Why the guarded play is not right; empty when it was, although the fault did happen."""
    faults = []
    if not guarded.facts["evicted"] or not guarded.facts["silently_recreated"]:
        faults.append("guarded: the fault did not happen on the server")
    whole_runs = [run for run in guarded.facts["runs"] if _is_whole(run)]
    if len(whole_runs) != 1 or len(guarded.facts["runs"]) != WITH_REISSUE:
        faults.append(f"guarded: not exactly one whole run behind the broken ones: {guarded.facts['runs']}")
    if len(guarded.call.answers) != 1:
        faults.append(f"guarded: {len(guarded.call.answers)} answers")
    if guarded.total != EXPECTED_TOTAL:
        faults.append(f"guarded: the total is {guarded.total}, not {EXPECTED_TOTAL}")
    if guarded.first_wrong_entry is not None:
        faults.append(f"guarded: the running total is wrong at entry {guarded.first_wrong_entry}")
    if guarded.mark is None:
        faults.append("guarded: the answer does not say that it was run again")
    return faults


def _is_whole(run: Json) -> bool:
    return bool((run["first_entry"], run["last_entry"]) == (1, len(LEDGER)))


# --- playing ------------------------------------------------------------------------------------


async def play_direct(on_seen: OnSeen, server_options: Sequence[str] = ()) -> Outcome:
    """Client and server without anything between. Raises DemoFailed, CallLost."""
    async with _server(server_options) as upstream, ClientSession() as http:
        return await _play(http, upstream, upstream, on_seen)


async def play_guarded(on_seen: OnSeen) -> Guarded:
    """The same, through a proxy of its own with default settings. Raises DemoFailed, CallLost."""
    async with _server() as upstream, _proxy(upstream) as (listen, admin), ClientSession() as http:
        before = await _scrape(http, admin)
        outcome = await _play(http, listen, upstream, on_seen)
        return Guarded(outcome, before, await _scrape(http, admin))


async def _play(http: ClientSession, target: str, upstream: str, on_seen: OnSeen) -> Outcome:
    client = Client(http, f"{target}/mcp")
    await client.open()
    await client.request("tools/list", {})
    call = await client.call_tool(TOOL["name"], on_seen)
    async with http.get(f"{upstream}/facts") as response:
        facts: Json = await response.json()
    await client.close()
    return Outcome(call, tuple(_row(seen) for seen in call.seen), facts)


async def _scrape(http: ClientSession, admin: str) -> Metrics:
    async with http.get(f"{admin}/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    return {
        _series(sample.name, sample.labels): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("epochgate_") and not sample.name.endswith(("_bucket", "_created"))
    }


def _series(name: str, labels: dict[str, str]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{inner}}}" if inner else name


@asynccontextmanager
async def _server(options: Sequence[str] = ()) -> AsyncIterator[str]:
    async with running("port", "-m", "epochgate.demo.server", *options) as hello:
        yield f"http://127.0.0.1:{hello['port']}"


@asynccontextmanager
async def _proxy(upstream: str) -> AsyncIterator[tuple[str, str]]:
    """Yields the traffic URL and the admin URL."""
    free = "127.0.0.1:0"
    arguments = ("-m", "epochgate", "run", "--upstream", upstream, "--listen", free, "--admin", free)
    async with running("listen", *arguments) as hello:
        yield f"http://{hello['listen']}", f"http://{hello['admin']}"
