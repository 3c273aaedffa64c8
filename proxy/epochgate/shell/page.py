"""The page for people at `/` of the admin listener, and the summary that it fetches.

The page itself holds nothing of the process, so it is served without the token: it asks for one where one
is set, and shows it with what it fetches. Its policy lets it do that and no more: nothing comes from
elsewhere, no script but its own runs, and no other page may put it into a frame.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib.resources import files

from aiohttp import web

from epochgate.observe.metrics import METRICS, Metrics
from epochgate.shell.upstream import Upstream

# Counters that say whether something is wrong, with the label that they are summed up by.
_TOLD = {
    "resumes": "verdict",
    "heals": "outcome",
    "reissues": "outcome",
    "epoch_drift": "",
    "affinity_faults": "",
    "dropped_messages": "reason",
    "standalone_gaps": "",
    "unproven_polls": "",
    "upstream_errors": "kind",
    "session_evictions": "",
}


def page(overview: Callable[[], dict[str, object]]) -> list[web.RouteDef]:
    """`GET /` and `GET /overview`."""
    text = files("epochgate.shell").joinpath("page.html").read_text("utf-8")
    headers = {
        "Content-Security-Policy": _policy(text),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }

    async def show_page(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def show_overview(request: web.Request) -> web.Response:
        return web.json_response(overview())

    return [web.get("/", show_page), web.get("/overview", show_overview)]


def servers(upstreams: Iterable[Upstream]) -> list[dict[str, object]]:
    """Every server that is asked, and those that have left but keep their sessions."""
    return [
        {
            "name": one.name,
            "is_reached": one.is_reached,
            "has_left": one.has_left,
            "sessions": one.sessions,
        }
        for one in upstreams
    ]


def counters(metrics: Metrics) -> list[dict[str, object]]:
    """What the counters of `_TOLD` say, with the words of the table of metrics."""
    table = {metric.name: metric for metric in METRICS}
    return [
        {
            "metric": table[name].full_name,
            "text": table[name].text,
            "values": {value: round(count) for value, count in metrics.totals(name, label).items()},
        }
        for name, label in _TOLD.items()
    ]


def _policy(text: str) -> str:
    """Only the page's own style and script, by their digests."""
    allowed = {
        "default-src": "'none'",
        "style-src": _digest(text, "style"),
        "script-src": _digest(text, "script"),
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _digest(text: str, element: str) -> str:
    (content,) = re.findall(rf"(?s)<{element}>(.*?)</{element}>", text)
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
