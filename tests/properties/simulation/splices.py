"""G1: where messages of two executions meet on a client's stream, less what no proxy can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochgate.core.policy import Policy, PollWithoutEpoch
from tests.properties.simulation.calls import Call, Seen
from tests.properties.simulation.connection import Arrival, Connection
from tests.properties.simulation.payload import Origin
from tests.properties.simulation.records import Execution

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

SPLICE = "G1 splice"


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def splices(world: World, call: Call, seen: Seen) -> Iterator[Violation]:
    """What the client sees between two restart notices has to come from one run in one session.

    Told of every message of a call, in order; `call.latest` is the one before, if no notice came since.
    """
    origin = seen.origin
    assert origin is not None
    before, call.latest = call.latest, seen
    if origin.execution < call.newest_run:
        yield Violation(SPLICE, f"{call.key}: [{origin}] after run {call.newest_run} was seen")
    call.newest_run = max(call.newest_run, origin.execution)
    if before is None:
        yield from _first(world, call, seen)
    else:
        yield from _join(world, call, before, seen)


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
    """R5: without a way to give notice, the final response carries the mark, and questions may come.

    A batch inside an event is relayed whole, with the marked response that stands in it (R41).
    """
    if seen.is_question or seen.is_in_array:
        return True
    return seen.is_response and seen.mark is not None and seen.mark.get("reissued") is True


def _is_invisible(world: World, a: Origin, b: Origin, after: Seen) -> bool:
    """The stated limits: what no proxy can see on the wire."""
    epoch, policy = world.server.traits.epoch, world.policy
    if epoch == "constant":
        return True  # the server says itself that it is one session
    for x in world.log.arrivals.get(a.serial, []):
        for y in world.log.arrivals.get(b.serial, []):
            if x.connection is y.connection and x.tag == y.tag:
                return True  # one connection, and nothing else stated on it
            if epoch == "header" and y.connection.head_epoch == a.owner:
                return True  # R7: the header told the truth when it was sent
            if epoch == "none" and is_accepted_poll(policy, x.connection):
                return after.is_unproven or not after.is_response  # R4: the named exception of G1
    return False


def _first(world: World, call: Call, seen: Seen) -> Iterator[Violation]:
    """Nothing was seen before: the message must still come from the object the call was made in."""
    origin = seen.origin
    assert origin is not None
    execution = world.server.tools.executions[origin.execution - 1]
    if origin.owner == execution.birth_owner or world.server.traits.epoch == "constant":
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
    return traits.epoch == "none" and is_accepted_poll(world.policy, execution.first)


def is_accepted_poll(policy: Policy, connection: Connection) -> bool:
    """R4: the clean end of this leg is a poll, which the settings accept without a proof."""
    match policy.poll_without_epoch:
        case PollWithoutEpoch.ACCEPT:
            return connection.is_poll_announced
        case PollWithoutEpoch.PRIMED:
            return connection.is_poll_announced or connection.has_retry
        case PollWithoutEpoch.RESTART:
            return False
