"""Who makes a request, and what that allows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a key may do: `ADMIN` includes the other two and reaches beyond its owner."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)

ADMIN_PATHS = frozenset({"/v1/audit"})
"""Only for admins, whatever the method."""
_ADMIN_ENDING = "/release"
"""Of paths of jobs that are only for admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The key of a request: its name, whose it is, what it may do.

    Jobs and modules belong to the owner, so that a new key of the same owner finds them again.
    """

    name: str
    owner: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether the caller has `scope`, itself or through `ADMIN`."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def is_admin(self) -> bool:
        """Whether the caller sees and ends the jobs of all owners."""
        return Scope.ADMIN in self.scopes

    @property
    def sees(self) -> str | None:
        """The owner whose jobs and modules the caller sees, None for all."""
        return None if self.is_admin else self.owner


ANYBODY = Caller(name="", owner="", scopes=ALL_SCOPES)
"""Whoever reaches a service that has no keys."""


NOBODY = Caller(name="", owner="", scopes=frozenset())
"""Whoever asks for what needs no key of a service that has keys."""


def needed_scope(method: str, path: str) -> Scope:
    """The scope that a request needs: to look is `READ`, to change anything is `SUBMIT`."""
    if path in ADMIN_PATHS or path.endswith(_ADMIN_ENDING):
        return Scope.ADMIN
    return Scope.READ if method in ("GET", "HEAD", "OPTIONS") else Scope.SUBMIT
