"""Settings from flags, `EPOCHGATE_*` variables and a YAML file, in this order of precedence."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types; only its errors are named here
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError, YamlConfigSettingsSource

from epochgate.arguments import UsageError
from epochgate.settings import SECRETS, Settings

_PREFIX = "EPOCHGATE_"
# Variables that no setting is near to are left alone: Kubernetes puts EPOCHGATE_SERVICE_HOST and
# the like into every pod beside a Service of that name.
_NEAR = 0.75
_MAX_SHOWN_CHARS = 60
_CREDENTIALS = re.compile(r"//[^\s,']*@")  # of a URL; a password may hold any character


class BadSettings(UsageError):
    """One line: which setting, why, and what would be right."""


def load(
    flags: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    *,
    otherwise: Mapping[str, str] | None = None,
) -> Settings:
    """The effective settings. `flags` are keyed by setting name, and `otherwise` what holds if nothing is
    given. Raises `BadSettings`."""
    return load_with_origins(flags, environ, otherwise=otherwise)[0]


def load_with_origins(
    flags: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    *,
    otherwise: Mapping[str, str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """The effective settings, and for each that was given where: `--hold`, `EPOCHGATE_HOLD`, or a file.

    `flags` and `otherwise` as in `load`. Raises `BadSettings`.
    """
    variables = os.environ if environ is None else environ
    _refuse_mistyped_variables(variables)
    path = flags.get("config") or variables.get(f"{_PREFIX}CONFIG")
    from_file = {} if not path else _read_file(path)
    from_env = _read_variables(variables)
    for name in SECRETS & {name for name, value in from_file.items() if value is not None}:
        variable = f"{_PREFIX}{name.upper()}"
        raise BadSettings(f"{path}: {name}: a secret; give it by {variable} or by the file of {name}_file")
    origins = {name: str(path) for name in from_file}
    origins |= {name: f"{_PREFIX}{name.upper()}" for name in from_env}
    origins |= {name: _flag(name) for name in flags}
    not_read = {f"{name}_file" for name in SECRETS & from_env.keys()}
    for name in SECRETS - from_env.keys():
        if name_of_file := {**from_file, **from_env, **flags}.get(f"{name}_file"):
            from_env[name] = _read_secret(f"{name}_file", str(name_of_file))
            origins[name] = str(name_of_file)
    try:
        given = {**(otherwise or {}), **from_file, **from_env, **flags}
        return Settings(**{name: given[name] for name in given.keys() - not_read}), origins
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = _place(detail, flags, from_env, path)
        raise BadSettings(f"{place}{_why(detail)}") from None


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that `name` was probably meant to be, or None."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def find_meant(name: str, known: Iterable[str]) -> str | None:
    """The known setting or flag that `name` was probably meant to be, by what other programs call it too."""
    known = list(known)
    bare = name.lstrip("-")
    alias = name.removesuffix(bare) + _ELSEWHERE.get(bare, "")
    return alias if alias in known else nearest(name, known)


# Not asked of variables: EPOCHGATE_PORT is what Kubernetes says of a Service.
_ELSEWHERE = {
    "port": "listen",
    "bind": "listen",
    "address": "listen",
    "url": "upstream",
    "server": "upstream",
    "target": "upstream",
    "backend": "upstream",
    "p": "listen",
}


def _read_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Settings)
    source.env_vars = {name.lower(): value for name, value in variables.items() if value}
    return source()


def _refuse_mistyped_variables(variables: Mapping[str, str]) -> None:
    for variable in variables:
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX) or name in Settings.model_fields:
            continue
        meant = nearest(name, Settings.model_fields, _NEAR)
        if meant is not None:
            raise BadSettings(f"{variable}: no such setting; did you mean {_PREFIX}{meant.upper()}?")


def _read_file(path: str) -> dict[str, Any]:
    """The file's settings. Raises `BadSettings` if it cannot be read or names an unknown setting."""
    if not Path(path).is_file():
        raise BadSettings(f"config: {path}: no such file; give the path of a YAML file")
    try:
        values = YamlConfigSettingsSource(Settings, yaml_file=path)()
    except RecursionError:
        raise BadSettings(f"{path}: nested too deeply; give lines of the form `setting: value`") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: not YAML: {_yaml_problem(error)}") from None
    except (SettingsError, AttributeError, TypeError, ValueError):
        raise BadSettings(f"{path}: not a mapping; give lines of the form `setting: value`") from None
    except OSError as error:
        raise BadSettings(f"config: {path}: {error.strerror}; give a file that can be read") from None
    for key in values:
        if key not in Settings.model_fields:
            meant = find_meant(str(key), Settings.model_fields)
            hint = f"did you mean {meant}?" if meant else "`epochgate run --help` lists them"
            shown = str(key)[:_MAX_SHOWN_CHARS]
            raise BadSettings(f"{path}: {shown}: no such setting; {hint}")
    return values


def _read_secret(setting: str, path: str) -> str:
    try:
        secret = Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise BadSettings(f"{setting}: {path}: {reason}; give a file that can be read") from None
    if not secret:
        raise BadSettings(f"{setting}: {path}: empty; give a file that holds the secret")
    return secret


def _yaml_problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())[:_MAX_SHOWN_CHARS]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _place(
    detail: ErrorDetails, flags: Mapping[str, str], from_env: Mapping[str, Any], path: str | None
) -> str:
    """Where the bad value was given: `--hold 'x': `; empty for rules about several settings."""
    if not detail["loc"]:
        return ""
    name = str(detail["loc"][0])
    if name in SECRETS:
        return f"{name}: "
    shown = repr(_CREDENTIALS.sub("//***@", str(detail["input"])))[:_MAX_SHOWN_CHARS]
    if name in flags:
        return f"{_flag(name)} {shown}: "
    if name in from_env:
        return f"{_PREFIX}{name.upper()} {shown}: "
    return f"{name}: " if detail["type"] == "missing" else f"{path}: {name} {shown}: "


def _why(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return "not given; give --upstream http://127.0.0.1:8000"
        case "value_error":
            return str(context["error"])
        case "enum":
            return f"give {context['expected']}"
        case "greater_than_equal":
            return f"too small; give at least {context['ge']:g}"
        case "bool_parsing" | "bool_type":
            return "give true or false"
        case "int_parsing" | "int_type" | "int_from_float":
            return "give a whole number"
        case "tuple_type" | "frozen_set_type":
            return "not a list; give words with commas between them"
        case _:
            return detail["msg"]
