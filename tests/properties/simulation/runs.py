"""G4: what ran more often than it may have, by the server's own account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from epochgate.core.events import PostArrived
from epochgate.core.policy import Reissue, Stamps
from tests.properties.simulation.calls import Call
from tests.properties.simulation.calm import is_calm, was_slow
from tests.properties.simulation.client import Client
from tests.properties.simulation.payload import TOOL_HINTS
from tests.properties.simulation.records import Execution
from tests.properties.simulation.splices import Violation
from tests.properties.simulation.traits import STATED

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

LEFT_UNNOTICED_S = 10.0  # the proxy learns up to 8 s later that a client is gone


def examine(world: World, call: Call) -> Iterator[Violation]:
    runs = world.server.tools.runs.get(call.key, [])
    sent = sorted(at for host in world.hosts for at in host.sent.get(call.key, ()))
    if len(runs) > 1 + world.policy.max_reissues:
        yield Violation("G4 runs", f"{call.key} ran {len(runs)} times")
    if len(runs) > 1 and not _may_run_twice(world, call):
        yield Violation("G4 policy", f"{call.key} ({call.tool}) ran {len(runs)} times")
    yield from _after_answers(world, call, runs, sent)
    yield from _after_cancel(world, call, sent)
    left_at = call.post.left_at if not call.post.has_ghost else None  # whose GET may still be on its way
    if left_at is not None and not world.policy.reissue_when_away:
        for at in sent:
            if runs and at > max(runs[0].began_at, left_at + LEFT_UNNOTICED_S):
                yield Violation("G4 away", f"{call.key} was sent at {at:.3f}, nobody waited for it")
    yield from _told(call, runs)
    yield from _needless(world, call, runs)


def _may_run_twice(world: World, call: Call) -> bool:
    """What the settings allow after an unknown outcome (design, section 9; R28)."""
    policy, is_annotated = world.policy, world.server.traits.annotates
    hints = TOOL_HINTS[call.tool] if is_annotated else {}
    if policy.stamp is Stamps.OFF or call.tool == "task" or call.tool in policy.never_reissue:
        return False
    match policy.reissue:
        case Reissue.ALWAYS:
            return True
        case Reissue.UNLESS_DESTRUCTIVE:
            return not hints.get("destructiveHint") and bool(hints or not is_annotated)
        case Reissue.HINTED:
            return bool(hints.get("readOnlyHint"))
        case Reissue.READS | Reissue.NEVER:
            return False


def _after_answers(world: World, call: Call, runs: list[Execution], sent: list[float]) -> Iterator[Violation]:
    """R28: who has answered a question is not asked again; R41: what is answered is not sent again."""
    for run in runs:
        if _was_asked_elsewhere(world, call, run):
            continue
        if run.answered_at is not None and any(at > run.answered_at for at in sent):
            yield Violation("G4 answered", f"{call.key} was sent after its question was answered")
    if call.answers and any(at > call.answers[0].at for at in sent):
        yield Violation("G4 after answer", f"{call.key} was sent again after its answer")


def _was_asked_elsewhere(world: World, call: Call, run: Execution) -> bool:
    """R6: a question that was leaked to another stream is the session's; nothing says whose it was."""
    traits = world.server.traits
    is_leaky = traits.leaks != "no" and traits.epoch in STATED
    return is_leaky and not any(
        seen.is_question and seen.origin is not None and seen.origin.execution == run.number
        for seen in call.post.seen
    )


def _after_cancel(world: World, call: Call, sent: list[float]) -> Iterator[Violation]:
    first = call.post.first
    if call.cancelled_at is None or first is None or first.arrived_at is None:
        return
    cancelled = cancel_arrived(world, call)
    if cancelled is None or cancelled < first.arrived_at:
        return  # it never came, or overtook its call
    is_batch = len(call.post.calls) > 1  # may go up whole once, before the cancel of one member
    for at in sent[is_batch:]:
        if at > cancelled:
            yield Violation("G4 cancelled", f"{call.key} was sent at {at:.3f} after its cancel")


def cancel_arrived(world: World, call: Call) -> float | None:
    """When the cancel of a call that was cancelled reached the proxy."""
    text = f'"requestId": {json.dumps(call.rid)}}}'.encode()
    token = call.key.split(".")[0].encode()
    assert call.cancelled_at is not None
    for now, _, what in world.trace.lines:
        if now < call.cancelled_at or not isinstance(what, PostArrived) or text not in what.raw:
            continue
        if what.head.fingerprint.split(b".")[0] == token:
            return now
    return None


def _told(call: Call, runs: list[Execution]) -> Iterator[Violation]:
    """G7: whoever gets the answer of a second run is told, by a notice before it or a mark in it."""
    for answer in call.answers:
        if answer.origin is None or answer.origin.execution == runs[0].number:
            continue
        is_told = any(seen.is_notice for seen in call.post.seen) or answer.mark is not None
        if not is_told:
            yield Violation("G7 silent", f"{call.key}: the answer of a second run, and nothing said so")


def _needless(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    """Where only client legs broke, nothing runs twice; where a stream can be resumed with a proof, it is."""
    if not is_calm(world):
        yield from _unresumed(world, call, runs)
        return
    if len(runs) > 1:
        yield Violation("G4 needless", f"{call.key} ran {len(runs)} times, only client legs were cut")
    for seen in call.post.seen:
        if seen.is_notice or (seen.mark is not None and not was_slow(world) and call.tool != "stuck"):
            yield Violation("G6 needless", f"{call.key} was told of a restart: {seen.message}")


def _unresumed(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    struck = world.faults.done
    if world.plan.profile != "upstream" or not world.server.traits.is_provable:
        return
    if any(client.traits.repeats_initialize for client in world.clients):
        return  # the server may begin the session anew, and its streams then state another epoch (R3)
    if len(struck) > 2 or "upstream_stall" in struck or len(runs) < 2:
        return
    if runs[0].first.arrived_ids and call.cancelled_at is None:
        yield Violation("G4 unresumed", f"{call.key} ran {len(runs)} times, its stream could be resumed")


def after_delete(world: World, client: Client) -> Iterator[Violation]:
    """R25: DELETE wins. From its arrival no session is begun and nothing is run a second time."""
    for _, leg in client.deletes:
        exchange = leg.exchange
        if exchange is None or exchange.host is None or exchange.arrived_at is None or leg.status != 200:
            continue
        host, at = exchange.host, exchange.arrived_at
        if any(begun > at for begun in host.begun):
            yield Violation("R25", f"{host.name}: a session was begun after the DELETE")
        for key, sent in host.sent.items():
            is_sent_late = any(one > at for one in sorted(sent)[1:])  # what was on its way may arrive
            runs = world.server.tools.runs.get(key, [])
            if is_sent_late and any(run.began_at > at for run in runs[1:]):
                yield Violation("R25", f"{key} was run again after the DELETE")
