"""G3 and G5: every call is answered, and where only client legs broke, with all of its one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from epochgate.core.commands import HealBegun
from epochgate.core.events import PostArrived
from epochgate.core.policy import SessionLoss, Stamps
from tests.properties.simulation import runs
from tests.properties.simulation.calls import Call, Post
from tests.properties.simulation.calm import is_calm, was_slow
from tests.properties.simulation.client import Client
from tests.properties.simulation.ends import DENIED
from tests.properties.simulation.host import Host
from tests.properties.simulation.payload import TOOL_HINTS
from tests.properties.simulation.splices import Violation

if TYPE_CHECKING:
    from tests.properties.simulation.world import World


def examine(world: World, client: Client, call: Call) -> Iterator[Violation]:
    post = call.post
    is_open = post.leg is not None and post.leg.is_current
    if post.is_cancelled and is_open and not call.answers and not _is_overtaken(world, call):
        yield Violation("G3 cancelled", f"{call.key}: its stream is still open")
    if _was_deleted(client, post) and is_open and not call.answers:
        yield Violation("G3 deleted", f"{call.key}: still open after the DELETE")
    if call.answers:
        yield from _complete(world, call)
    elif call.cancelled_at is None and post.lost is None and not _was_deleted(client, post):
        yield from _unanswered(world, client, call)


def _is_overtaken(world: World, call: Call) -> bool:
    """A cancel that came before its call named nothing, as without a proxy."""
    if call.cancelled_at is None or call.post.first is None or call.post.first.arrived_at is None:
        return False
    arrived = runs.cancel_arrived(world, call)
    return arrived is None or arrived < call.post.first.arrived_at


def _was_deleted(client: Client, post: Post) -> bool:
    return any(
        session_id == post.session_id and leg.status in (0, 200, 404) for session_id, leg in client.deletes
    )


def _unanswered(world: World, client: Client, call: Call) -> Iterator[Violation]:
    post = call.post
    if not post.refused:
        yield Violation("G3 hang", f"{call.key} ({call.tool}): no answer")
        return
    status = post.refused[-1]
    has_new_token = client.token != f"{client.name}.0"
    if status in DENIED:
        # New credentials are refused, too, while the server cannot be asked about them.
        if not has_new_token and not any(
            token.startswith(f"{client.name}.") for token in world.server.access.denied
        ):
            yield Violation("G3 denied", f"{call.key}: {status}, and the server has never said so")
        return
    gone = 400 if world.server.traits.gone_status == "400" else 404
    # A 404 to a caller not accepted yet passes, whatever he asked for (R32).
    if (post.resumes and not has_new_token) or status not in (404, gone):
        yield Violation("G3 lost", f"{call.key} was refused with {status} after {post.resumes} resumes")
    elif not _may_be_gone(world, client, post):
        yield Violation("R21", f"{call.key} was refused with {status}; its session had to be healed")


def _may_be_gone(world: World, client: Client, post: Post) -> bool:
    """Whether a client may be shown that its session is lost (R21, R26, R27, R32)."""
    host = None if post.first is None else post.first.host
    traits, policy = world.server.traits, world.policy
    if host is None or policy.session_loss is SessionLoss.SURFACE:
        return True
    if not world.server.is_compatible or _is_budget_spent(host):
        return True
    if policy.session_loss is SessionLoss.AUTO and traits.annotates and _has_state(world, client):
        return True
    if traits.counts_sessions and (policy.stamp is Stamps.OFF or len(world.hosts) > 1):
        return True  # a heal that may not take the id it is given; a session that is another's now
    token = post.token if post.leg is None else post.leg.token
    return token != f"{client.name}.0"  # credentials that the server had not accepted yet (R32)


def _is_budget_spent(host: Host) -> bool:
    return sum(isinstance(fact, HealBegun) for fact in host.facts) >= 3


def _has_state(world: World, client: Client) -> bool:
    """It completed a call of a tool that is not read-only, so that a new session would not be the same."""
    return any(
        run.result is not None and not TOOL_HINTS[run.tool].get("readOnlyHint")
        for call in client.calls
        for run in world.server.tools.runs.get(call.key, ())
    )


# --- G5 -------------------------------------------------------------------------------------------


def _waits_in_vain(world: World, call: Call) -> bool:
    """Whether the client's answer to what its run asks was cut off on its way to the proxy."""
    for run in world.server.tools.runs.get(call.key, ()):
        text = f'"content": {{"n": {run.asked}}}'.encode()
        has_arrived = any(
            isinstance(what, PostArrived) and text in what.raw for _, _, what in world.trace.lines
        )
        if run.asked is not None and not has_arrived:
            return True
    return False


def _complete(world: World, call: Call) -> Iterator[Violation]:
    """Nothing of the one run is missing where nothing was restarted and only client legs broke."""
    if not is_calm(world) or was_slow(world) or call.cancelled_at is not None:
        return
    runs = world.server.tools.runs.get(call.key, [])
    is_stuck = any(one.tool == "stuck" or _waits_in_vain(world, one) for one in call.post.calls)
    if "error" in call.answers[0].message and not is_stuck:
        yield Violation("G5 needless error", f"{call.key}: {call.answers[0].message['error']}")
    if len(runs) != 1 or runs[0].is_json or call.tool == "stuck":
        return
    sent = [
        serial
        for entry in runs[0].stream.entries
        if entry.execution == runs[0].number
        for serial in entry.serials
    ]
    got = [seen.origin.serial for seen in call.own if seen.origin is not None]
    if got != list(dict.fromkeys(sent)):
        yield Violation("G5 lost", f"{call.key}: was sent {sent}, saw {got}")
