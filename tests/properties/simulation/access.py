"""Whose credentials a simulated server accepts: tokens are `user.number`, and the older ones expire."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.properties.simulation.traits import ServerTraits

STRANGER = "m"  # a user with no session of his own, and no right to anybody's


def user_of(token: str) -> str:
    return token.partition(".")[0]


@dataclass
class Access:
    """`denied` holds every token that was ever refused; no proxy may refuse one without that."""

    traits: ServerTraits
    denied: set[str] = field(default_factory=set)
    _oldest: dict[str, int] = field(default_factory=dict)

    def expire(self, token: str) -> None:
        """From now on this token, and the older ones of its user, are refused."""
        user, _, number = token.partition(".")
        self._oldest[user] = max(self._oldest.get(user, 0), int(number) + 1)

    def is_expired(self, token: str) -> bool:
        user, _, number = token.partition(".")
        return int(number) < self._oldest.get(user, 0)

    def find_denial(self, token: str, owner: str | None) -> int | None:
        """The status that refuses this token, in a session of `owner` if there is one."""
        is_foreign = owner is not None and owner != user_of(token)
        is_foreign = is_foreign and (self.traits.binds or user_of(token) == STRANGER)
        if not is_foreign and not self.is_expired(token):
            return None
        self.denied.add(token)
        return self.traits.denial if is_foreign else 401
