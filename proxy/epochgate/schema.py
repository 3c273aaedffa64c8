"""The JSON schema of the file of settings: what may stand there, as people write it.

Pydantic's own schema tells of the values behind it: addresses as objects, lists that may not be one text.
"""

from __future__ import annotations

from typing import Any

from epochgate.limits import Limits, least
from epochgate.settings import SECRETS, Settings
from epochgate.units import BYTES_IN, SECONDS_IN

DIALECT = "http://json-schema.org/draft-07/schema#"
# What the file cannot hold: secrets are refused there, and it does not name another file.
NOT_IN_FILE = SECRETS | {"config"}


def file_schema() -> dict[str, Any]:
    """The schema of the YAML file. Nothing is required: flags and variables may give the rest."""
    return {
        "$schema": DIALECT,
        "title": "Settings of epochgate",
        "type": "object",
        "additionalProperties": False,
        "properties": properties(),
    }


def properties() -> dict[str, Any]:
    """Setting -> the schema of its value, the places and choices before the limits."""
    values = Settings.model_json_schema(mode="validation")
    written = Settings.model_json_schema(mode="serialization")["properties"]
    return {
        name: _property(name, values["properties"][name], values["$defs"], written[name])
        for name in sorted(Settings.model_fields, key=lambda name: name in Limits.model_fields)
        if name not in NOT_IN_FILE
    }


def _property(
    name: str, value: dict[str, Any], kinds: dict[str, Any], written: dict[str, Any]
) -> dict[str, Any]:
    text = str(value["description"])
    if "why" in value:
        text = f"{text}: {value['why']}; at the limit: {value['at_limit']}"
    default = {} if written.get("default") is None else {"default": written["default"]}
    can_be_off = written.get("default") == "off" or name == "admin"
    return {"description": text, **default, **_form(name, value, kinds, [_OFF] if can_be_off else [])}


def _form(
    name: str, value: dict[str, Any], kinds: dict[str, Any], off: list[dict[str, Any]]
) -> dict[str, Any]:
    """The forms in which a value of this setting may be written; `off` has what stands for none."""
    match value:
        case {"unit": "seconds"}:
            number = {"type": "number", "minimum": least(name)}
            return {"anyOf": [number, {"type": "string", "pattern": _DURATION}]}
        case {"unit": "bytes"}:
            number = {"type": "integer", "minimum": least(name)}
            return {"anyOf": [number, {"type": "string", "pattern": _SIZE}]}
        case {"unit": "count"}:
            return {"type": "integer", "minimum": least(name)}
        case {"$ref": str(kind)}:
            members = kinds[kind.rpartition("/")[2]]["enum"]
            # YAML reads a bare `on` or `off` as a boolean.
            return {"enum": [*members, *(bare for word, bare in _SWITCH.items() if word in members)]}
        case {"type": "array"}:
            words = {"type": "array", "items": {"type": "string"}}
            return {"anyOf": [{"type": "string"}, words, *off]}
        case {"anyOf": _}:
            return {"type": ["string", "null"]}
        case _:
            return {"anyOf": [{"type": value["type"]}, *off]} if off else {"type": value["type"]}


def _quantity(units: dict[str, Any]) -> str:
    """A pattern for a number and one of the units in any case; editors know no flag for that."""
    names = ["".join(f"[{letter.upper()}{letter}]" for letter in unit) for unit in units if unit]
    return rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(names)})?\s*$"


_OFF: dict[str, Any] = {"enum": [False, None]}
_SWITCH = {"on": True, "off": False}
_DURATION = _quantity(SECONDS_IN)
_SIZE = _quantity(BYTES_IN)
