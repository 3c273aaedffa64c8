"""The judge of a run: it knows where every message came from, and reads what each client saw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from epochgate.core.commands import HealBegun
from epochgate.core.events import PostArrived
from epochgate.core.policy import Reissue
from tests.properties.simulation.calls import Call, Seen
from tests.properties.simulation.client import Client
from tests.properties.simulation.connection import Connection
from tests.properties.simulation.records import Execution
from tests.properties.simulation.splices import SPLICE, Violation, splices

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

BLOCK_SPAN = 2**20


def examine(world: World) -> list[Violation]:
    """Every violation of a finished run, the gravest first."""
    return list(_examine(world))


def _examine(world: World) -> Iterator[Violation]:
    for client in world.clients:
        for call in client.calls:
            yield from splices(world, call)
            yield from _strangers(world, client, call)
            if world.mode == "core":
                yield from _answers(world, client, call)
                yield from _runs(world, client, call)
                yield from _order(world, call)
        if world.mode == "core":
            yield from _standalone(world, client)
            yield from _heals(world)
            yield from (Violation(*remark.split(": ", 1)) for remark in client.remarks)
    yield from (Violation("G2 upstream", text) for text in world.server.tools.strangers)
    if world.mode == "core":
        yield from (Violation(*wrong.split(": ", 1)) for wrong in world.trace.wrongs)


# --- G2 -------------------------------------------------------------------------------------------


def _strangers(world: World, client: Client, call: Call) -> Iterator[Violation]:
    is_stated = world.server.traits.epoch in ("produce", "send")
    tokens = {other.token: other.key for other in client.calls if other.token is not None}
    for seen in call.seen:
        origin = seen.origin
        params = seen.message.get("params", {})
        if seen.is_response and not _is_same_id(seen.message["id"], call.rid):
            yield Violation("G2 id", f"{call.key}: answered under id {seen.message['id']!r}")
        if seen.message.get("method") == "notifications/progress":
            token = params.get("progressToken")
            if origin is None or tokens.get(token) != origin.key:
                yield Violation("G2 stranger", f"{call.key}: progress {token!r} of [{origin}]")
            continue
        if origin is None or origin.key == call.key:
            continue
        is_own_session = origin.key.split(".")[0] == client.name
        if not is_own_session or seen.is_response or not is_stated:
            yield Violation("G2 stranger", f"{call.key} was given [{origin}]")


def _is_same_id(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


# --- G3 -------------------------------------------------------------------------------------------


def _answers(world: World, client: Client, call: Call) -> Iterator[Violation]:
    if len(call.answers) > 1:
        yield Violation("G3 double answer", f"{call.key}: {[a.message for a in call.answers]}")
    if call.cancelled_at is not None:
        if call.leg is not None and call.leg.is_current and not call.answers:
            yield Violation("G3 cancelled", f"{call.key}: its stream is still open")
        return
    if client.is_deleted and not call.answers:
        if call.leg is not None and call.leg.is_current:
            yield Violation("G3 deleted", f"{call.key}: still open after the DELETE")
        return
    if call.lost is None and not call.answers and call.refused != [404]:
        yield Violation("G3 hang", f"{call.key} ({call.tool}): no answer, refused {call.refused}")
    if call.refused == [404] and call.resumes:
        yield Violation("G3 lost", f"{call.key}: a resume was answered 404")


# --- G4 -------------------------------------------------------------------------------------------


def _runs(world: World, client: Client, call: Call) -> Iterator[Violation]:
    runs = [execution for execution in world.server.executions if execution.key == call.key]
    policy = world.policy
    if len(runs) > 1 + policy.max_reissues:
        yield Violation("G4 runs", f"{call.key} ran {len(runs)} times")
    is_safe_policy = policy.reissue is not Reissue.ALWAYS
    if call.tool == "order" and world.server.traits.annotates and is_safe_policy and len(runs) > 1:
        yield Violation("G4 destructive", f"{call.key} ran {len(runs)} times")
    if policy.reissue in (Reissue.NEVER, Reissue.READS) and len(runs) > 1:
        yield Violation("G4 policy", f"{call.key} ran {len(runs)} times under {policy.reissue.value}")
    for run in runs:
        if run.answered_at is not None and run.number != runs[-1].number:
            yield from _after_answer(world, call, run.answered_at)
    yield from _needless(world, call, runs)
    yield from _after_cancel(world, call, runs)


def _needless(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    """Where only client legs broke and the server did not end streams, nothing runs twice or fails."""
    if not _is_calm(world):
        yield from _unresumed(world, call, runs)
        return
    if len(runs) > 1:
        yield Violation("G4 needless", f"{call.key} ran {len(runs)} times, only client legs were cut")
    for seen in call.seen:
        if seen.is_notice or (seen.mark is not None and not _was_slow(world)):
            yield Violation("G6 needless", f"{call.key} was told of a restart: {seen.message}")
    for answer in call.answers:
        if "error" in answer.message and not _was_slow(world):
            yield Violation("G5 needless error", f"{call.key}: {answer.message['error']}")


def _was_slow(world: World) -> bool:
    """A client came back so late, or read so slowly, that what was kept for it may be gone (R13, R14)."""
    return "away" in world.faults.done or "client_stall" in world.faults.done


def _is_calm(world: World) -> bool:
    """Nothing happened to the upstream side."""
    return world.plan.profile in ("none", "client") and not world.server.traits.polls


def _unresumed(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    """A cut of a stream that states its epoch and its ids is resumed, not run again."""
    traits, struck = world.server.traits, world.faults.done
    is_provable = traits.epoch in ("produce", "send") and traits.ids != "none" and traits.resume == "ok"
    if world.plan.profile != "upstream" or not is_provable or traits.leaks or traits.polls:
        return
    if len(struck) > 2 or "upstream_stall" in struck or len(runs) < 2:
        return
    if runs[0].first.arrived_ids and call.cancelled_at is None:
        yield Violation("G4 unresumed", f"{call.key} ran {len(runs)} times, its stream could be resumed")


def _heals(world: World) -> Iterator[Violation]:
    for host in world.hosts:
        mark = f"{host.name} <<"
        begun = [at for at, m, what in world.trace.lines if m == mark and isinstance(what, HealBegun)]
        for first, last in zip(begun, begun[world.policy.max_heals_per_minute :], strict=False):
            if last - first < 60.0:
                yield Violation("G8 heals", f"{host.name} healed at {begun}")
    if _is_calm(world) and len(world.server.initialized) > len(world.hosts):
        yield Violation("G6 needless", f"{len(world.server.initialized)} initialize in a calm run")


def _sent_after(world: World, call: Call, at: float) -> Iterator[float]:
    for host in world.hosts:
        for leg in host.legs.values():
            if leg.sent_at > at and f'"{call.key}"'.encode() in (leg.command.body or b""):
                yield leg.sent_at


def _after_answer(world: World, call: Call, at: float) -> Iterator[Violation]:
    """R28: the user was asked and has answered in that run; nobody asks again."""
    for sent_at in _sent_after(world, call, at):
        yield Violation("G4 answered", f"{call.key} was sent at {sent_at:.3f}, its question was answered")


def _after_cancel(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    if call.cancelled_at is None:
        return
    called = _arrival(world, call.sent_at, f'"key": "{call.key}"')
    cancelled = _arrival(world, call.cancelled_at, f'"requestId": {json.dumps(call.rid)}}}')
    if called is None or cancelled is None or cancelled < called:
        return  # one of them never arrived, or the cancel overtook its call
    for sent_at in _sent_after(world, call, cancelled):
        yield Violation("G4 cancelled", f"{call.key} was sent at {sent_at:.3f} after its cancel")


def _arrival(world: World, after: float, text: str) -> float | None:
    """When a POST with this text in it reached the proxy."""
    for now, _, what in world.trace.lines:
        if now >= after and isinstance(what, PostArrived) and text.encode() in what.raw:
            return now
    return None


# --- G5 -------------------------------------------------------------------------------------------


def _order(world: World, call: Call) -> Iterator[Violation]:
    cursors = [int(seen.cursor) for seen in call.seen if seen.cursor is not None]
    for a, b in pairwise(cursors):
        if a // BLOCK_SPAN == b // BLOCK_SPAN and b <= a:
            yield Violation("G5 order", f"{call.key}: cursor {b} after {a}")
    serials = [seen.origin.serial for seen in call.seen if seen.origin is not None]
    if len(set(serials)) != len(serials):
        yield Violation("G5 repeated", f"{call.key}: {serials}")
    yield from _gaps(world, call)
    steps = [one.message["params"]["progress"] for one in call.seen if "progress" in _method(one)]
    if steps != sorted(set(steps)):
        yield Violation("R38", f"{call.key}: progress {steps}")


def _method(seen: Seen) -> str:
    return str(seen.message.get("method", ""))


def _gaps(world: World, call: Call) -> Iterator[Violation]:
    """Nothing of the one run is missing where nothing was restarted and only the client leg broke."""
    if world.plan.profile not in ("none", "client") or _was_slow(world):
        return
    runs = [execution for execution in world.server.executions if execution.key == call.key]
    if len(runs) != 1 or not call.answers or runs[0].is_json:
        return
    if call.cancelled_at is not None or world.server.traits.polls:
        return
    sent = [entry.serial for entry in runs[0].stream.entries if entry.message is not None]
    got = [seen.origin.serial for seen in call.seen if seen.origin is not None]
    if got != list(dict.fromkeys(sent)):
        yield Violation("G5 lost", f"{call.key}: was sent {sent}, saw {got}")


def _standalone(world: World, client: Client) -> Iterator[Violation]:
    seen = [one.origin for one in client.standalone if one.origin is not None]
    for origin in seen:
        if origin.key.split(".")[0] != client.name:
            yield Violation("G2 stranger", f"standalone of {client.name} was given [{origin}]")
    serials = [origin.serial for origin in seen if origin.execution == 0]
    if serials != sorted(set(serials)):
        yield Violation("G5 standalone", f"{client.name} saw {serials}")
    if client.is_deleted or client.blind_opens > 1 or _was_slow(world) or client.is_standalone_refused:
        return
    arrived = [serial for serial in _arrived_for(world, client) if serial not in serials]
    if seen and arrived:
        yield Violation("G5 standalone", f"{client.name}: {arrived} reached the proxy, not the client")
    if not _is_calm(world):
        return
    sent = [origin.serial for origin in world.server.notified.get(f"{client.name}.sa", [])]
    if seen and serials != sent:
        yield Violation("G5 standalone", f"{client.name} was sent {sent}, saw {serials}")


def _arrived_for(world: World, client: Client) -> Iterator[int]:
    """What the proxy received for the standalone stream where nothing can speak against relaying it."""
    for origin in world.server.notified.get(f"{client.name}.sa", []):
        arrivals = world.log.arrivals.get(origin.serial, [])
        if arrivals and not arrivals[0].connection.is_resumed and arrivals[0].tag is None:
            yield origin.serial


def is_spliced(violations: list[Violation]) -> bool:
    return any(violation.rule == SPLICE for violation in violations)


def connection_of(world: World, serial: int) -> Connection | None:
    """Where a message reached the proxy first; for people who read a trace."""
    arrivals = world.log.arrivals.get(serial)
    return arrivals[0].connection if arrivals else None
