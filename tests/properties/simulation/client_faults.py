"""Faults of client legs, and what clients and users do by themselves."""

from __future__ import annotations

from tests.properties.simulation.targets import Targets


def client_cut(at: Targets) -> str | None:
    exchange = at.exchange()
    if exchange is None:
        return None
    exchange.cut()
    return f"exchange {exchange.number}"


def client_arm(at: Targets) -> str | None:
    exchange = at.exchange()
    if exchange is None:
        return None
    count = at.rng.randint(0, 700)
    exchange.wire.arm(count)
    return f"exchange {exchange.number} in {count} bytes"


def client_stall(at: Targets) -> str | None:
    exchange = at.exchange()
    if exchange is None:
        return None
    seconds = at.rng.choice((0.5, 5.0, 90.0))
    exchange.wire.stall(seconds)
    return f"exchange {exchange.number} for {seconds} s"


def away(at: Targets) -> str | None:
    """The next break of this call keeps the client away for long, perhaps beyond `hold`."""
    found = at.post()
    if found is None or found[1].leg is None or found[1].leg.exchange is None:
        return None
    post = found[1]
    post.away_s = at.rng.choice((20.0, 200.0, 400.0))
    found[1].leg.exchange.cut()
    return f"{post} for {post.away_s} s"


def vanish(at: Targets) -> str | None:
    """The client goes and never comes back for this call."""
    found = at.post()
    if found is None:
        return None
    client, post = found
    client.leave(post)
    return str(post)


def flap(at: Targets) -> str | None:
    """The leg breaks, and the next ones do so after a few bytes."""
    found = at.post()
    if found is None or found[1].leg is None or found[1].leg.exchange is None:
        return None
    post = found[1]
    post.flaps = at.rng.randint(1, 3)
    found[1].leg.exchange.cut()
    return f"{post}, {post.flaps} times"


def duplicate_return(at: Targets) -> str | None:
    """Two GETs with one cursor: the second in place of the first, or both on their way at once."""
    found = at.post()
    if found is None or found[1].cursor is None:
        return None
    client, post = found
    if at.rng.random() < 0.5:
        client.resume(post)
        at.world.clock.after(at.rng.choice((0.0, 0.01)), lambda: client.resume(post))
        return f"{post} from {post.cursor!r}"
    delays = at.rng.choice((0.0, 0.01, 2.0, 10.0)), at.rng.choice((0.0, 0.01, 2.0))
    client.resume(post, keeps_older=at.rng.random() < 0.5, delay=delays[0])
    client.resume(post, keeps_older=True, delay=delays[1])
    return f"{post} from {post.cursor!r}, both open, after {delays}"


def late_return(at: Targets) -> str | None:
    """The GET of a client that returns is long on its way."""
    found = at.post()
    if found is None or found[1].cursor is None:
        return None
    client, post = found
    delay = at.rng.choice((5.0, 20.0, 70.0))
    client.resume(post, delay=delay)
    return f"{post} from {post.cursor!r}, {delay} s on its way"


def standalone_gap(at: Targets) -> str | None:
    """The standalone leg breaks; while its client is away, events come and a session is lost."""
    client = at.client()
    leg = None if client is None else client.standalone_leg
    if leg is None or leg.exchange is None:
        return None
    leg.exchange.cut()
    return f"exchange {leg.exchange.number}"


# --- users ----------------------------------------------------------------------------------------


def cancel(at: Targets) -> str | None:
    found = at.call()
    if found is None:
        return None
    client, call = found
    client.cancel(call)
    return call.key


def delete(at: Targets) -> str | None:
    client = at.client()
    if client is None or client.is_deleted:
        return None
    client.delete()
    return client.name


def delete_in_heal(at: Targets) -> str | None:
    """The session is lost, and while that is mended its client ends it."""
    client = at.client()
    if client is None or client.is_deleted or client.session_id is None:
        return None
    for session_id in list(at.world.server.sessions):
        at.world.server.evict(session_id)
    client.poke("ping")
    at.world.clock.after(at.rng.choice((0.05, 0.15, 0.3)), client.delete)
    return client.name


def poke(at: Targets) -> str | None:
    client = at.client()
    if client is None:
        return None
    client.poke(at.rng.choice(("ping", "tools/list")))
    return client.name


def refresh(at: Targets) -> str | None:
    """A client goes on with new credentials, before or after the older ones expire."""
    client = at.client()
    if client is None:
        return None
    old = client.token
    client.refresh()
    if at.rng.random() < 0.5:
        at.world.clock.after(at.rng.choice((0.0, 2.0)), lambda: at.world.server.access.expire(old))
    return f"{old} -> {client.token}"


def expire(at: Targets) -> str | None:
    """The server refuses a client's credentials from now on; the client is told when it next asks."""
    client = at.client()
    if client is None:
        return None
    at.world.server.access.expire(client.token)
    return client.token


def trespass(at: Targets) -> str | None:
    client = at.client()
    if client is None:
        return None
    return at.world.stranger.trespass(client)


def borrow(at: Targets) -> str | None:
    """A client comes with the cursor of another session."""
    found, client = at.post(), at.client()
    if found is None or client is None or found[1].cursor is None or found[1].session_id == client.session_id:
        return None
    at.world.stranger.borrow(client, found[1].cursor)
    return f"{client.name} with {found[1].cursor!r}"
