"""The Grafana dashboard: what a deploy did to sessions in flight, and what safety cost.

`generate.py` writes it to `helm/epochgate/files/dashboard.json`; what it shows stands in `rows.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from panels import PROCESS, STARTED, Panel, Query
from rows import ROWS

Json = dict[str, Any]

CHOICES = ("namespace", "job", "pod", "instance")
COLUMNS = 24  # Grafana's
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def page() -> str:
    """The dashboard as Grafana reads it."""
    return json.dumps(_dashboard(), indent=1, ensure_ascii=False) + "\n"


def _dashboard() -> Json:
    return {
        "title": "epochgate",
        "uid": "epochgate",
        "description": "What the last deploy did to sessions in flight, and what safety cost.",
        "tags": ["epochgate", "mcp"],
        "schemaVersion": 39,  # Grafana 10 reads it, later ones migrate it
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": list(_annotations())},
        "panels": list(_panels()),
    }


def _ours(names: tuple[str, ...] = CHOICES) -> str:
    return ", ".join(f'{name}=~"${name}"' for name in names)


def _chosen(expr: str) -> str:
    return expr.replace("OURS", _ours())


def _variables() -> Iterator[Json]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for at, name in enumerate(CHOICES):
        yield {
            "name": name,
            "type": "query",
            "datasource": SOURCE,
            "query": f"label_values(epochgate_build_info{{{_ours(CHOICES[:at])}}}, {name})",
            "refresh": 2,  # when the time range changes: pods come and go
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",  # also where targets have no such label
            "current": {"text": "All", "value": "$__all"},
        }


def _annotations() -> Iterator[Json]:
    """Deploys show as processes that began, at the time they give, and as servers out of reach."""
    began = ("Proxies that began", "blue", STARTED, "epochgate {{version}} began")
    away = ("Servers out of reach", "red", "epochgate_ready{OURS} == 0", "not ready")
    for name, color, expr, title in (began, away):
        yield {
            "name": name,
            "datasource": SOURCE,
            "enable": True,
            "iconColor": color,
            "target": {"refId": "A", "expr": _chosen(expr), "interval": "30s"},
            "titleFormat": title,
            "textFormat": f"{{{{namespace}}}} {PROCESS}",
            "useValueForTime": expr is STARTED,
        }


def _panels() -> Iterator[Json]:
    """Rows from top to bottom, each filled from left to right."""
    number, y = 1, 0
    for title, panels in ROWS:
        at = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": at}
        number, x, y, height = number + 1, 0, y + 1, 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            yield _panel(number, panel, {"h": panel.height, "w": panel.width, "x": x, "y": y})
            number, x, height = number + 1, x + panel.width, max(height, panel.height)
        y += height


def _panel(number: int, panel: Panel, at: Json) -> Json:
    steps = [{"color": color, "value": value} for color, value in panel.steps]
    defaults = {
        "unit": panel.unit,
        "color": {"mode": panel.color},
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": panel.custom(),
        "noValue": "–",
    }
    shown = {"id": "organize", "options": {"excludeByName": {"Time": True}}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": panel.options(),
        "targets": [_target("ABCD"[i], query, panel) for i, query in enumerate(panel.queries)],
        "transformations": [shown] if panel.format == "table" else [],
    }


def _target(letter: str, query: Query, panel: Panel) -> Json:
    return {
        "refId": letter,
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": _chosen(query.expr),
        "legendFormat": query.legend or "__auto",
        "instant": panel.is_instant,
        "range": not panel.is_instant,
        "format": panel.format,
    }
