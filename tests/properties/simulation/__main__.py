"""`python -m tests.properties.simulation SEED [relay]`: play one seed and print everything."""

from __future__ import annotations

import sys

from tests.properties.simulation import play, story


def main(arguments: list[str]) -> int:
    seed = int(arguments[0])
    outcome = play(seed, "relay" if "relay" in arguments[1:] else "core")
    print(story(outcome))
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
