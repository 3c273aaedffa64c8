"""Where the server sessions of one client session live.

Each heal may begin one on another server, while streams of the older ones go on where they are. A request
that names a server session goes to the server that gave it that name, and never to another: a replica that
re-creates sessions would answer it from an empty one. Servers that count their sessions give equal names, so
that the core is told another one for the second of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from epochgate.core import http
from epochgate.core.commands import SendUpstream
from epochgate.core.http import Headers
from epochgate.shell.leg import Leg, LegSink
from epochgate.shell.upstream import Upstream
from epochgate.shell.upstreams import Upstreams

_MAX_HOMES = 64  # server sessions that are remembered; a client session has two or three


class Pins:
    """Of one client session. `home` is where its current server session lives, once there is one."""

    __slots__ = (
        "_asked",
        "_first",
        "_given",
        "_has_moved",
        "_homes",
        "_in_vain",
        "_is_counted",
        "_upstreams",
        "home",
    )

    def __init__(self, upstreams: Upstreams, first: Sequence[Upstream] = ()) -> None:
        """`first`: who is asked for the first session in turn, if not the server with the least to do."""
        self._upstreams = upstreams
        self._first = first
        self._homes: dict[bytes, Upstream] = {}  # by the name that the core knows
        self._given: dict[bytes, bytes] | None = None  # the server's own name, where the core knows another
        self._asked: Leg | None = None  # the last that asked for a session, until one came
        self._in_vain: Counter[Upstream] | None = None  # who was asked before, until one came
        self._has_moved = False  # some of it lives, or lived, elsewhere than at `home`
        self._is_counted = False
        self.home = upstreams.only

    def send(self, request: SendUpstream, sink: LegSink, host: bytes | None) -> Leg:
        """Send `request` where its session lives, or to whoever is given a new one."""
        only = self._upstreams.only
        if only is not None and only is self.home and not self._has_moved:
            return only.send(request, sink, host, is_decoded=True)
        session_id = http.find(request.headers, http.SESSION_ID)
        home = None if session_id is None else self._homes.get(session_id, self.home)
        if session_id is None or home is None:
            return self._ask(request, sink, host)
        if self._given is not None and session_id in self._given:
            headers = http.with_value(request.headers, http.SESSION_ID, self._given[session_id])
            request = msgspec.structs.replace(request, headers=headers)
        return home.send(request, sink, host, is_decoded=True)

    def _ask(self, request: SendUpstream, sink: LegSink, host: bytes | None) -> Leg:
        """Ask for a session. Who was asked before in vain is asked when all others were."""
        if self._asked is not None and self._asked.upstream is not None:
            self._in_vain = self._in_vain or Counter()
            self._in_vain[self._asked.upstream] += 1
        order = self._first
        if not order or self.home is not None:
            order = self._upstreams.by_load(self.home, self._in_vain or {})
        self._asked = order[0].send(request, sink, host, is_decoded=True, others=order[1:])
        order[0].asked_new(self._asked)
        return self._asked

    def answered(self, leg: Leg, status: int, headers: Headers) -> Headers:
        """Note which server gave which session. Returns the headers for the core."""
        session_id = http.find(headers, http.SESSION_ID)
        if leg is self._asked and leg.upstream is not None:
            leg.upstream.answered_new(status, leg)
        if session_id is None or leg.upstream is None:
            return headers
        if self._homes.get(session_id) is not leg.upstream or self._given is not None:
            name = self._name(session_id, leg.upstream)
            headers = headers if name == session_id else http.with_value(headers, http.SESSION_ID, name)
        if leg is self._asked and 200 <= status < 300:
            self._asked = self._in_vain = None
            self._move(leg.upstream)
        return headers

    def follow(self, other: Pins, name: bytes) -> None:
        """The session was opened by a request within that of `other`, under this name."""
        self._homes = dict(other._homes)
        self._given = None if other._given is None else dict(other._given)
        self._has_moved = other._has_moved
        self.home = self._homes.get(name, other.home)

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

    def _name(self, session_id: bytes, upstream: Upstream) -> bytes:
        """The name for the session that `upstream` calls `session_id`."""
        given = {} if self._given is None else self._given
        for name, home in self._homes.items():
            if home is upstream and given.get(name, name) == session_id:
                return name
        name = session_id
        while name in self._homes:
            name += b"_"
        self._homes[name] = upstream
        self._has_moved |= self.home is not None and upstream is not self.home
        if name != session_id:
            self._given = {**given, name: session_id}
        if len(self._homes) > _MAX_HOMES:
            self._forget(next(iter(self._homes)))
        return name

    def _forget(self, name: bytes) -> None:
        del self._homes[name]
        if self._given is not None:
            self._given.pop(name, None)
