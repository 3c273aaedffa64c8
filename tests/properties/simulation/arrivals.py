"""What is judged at once, with every message that a client sees: G1, G2, G3's one answer, G5's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.properties.simulation.access import user_of
from tests.properties.simulation.calls import Call, Post, Seen
from tests.properties.simulation.client import Client, is_same_id
from tests.properties.simulation.splices import Violation, splices
from tests.properties.simulation.traits import STATED

if TYPE_CHECKING:
    from tests.properties.simulation.world import World

BLOCK_SPAN = 2**20


def judge(world: World, client: Client, post: Post | None, seen: Seen) -> Iterator[Violation]:
    """Told of every message in the order in which the client took them, on whatever leg."""
    if post is None:
        yield from _standalone(world, client, seen)
        return
    yield from _stranger(world, client, post, seen)
    if seen.is_notice:
        for call in post.calls:
            call.latest = None
    if _is_session_log(world, seen) or is_leaked(world, seen):
        return
    for call in post.calls:
        if seen.origin is not None and seen.origin.key == call.key:
            yield from splices(world, call, seen)
    if world.mode == "core":
        yield from _order(world, post, seen)


def _is_session_log(world: World, seen: Seen) -> bool:
    """R6: an unstamped message that states the epoch is the session's, on whatever stream it is leaked."""
    traits = world.server.traits
    is_log = seen.message.get("method") == "notifications/message"
    return is_log and traits.leaks != "no" and traits.epoch in STATED


def is_leaked(world: World, seen: Seen) -> bool:
    """R6 on a resumed leg: what the server replays of its other streams there is the session's, if it
    carries no stamp and states the epoch. So it is with ids that name an older stream as well, whose
    events state the present epoch when they are sent."""
    traits = world.server.traits
    is_leaky = traits.leaks != "no" or (traits.reuses_ids and traits.buffer_survives)
    is_unstamped = not (seen.is_response or seen.is_progress)
    if not is_leaky or traits.epoch not in STATED or seen.origin is None:
        return False
    return is_unstamped and any(
        arrival.connection.is_resumed for arrival in world.log.arrivals.get(seen.origin.serial, ())
    )


# --- G2 -------------------------------------------------------------------------------------------


def _stranger(world: World, client: Client, post: Post, seen: Seen) -> Iterator[Violation]:
    origin = seen.origin
    if seen.is_response and not any(is_same_id(seen.message["id"], call.rid) for call in post.calls):
        yield Violation("G2 id", f"{post}: answered under id {seen.message['id']!r}")
    if seen.is_progress:
        yield from _progress(client, str(post), seen)
        return
    if origin is None or any(origin.key == call.key for call in post.calls):
        return
    is_over = post.is_cancelled or all(call.answers for call in post.calls)
    if is_over and origin.key == f"{client.name}.sa":
        return  # W3: behind the end of a finished stream a client without a standalone leg is given that one
    is_stated = world.server.traits.epoch in STATED
    is_own_session = user_of(origin.key) == client.name
    if not is_own_session or seen.is_response or not is_stated:
        yield Violation("G2 stranger", f"{post} was given [{origin}]")


def _progress(client: Client, where: str, seen: Seen) -> Iterator[Violation]:
    """Progress names its call by the token that the client chose."""
    token = seen.message["params"]["progressToken"]
    keys = [call.key for call in client.calls if call.token is not None and call.token == token]
    if seen.origin is None or seen.origin.key not in keys:
        yield Violation("G2 stranger", f"{where} was given progress {token!r} of [{seen.origin}]")


def _standalone(world: World, client: Client, seen: Seen) -> Iterator[Violation]:
    origin = seen.origin
    if origin is None:
        return
    if user_of(origin.key) != client.name:
        yield Violation("G2 stranger", f"standalone of {client.name} was given [{origin}]")
    if seen.is_progress:
        yield from _progress(client, f"standalone of {client.name}", seen)
    if origin.execution or world.mode != "core":
        return
    last, is_ordered = client.last_notified, world.server.traits.resume != "from_start"
    is_again = origin.serial in client.notified or (is_ordered and origin.serial < last)
    if is_again and is_leaked(world, seen):
        return  # of an older standalone stream, whose ids are not this one's
    if is_again:
        yield Violation("G5 standalone", f"{client.name} saw {origin.serial} after {last}")
    client.last_notified = origin.serial
    client.notified.add(origin.serial)


# --- G3, G5 ---------------------------------------------------------------------------------------


def _order(world: World, post: Post, seen: Seen) -> Iterator[Violation]:
    if seen.cursor is not None and seen.cursor != post.last_cursor:
        new, last = int(seen.cursor), int(post.last_cursor or b"0")
        if new // BLOCK_SPAN == last // BLOCK_SPAN and new <= last:
            yield Violation("G5 order", f"{post}: cursor {new} after {last}")
        post.last_cursor = seen.cursor
    for call in post.calls:
        yield from _repeated(call, seen, is_ordered=world.server.traits.leaks == "no")


def _repeated(call: Call, seen: Seen, *, is_ordered: bool) -> Iterator[Violation]:
    if seen.is_response and is_same_id(seen.message["id"], call.rid) and len(call.answers) > 1:
        yield Violation("G3 double answer", f"{call.key}: {[answer.message for answer in call.answers]}")
    origin = seen.origin
    if origin is None or origin.key != call.key:
        return
    if origin.serial in call.serials:
        yield Violation("G5 repeated", f"{call.key}: [{origin}] once more")
    call.serials.add(origin.serial)
    if seen.is_progress:
        step = seen.message["params"]["progress"]
        # R38: what the client saw is what its cursor says; an older one that is late on its way says less.
        if is_ordered and step <= call.progress and not call.post.has_ghost:
            yield Violation("R38", f"{call.key}: progress {step} after {call.progress}")
        call.progress = step
