"""Where the server sessions of one client session live.

Each heal may begin one on another server, while streams of the older ones go on where they are. A request
that names a server session goes to the server that gave it that name, and never to another: a replica that
re-creates sessions would answer it from an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence

from epochgate.core import http
from epochgate.core.commands import SendUpstream
from epochgate.core.http import Headers
from epochgate.shell.leg import Leg, LegSink
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Upstreams

_MAX_HOMES = 64  # server sessions that are remembered; a client session has two or three


class Pins:
    """Of one client session. `home` is where its current server session lives, once there is one."""

    __slots__ = ("_asked", "_first", "_homes", "_is_counted", "_upstreams", "home")

    def __init__(self, upstreams: Upstreams, first: Sequence[Upstream] = ()) -> None:
        """`first`: who is asked for the first session in turn, if not the server with the least to do."""
        self._upstreams = upstreams
        self._first = first
        self._homes: dict[bytes, Upstream] = {}  # empty while there is but one server
        self._asked: Leg | None = None  # the last that asked for a session, until one came
        self._is_counted = False
        self.home = upstreams.only

    def send(self, request: SendUpstream, sink: LegSink, host: bytes | None) -> Leg:
        """Send `request` where its session lives, or to whoever is given a new one."""
        only = self._upstreams.only
        if only is not None and not self._homes:
            return only.send(request, sink, host, is_decoded=True)
        session_id = http.find(request.headers, http.SESSION_ID)
        home = None if session_id is None else self._homes.get(session_id, self.home)
        if home is not None:
            return home.send(request, sink, host, is_decoded=True)
        order = self._first
        if not order or self.home is not None:
            in_vain = None if self._asked is None else self._asked.upstream
            order = self._upstreams.by_load(self.home, in_vain)
        self._asked = order[0].send(request, sink, host, is_decoded=True, others=order[1:])
        return self._asked

    def answered(self, leg: Leg, status: int, headers: Headers) -> None:
        """Note which server gave which session."""
        if leg.upstream is None or leg.upstream is self._upstreams.only:
            return
        session_id = http.find(headers, http.SESSION_ID)
        if session_id is None:
            return
        self._homes[session_id] = leg.upstream
        if len(self._homes) > _MAX_HOMES:
            del self._homes[next(iter(self._homes))]
        if leg is self._asked and 200 <= status < 300:
            self._asked = None
            self._move(leg.upstream)

    def follow(self, other: Pins, session_id: bytes) -> None:
        """The session was opened by a request within that of `other`, under this name."""
        self._homes = dict(other._homes)
        self.home = self._homes.get(session_id, other.home)

    def count(self) -> None:
        """The session counts where it lives, from now on until `close`."""
        self._is_counted = True
        if self.home is not None:
            self.home.sessions += 1

    def close(self) -> None:
        """The session is over: it counts no more."""
        if self._is_counted and self.home is not None:
            self.home.sessions -= 1
        self._is_counted = False

    def _move(self, home: Upstream) -> None:
        if self._is_counted:
            self.close()
            self.home = home
            self.count()
        self.home = home
