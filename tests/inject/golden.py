"""Ten manifests as people have them, and what becomes of them.

`python -m tests.inject.golden` writes what is expected anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.inject.manifests import Source
from epochgate.inject.plan import Plan, inject
from epochgate.inject.sidecar import sidecar
from epochgate.inject.targets import Request

MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True, slots=True)
class Golden:
    """A manifest with its flags. The rest says what has to come out: of which workload and container, for
    which port, and what besides the sidecar is `added` to the pod and to the server."""

    name: str
    request: Request
    workload: str
    container: str
    port: int
    grace_s: int | None = 45
    has_pre_stop: bool = False
    services: tuple[tuple[str, int], ...] = ()


_SIDECAR = sidecar()
PLAIN = Request(_SIDECAR)
GOLDEN = (
    Golden("helm.yaml", PLAIN, "release-weather", "weather", 8000, services=(("release-weather", 0),)),
    Golden("kompose.yaml", Request(_SIDECAR, workloads=("mcp",)), "mcp", "mcp", 8000, services=(("mcp", 0),)),
    Golden(
        "statefulset.yaml",
        PLAIN,
        "notes",
        "notes",
        8000,
        grace_s=None,
        services=(("notes-headless", 0), ("notes", 0)),
    ),
    Golden("daemonset.yaml", PLAIN, "files", "files", 3000, services=(("files", 0),)),
    Golden(
        "operator.yaml",
        Request(_SIDECAR, port=8080),
        "search",
        "server",
        8080,
        grace_s=None,
        services=(("search", 0),),
    ),
    Golden("oauth.yaml", Request(_SIDECAR, container="mail"), "mail", "mail", 8000),
    Golden("pod.yaml", Request(_SIDECAR, port=9000), "scratch", "scratch", 9000),
    Golden(
        "kustomize.yaml",
        PLAIN,
        "prod-tickets",
        "tickets",
        8000,
        grace_s=50,
        has_pre_stop=True,
        services=(("prod-tickets", 0), ("prod-tickets", 1)),
    ),
    Golden("anchors.yaml", PLAIN, "graph", "graph", 8000, services=(("graph", 0),)),
    Golden("list.json", PLAIN, "maps", "maps", 8000, grace_s=None, services=(("maps", 0),)),
)


def text_of(name: str) -> str:
    return (MANIFESTS / name).read_bytes().decode()


def edited(name: str, text: str, request: Request) -> Plan:
    return inject([Source.of(name, text)], request)


def objects_of(text: str) -> list[dict[str, Any]]:
    """Every object in the text, those of a List one by one."""
    found: list[dict[str, Any]] = []
    for document in yaml.safe_load_all(text):
        match document:
            case {"kind": "List", "items": items}:
                found += items
            case dict():
                found.append(document)
            case _:
                pass  # an empty document
    return found


if __name__ == "__main__":
    for one in GOLDEN:
        plan = edited(one.name, text_of(one.name), one.request)
        (MANIFESTS / "expected" / one.name).write_bytes(plan.texts[0].encode())
