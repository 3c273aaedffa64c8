"""The pages for people say what the code says: generated ones exactly, the others by name."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from epochgate.core import axes, states, verdict
from epochgate.core.era import TrafficClass
from epochgate.limits import table
from epochgate.observe.metrics import METRICS
from epochgate.settings import Settings, shown_default

ROOT = Path(__file__).parents[1]
PAGES = [
    "docs/limits.md",
    "docs/metrics.md",
    "docs/rules.md",
    "docs/states.md",
    "docs/verdicts.md",
    "README.md",
    "helm/epochgate/files/dashboard.json",
    "config/settings.schema.json",
    "helm/epochgate/README.md",
    "helm/epochgate/files/settings.yaml",
    "helm/epochgate/values.schema.json",
]
EVIDENCE = (axes.MessageEvidence, axes.AnswerEvidence, axes.BreakEvidence, axes.CursorEvidence)
TABLES = (verdict.MESSAGE_TABLE, verdict.ANSWER_TABLE, verdict.BREAK_TABLE, verdict.CURSOR_TABLE)


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield importlib.import_module("generate")


@pytest.fixture(scope="module")
def sentences(generator: ModuleType) -> ModuleType:
    return importlib.import_module("sentences")


def page(name: str) -> str:
    return (ROOT / name).read_text()


# --- generated pages --------------------------------------------------------------------------------


def test_these_pages_are_generated(generator: ModuleType) -> None:
    assert list(generator.PAGES) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(generator: ModuleType, name: str) -> None:
    assert page(name) == generator.PAGES[name](), "run `make docs`"


def test_the_pages_name_every_limit_and_every_metric() -> None:
    limits, metrics = page("docs/limits.md"), page("docs/metrics.md")
    assert all(f"| `{limit.name}` | {limit.default} |" in limits for limit in table())
    assert all(f"`{metric.full_name}`" in metrics for metric in METRICS)


def test_every_reason_has_a_sentence_and_every_sentence_a_reason(sentences: ModuleType) -> None:
    ruled = {row.ruling for rows in TABLES for row in rows} | set(verdict.OUTSIDE.values())
    assert set(sentences.REASONS) == {(ruling.verdict.value, ruling.reason) for ruling in ruled}


def test_every_label_of_a_resume_stands_in_the_readme() -> None:
    readme = page("README.md")
    for leg, _, name, reason in verdict.RESUME_LABELS:
        assert f"| {leg} | {name} | `{reason}` |" in readme


def test_every_value_of_the_evidence_has_words(sentences: ModuleType) -> None:
    values = {value for kind in EVIDENCE for values in axes.axes(kind).values() for value in values}
    assert set(sentences.VALUES) == values
    assert {kind: list(words) for kind, words in sentences.AXES.items()} == {
        kind: list(axes.axes(kind)) for kind in EVIDENCE
    }


def test_every_state_has_words(sentences: ModuleType) -> None:
    kinds: tuple[type[Enum], ...] = (states.SessionState, states.Up, states.ClientHalf)
    assert set(sentences.STATES) == {state for kind in kinds for state in kind}


def test_the_tables_of_verdicts_have_every_row() -> None:
    numbered = re.findall(r"(?m)^\| \d+ \|", page("docs/verdicts.md"))
    assert len(numbered) == sum(len(rows) for rows in TABLES)


def test_every_rule_that_the_code_cites_is_explained_and_no_other(generator: ModuleType) -> None:
    assert set(generator.RULES) == set(generator.cited())


# --- pages written by hand ----------------------------------------------------------------------------


def test_the_design_names_every_module_of_core_and_shell_and_no_other() -> None:
    parts = page("docs/design.md").partition("\nInside `core`:")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`.*?`) \|", parts)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    there = [
        path.stem
        for part in ("core", "shell")
        for path in (ROOT / "proxy" / "epochgate" / part).glob("*.py")
        if path.stem != "__init__"
    ]
    assert sorted(named) == sorted(there)


def test_the_design_names_every_part_of_the_package_and_no_other() -> None:
    (tree,) = re.findall(r"(?s)```\nproxy/epochgate/\n(.*?)```", page("docs/design.md"))
    there = [
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "proxy" / "epochgate").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]
    assert sorted(re.findall(r"(?<=  )[a-z]+(?:/|\.py)", tree)) == sorted(
        name for name in there if not name.startswith("__")
    )


def test_the_sections_that_the_code_cites_are_in_the_design() -> None:
    sections = set(re.findall(r"(?m)^## (\d+)\. ", page("docs/design.md")))
    cited = {
        number
        for path in (ROOT / "proxy").rglob("*.py")
        for text in re.findall(r"\(design, (?:sections? )?([\d and]+)", path.read_text())
        for number in re.findall(r"\d+", text)
    }
    assert cited
    assert cited <= sections


def test_the_classes_of_traffic_are_in_the_design() -> None:
    design = page("docs/design.md")
    assert all(f"| `{member.value}` |" in design for member in TrafficClass)


@pytest.mark.parametrize("name", ["README.md", "docs/operating.md", "docs/kubernetes.md"])
def test_metrics_that_a_page_names_exist(name: str) -> None:
    known = {metric.full_name for metric in METRICS}
    named = set(re.findall(r"\bepochgate_[a-z_]+", page(name)))
    assert named
    assert named <= known


def test_the_readme_shows_the_defaults_of_its_settings() -> None:
    rows = re.findall(r"(?m)^\| ((?:`\w+`(?:, )?)+) \| (.+?) \|", page("README.md"))
    checked = 0
    for names, shown in rows:
        settings = re.findall(r"`(\w+)`", names)
        if set(settings) <= set(Settings.model_fields):
            wanted = ", ".join(filter(None, (shown_default(name) for name in settings))) or "–"
            assert shown.replace("`", "") == wanted
            checked += 1
    assert checked >= 8


def test_limits_that_a_page_names_have_the_values_that_it_gives_them() -> None:
    """As `drain` (25 s): a unit may be another one, as long as it comes to the same."""
    known = {limit.name: in_units(limit.default) for limit in table()}
    given = [
        (path.name, name, in_units(amount))
        for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for name, amount in re.findall(r"`(\w+)`\s\((\d[\d,]*(?: (?:s|min|h|MiB))?)\b", path.read_text())
        if name in known
    ]

    assert len(given) > 10
    assert [one for one in given if one[2] != known[one[1]]] == []


def in_units(amount: str) -> tuple[str, int]:
    number, _, unit = amount.replace(",", "").partition(" ")
    seconds = {"s": 1, "min": 60, "h": 3600}
    return ("s", int(number) * seconds[unit]) if unit in seconds else (unit, int(number))


def test_links_lead_somewhere() -> None:
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name}: {target}"


def test_the_readmes_example_is_true() -> None:
    code = re.findall(r"(?s)```python\n(.*?)```", page("README.md"))
    assert len(code) == 1
    *statements, last = ast.parse(code[0]).body
    names: dict[str, object] = {}
    exec(compile(ast.Module(statements, []), "README.md", "exec"), names)
    assert isinstance(last, ast.Expr)
    assert eval(compile(ast.Expression(last.value), "README.md", "eval"), names) == "resume"
