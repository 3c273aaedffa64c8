"""What of the Helm chart is generated: the schema and the table of its values, and what it knows of settings.

The comments of `values.yaml` are the descriptions; the settings come from the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

from epochgate.limits import ORDERED, Limits, least, table
from epochgate.schema import DIALECT, file_schema, properties
from epochgate.settings import RELOADED
from epochgate.units import BYTES_IN, SECONDS_IN

CHART = Path(__file__).parents[1] / "helm" / "epochgate"
# Settings that follow from other values.
OF_THE_CHART = ("listen", "health", "admin", "admin_token_file", "state")

_PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
_COUNT = {"type": "integer", "minimum": 0}
_PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
_AMOUNT = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]}
_PULL = {"enum": ["Always", "IfNotPresent", "Never"]}
_DIGEST = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
# What a default does not tell of the values that are right.
NARROWED: dict[str, dict[str, Any]] = {
    "mode": {"enum": ["sidecar", "gateway"]},
    "replicaCount": _COUNT,
    "image.pullPolicy": _PULL,
    "image.digest": _DIGEST,
    "server.image.pullPolicy": _PULL,
    "server.image.digest": _DIGEST,
    "server.port": _PORT,
    "state.store": {"enum": ["memory", "sqlite", "redis"]},
    "state.sqlite.directory": {"type": "string", "pattern": "^/.+[^/]$"},
    "ports.traffic": _PORT,
    "ports.health": _PORT,
    "ports.admin": _PORT,
    "bindAddresses": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "service.port": _PORT,
    "service.nodePort": {"type": "integer", "minimum": 0, "maximum": 65535},
    "service.ipFamilyPolicy": {"enum": ["", "SingleStack", "PreferDualStack", "RequireDualStack"]},
    "service.externalTrafficPolicy": {"enum": ["", "Cluster", "Local"]},
    "service.publishNotReadyAddresses": {"enum": ["auto", True, False]},
    "sessionAffinity": {"enum": ["none", "clientIP", "ingress"]},
    "sessionAffinitySeconds": {"type": "integer", "minimum": 1, "maximum": 86400},
    "strategy.type": {"enum": ["RollingUpdate", "Recreate"]},
    "terminationGracePeriodSeconds": {"type": "integer", "minimum": 11},
    "memory.processMi": {"type": "integer", "minimum": 1},
    "memory.perSessionKi": {"type": "number", "minimum": 0},
    "memory.keptStreams": _COUNT,
    "memory.perStreamKi": {"type": "number", "minimum": 0},
    "memory.journalFactor": {"type": "number", "minimum": 1},
    "memory.busyRequests": _COUNT,
    "memory.requestPercent": _PERCENT,
    "podDisruptionBudget.maxUnavailable": _AMOUNT,
    "autoscaling.minReplicas": {"type": "integer", "minimum": 1},
    "autoscaling.maxReplicas": {"type": "integer", "minimum": 1},
    "autoscaling.targetCPUUtilizationPercentage": _COUNT,
    "autoscaling.targetMemoryUtilizationPercentage": _PERCENT,
    "tests.path": {"type": "string", "pattern": "^/"},
}
# What a chart that has this one as a dependency puts beside its values.
_OF_A_PARENT = {"global": {"type": "object"}, "enabled": {"type": "boolean"}}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of `values.yaml`; `parts` are those within it that have a comment of their own."""

    path: str
    default: Any
    text: str
    parts: tuple[Value, ...] = ()


def read_values() -> tuple[Value, ...]:
    """Every value with its comment. Raises ValueError if one has none."""
    source = (CHART / "values.yaml").read_text()
    return tuple(_read(yaml.compose(source), source.splitlines(), ""))


def _read(mapping: yaml.MappingNode, lines: list[str], within: str) -> Iterator[Value]:
    for key, node in mapping.value:
        path = f"{within}.{key.value}" if within else key.value
        text = _comment(lines, key.start_mark)
        is_group = any(_comment(lines, part.start_mark) for part in _keys_within(node))
        parts = tuple(_read(node, lines, path)) if is_group else ()
        if not text and not parts:
            raise ValueError(f"values.yaml: {path} has no comment")
        yield Value(path, yaml.SafeLoader("").construct_document(node) if not parts else None, text, parts)


def _keys_within(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, inner in node.value:
            yield key
            yield from _keys_within(inner)


def _comment(lines: list[str], mark: yaml.Mark) -> str:
    """The comment right above a key, in one line."""
    if lines[mark.line][: mark.column].strip():
        return ""
    start = mark.line
    while start and lines[start - 1].startswith(f"{' ' * mark.column}# "):
        start -= 1
    return " ".join(line.strip().removeprefix("# ") for line in lines[start : mark.line])


def values_schema() -> str:
    """`values.schema.json`: what Helm refuses before it renders."""
    return _json({"$schema": DIALECT, "title": "Values of epochgate", **_group(read_values(), _OF_A_PARENT)})


def _group(parts: tuple[Value, ...], besides: dict[str, Any]) -> dict[str, Any]:
    own = {part.path.rpartition(".")[2]: _schema(part) for part in parts}
    return {"type": "object", "additionalProperties": False, "properties": own | besides}


def _schema(value: Value) -> dict[str, Any]:
    if value.path == "settings":
        held = _held()
        form = {"type": "object", "additionalProperties": False, "properties": held}
    elif value.parts:
        form = _group(value.parts, {})
    else:
        form = NARROWED.get(value.path) or {"type": _TYPES[type(value.default)]}
        form = form if value.default is None else {"default": value.default, **form}
    return {"description": value.text, **form} if value.text else form


def _held() -> dict[str, Any]:
    """The settings that may stand in `settings`, with their schemas."""
    return {name: form for name, form in properties().items() if name not in OF_THE_CHART}


_TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}


def settings_schema() -> str:
    """`config/settings.schema.json`: for editors of the file of settings."""
    return _json(file_schema())


def known_settings() -> str:
    """`files/settings.yaml`: what templates have to know of settings."""
    limits = {
        limit.name: {
            "unit": limit.unit,
            "default": _plain(Limits.model_fields[limit.name].default),
            "least": _plain(least(limit.name)),
        }
        for limit in table()
    }
    known = {
        "names": sorted(_held()),
        "reloaded": sorted(RELOADED),
        "limits": limits,
        "ordered": list(map(list, ORDERED)),
        "units": {"seconds": SECONDS_IN, "bytes": BYTES_IN},
    }
    made = "# Generated by docs/generate.py from the settings of epochgate.\n"
    text: str = yaml.safe_dump(known, sort_keys=False, default_flow_style=None, width=100)
    return made + text


def chart_readme() -> str:
    """The chart's README with its table made anew; everything else in it is written by hand."""
    begin, end = "<!-- values:begin -->", "<!-- values:end -->"
    before, _, rest = (CHART / "README.md").read_text().partition(begin)
    _, _, after = rest.partition(end)
    rows = [
        f"| `{value.path}` | {_shown(value.default)} | {value.text.replace('|', chr(92) + '|')} |"
        for value in _flat(read_values())
    ]
    return "\n".join(
        (
            f"{before}{begin}",
            "| value | default | what it decides |",
            "| --- | --- | --- |",
            *rows,
            f"{end}{after}",
        )
    )


def _flat(values: tuple[Value, ...]) -> Iterator[Value]:
    for value in values:
        if value.text:
            yield value
        yield from _flat(value.parts)


def _shown(default: Any) -> str:
    return "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
