"""The judge of a run: it knows where every message came from, and reads what each client saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from epochgate.core.policy import PollWithoutEpoch, Reissue
from tests.properties.simulation.client import Call, Client, Seen
from tests.properties.simulation.connection import Arrival, Connection
from tests.properties.simulation.payload import Origin
from tests.properties.simulation.records import Execution

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

BLOCK_SPAN = 2**20
SPLICE = "G1 splice"


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def examine(world: World) -> list[Violation]:
    """Every violation of a finished run, the gravest first."""
    return list(_examine(world))


def _examine(world: World) -> Iterator[Violation]:
    for client in world.clients:
        for call in client.calls:
            yield from _splices(world, call)
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


# --- G1 -------------------------------------------------------------------------------------------


def _segments(seen: list[Seen]) -> Iterator[list[Seen]]:
    """What stands between restart notices."""
    segment: list[Seen] = []
    for one in seen:
        if one.is_notice:
            yield segment
            segment = []
        else:
            segment.append(one)
    yield segment


def _splices(world: World, call: Call) -> Iterator[Violation]:
    for segment in _segments(call.seen):
        own = [one for one in segment if one.origin is not None and one.origin.key == call.key]
        for before, after in pairwise(own):
            yield from _join(world, call, before, after)
        if own:
            yield from _first(world, call, own[0])


def _join(world: World, call: Call, before: Seen, after: Seen) -> Iterator[Violation]:
    a, b = before.origin, after.origin
    assert a is not None
    assert b is not None
    if a.execution != b.execution:
        if not _is_marked_rerun(after):
            yield Violation(SPLICE, f"{call.key}: [{a}] then [{b}] and nothing told in between")
    elif a.owner != b.owner and not _is_invisible(world, a, b, after):
        yield Violation(SPLICE, f"{call.key}: [{a}] then [{b}]: a re-created session")


def _is_marked_rerun(seen: Seen) -> bool:
    """R5: without a way to give notice, the final response carries the mark, and questions may come."""
    if seen.is_question:
        return True
    return seen.is_response and seen.mark is not None and seen.mark.get("reissued") is True


def _is_invisible(world: World, a: Origin, b: Origin, after: Seen) -> bool:
    """The stated limits: what no proxy can see on the wire."""
    epoch, policy = world.server.traits.epoch, world.policy
    for x in world.log.arrivals.get(a.serial, []):
        for y in world.log.arrivals.get(b.serial, []):
            if x.connection is y.connection and x.tag == y.tag:
                return True  # one connection, and nothing else stated on it
            if epoch == "header" and y.connection.head_epoch == a.owner:
                return True  # R7: the header told the truth when it was sent
            is_poll = x.connection.is_poll_announced and epoch == "none"
            if is_poll and policy.poll_without_epoch is PollWithoutEpoch.ACCEPT:
                return after.is_unproven or not after.is_response  # R4: the named exception of G1
    return False


def _first(world: World, call: Call, seen: Seen) -> Iterator[Violation]:
    """Nothing was seen before: the message must still come from the object the call was made in."""
    origin = seen.origin
    assert origin is not None
    execution = world.server.executions[origin.execution - 1]
    if origin.owner == execution.birth_owner:
        return
    arrivals = world.log.arrivals.get(origin.serial, [])
    if any(_is_first_excused(world, execution, arrival, seen) for arrival in arrivals):
        return
    yield Violation(SPLICE, f"{call.key}: [{origin}] but it was begun in {execution.birth_owner}")


def _is_first_excused(world: World, execution: Execution, arrival: Arrival, seen: Seen) -> bool:
    traits, connection = world.server.traits, arrival.connection
    if connection is execution.first:
        return arrival.tag is None or seen.is_response  # limit 1; R2's drift
    if traits.epoch == "header" and connection.head_epoch == execution.birth_owner:
        return True
    is_poll = traits.epoch == "none" and execution.first.is_poll_announced
    return is_poll and world.policy.poll_without_epoch is PollWithoutEpoch.ACCEPT


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
    if _is_calm(world) and len(world.server.initialized) > len(world.hosts):
        yield Violation("G6 needless", f"{len(world.server.initialized)} initialize in a calm run")


def _after_cancel(world: World, call: Call, runs: list[Execution]) -> Iterator[Violation]:
    at = call.cancelled_at
    if at is None:
        return
    arrived = _arrival_of_cancel(world, call)
    if arrived is None:
        return
    for host in world.hosts:
        for leg in host.legs.values():
            is_call = f'"{call.key}"'.encode() in (leg.command.body or b"")
            if is_call and leg.sent_at > arrived:
                yield Violation("G4 cancelled", f"{call.key} was sent at {leg.sent_at:.3f} after its cancel")


def _arrival_of_cancel(world: World, call: Call) -> float | None:
    for now, _, what in world.trace.lines:
        raw = getattr(what, "raw", b"")
        if b"notifications/cancelled" in raw and call.cancelled_at is not None and now >= call.cancelled_at:
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
    if not _is_calm(world) or client.blind_opens > 1:
        return
    sent = [origin.serial for origin in world.server.notified.get(f"{client.name}.sa", [])]
    if seen and serials != sent:
        yield Violation("G5 standalone", f"{client.name} was sent {sent}, saw {serials}")


def is_spliced(violations: list[Violation]) -> bool:
    return any(violation.rule == SPLICE for violation in violations)


def connection_of(world: World, serial: int) -> Connection | None:
    """Where a message reached the proxy first; for people who read a trace."""
    arrivals = world.log.arrivals.get(serial)
    return arrivals[0].connection if arrivals else None
