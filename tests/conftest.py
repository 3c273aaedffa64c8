"""What every test shares: how deep the searching tests go."""

from __future__ import annotations

import os

from hypothesis import settings

IS_LONG = bool(os.environ.get("EPOCHGATE_LONG"))

# Quick runs try the same examples every time, so that a failure is the change's own; long runs search.
settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("long", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile("long" if IS_LONG else "quick")
