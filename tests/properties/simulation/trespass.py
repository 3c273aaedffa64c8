"""G9 seen from outside: who is given what, and in whose name the proxy acts (R32)."""

from __future__ import annotations

from epochgate.core import commands
from tests.properties.simulation.access import user_of
from tests.properties.simulation.payload import ORIGIN_MARK, Json

_INITIALIZE = b'"initialize"'


def token_of(command: commands.SendUpstream) -> str:
    for name, value in command.headers:
        if name.lower() == b"authorization":
            return value.decode().removeprefix("Bearer ")
    return ""


class Trespass:
    """Watches one session of a client. The server itself fills in what it accepted and made.

    `accepted` are the tokens that it did not refuse, `sessions` the ids that it told the proxy.
    """

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.sessions: list[str] = []
        self.own: set[str] = set()  # of these, what the client's own `initialize` requests began
        self.asked_for: set[bytes] = set()  # the client's own `initialize` requests

    def take(self, older: Trespass, session_id: str, token: str) -> None:
        """The session of this id, which the older one was told, is this one's; a heal may have told the
        older one others since. A server without sessions tells none."""
        if session_id in older.sessions:
            older.sessions.remove(session_id)
            self.sessions.append(session_id)
        self.accepted.add(token)

    def find_wrong_write(self, token: str, data: bytes) -> str | None:
        """What is wrong with giving these bytes to a caller with this token, or None."""
        if token in self.accepted or ORIGIN_MARK not in data:
            return None
        return f"G9: {token} was given {data[:200]!r} and the server has never accepted it"

    def find_wrong_send(self, command: commands.SendUpstream, calls: list[Json]) -> str | None:
        """What is wrong with acting in this name, or None."""
        token = token_of(command)
        body = command.body or b""
        is_own = _INITIALIZE in body and body not in self.asked_for
        if is_own and token not in self.accepted:
            return f"R32: a session was begun as {token}, which the server has never accepted"
        for call in calls:
            owner = user_of(call["params"]["arguments"]["key"])
            if owner != user_of(token):
                return f"R32: a call of {owner} went up as {token}"
        return None
