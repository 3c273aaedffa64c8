"""The generated pages say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from epochgate.limits import table
from epochgate.observe.metrics import METRICS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["limits.md", "metrics.md"])
def test_a_generated_page_is_what_the_code_says(generator: ModuleType, page: str) -> None:
    assert (DOCS / page).read_text() == generator.PAGES[page](), "run `python docs/generate.py`"


def test_the_pages_name_every_limit_and_every_metric() -> None:
    limits, metrics = (DOCS / "limits.md").read_text(), (DOCS / "metrics.md").read_text()
    assert all(f"| `{limit.name}` | {limit.default} |" in limits for limit in table())
    assert all(f"`{metric.full_name}`" in metrics for metric in METRICS)
