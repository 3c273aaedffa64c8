"""Arguments of the command line: every mistake is a `UsageError` of one line, near misses are named."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn


def printable(text: str) -> str:
    """`text` in one line: what a path or a flag holds may break it, or steer the terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)


class UsageError(Exception):
    """One line that says what of the command line is wrong and what would be right."""

    def __init__(self, line: str) -> None:
        super().__init__(printable(line))


class Parser(argparse.ArgumentParser):
    """`ArgumentParser` that raises `UsageError` instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def parse(self, words: Sequence[str] | None) -> argparse.Namespace:
        """The given arguments (the process's own for None); raises `UsageError`."""
        known, unknown = self.parse_known_args(words)
        if not unknown:
            return known
        from epochgate.loading import find_meant

        flag = unknown[0].partition("=")[0]
        flags = [option for action in self._actions for option in action.option_strings]
        meant = find_meant(flag, flags) if flag.startswith("-") else None
        hint = f"did you mean {meant}?" if meant else f"see `{self.prog} --help`"
        raise UsageError(f"{flag}: no such flag; {hint}")
