"""What a client does when an answer has ended: it comes back, begins anew, or takes it for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.properties.simulation.calls import Post
from tests.properties.simulation.legs import ClientLeg

if TYPE_CHECKING:
    from tests.properties.simulation.client import Client

MAX_RESUMES = 60
MAX_DENIALS = 8
DENIED = (401, 403)


def take(client: Client, leg: ClientLeg, is_clean: bool) -> None:
    _check_status(client, leg)
    if leg.status in DENIED and client.has_expired_token():
        client.refresh()
        if leg.again is not None:
            leg.again()
    if leg.kind == "initialize":
        if not client.is_ready:
            client.clock.after(1.0, client.start)
    elif leg.kind == "standalone":
        _end_standalone(client, leg)
    elif leg.post is not None:
        _end_post(client, leg, leg.post, is_clean)


def _check_status(client: Client, leg: ClientLeg) -> None:
    if leg.status >= 500:
        client.network.remark(f"W4: {leg.kind} leg {leg.number} was answered {leg.status}")
    # What the server says of a caller that it has not accepted, that caller hears (R32).
    of_session = (400, 404) if client.token != f"{client.name}.0" else (404,)
    if leg.kind in ("notification", "answer") and leg.status not in (0, 202, *of_session, *DENIED):
        client.network.remark(f"W4: {leg.kind} leg {leg.number} was answered {leg.status}")


def _end_standalone(client: Client, leg: ClientLeg) -> None:
    if client.standalone_leg is not leg:
        return
    if leg.status in (400, 404, 405) or client.is_deleted:
        client.is_standalone_refused = True
        return

    def again() -> None:
        if client.standalone_leg is leg:  # else it is of a session that was lost meanwhile
            client.open_standalone(client.standalone_cursor)

    client.clock.after(client.rng.choice((0.0, 1.0, 8.0)) if leg.events else 15.0, again)


def _end_post(client: Client, leg: ClientLeg, post: Post, is_clean: bool) -> None:
    if post.leg is not leg or post.left_at is not None or all(call.answers for call in post.calls):
        return
    if leg.status in (400, 404, 405) or (leg.kind == "call" and leg.status >= 400 and leg.status != 409):
        post.refused.append(leg.status)
        if leg.status == 404 and client.traits.reopens and post.session_id == client.session_id:
            client.begin_anew()
        return
    _check_end(client, leg, post, is_clean)
    post.denials += leg.status in DENIED
    if post.denials > MAX_DENIALS:
        post.refused.append(leg.status)
    elif post.cursor is None:
        post.lost = "cut before the client had a cursor"
    elif post.resumes >= MAX_RESUMES:
        post.lost = "too many resumes"
    elif not post.is_cancelled:
        client.clock.after(_delay(client, post, leg), lambda: client.resume(post))


def _check_end(client: Client, leg: ClientLeg, post: Post, is_clean: bool) -> None:
    """A stream that ends cleanly has given its answers, or a newer leg took its place (R35)."""
    if not is_clean or leg.status != 200 or post.is_cancelled or post.has_ghost:
        return
    client.network.remark(f"W8: {post}: {leg.kind} leg {leg.number} ended without an answer")
    if leg.kind == "resume" and not leg.events:
        client.network.remark(f"G3: {post}: an empty 200 on a resume")


def _delay(client: Client, post: Post, leg: ClientLeg) -> float:
    if post.away_s is not None:
        away, post.away_s = post.away_s, None
        return away
    if leg.status == 409 or not leg.events:
        return min(30.0, 0.5 * 1.5**post.resumes)
    return post.retry_s if post.retry_s is not None else client.rng.choice((0.0, 0.2, 1.0))
