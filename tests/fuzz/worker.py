"""One fuzzing process: instruments the product, then hands a target to libFuzzer.

`python -m tests.fuzz.worker TARGET PROGRAM [libFuzzer's arguments]`, with atheris on the path. PROGRAM is
what libFuzzer runs, with other arguments, to have this done once more in a process of its own.
"""

from __future__ import annotations

import importlib
import sys

import atheris  # type: ignore[import-untyped]  # only in its own environment


def main() -> None:
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["epochgate"]):
        target = importlib.import_module(f"tests.fuzz.{name}")
    atheris.Setup(arguments, target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
