"""What a validation finds, and how it says that it would take too long to find it here. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apiserver.field_errors import FieldError


class Findings(NamedTuple):
    """errors: why the write is refused. warnings: what the client should know though it is allowed."""

    errors: Sequence[FieldError]
    warnings: Sequence[str] = ()


class TakesLong(Exception):
    """Raised by bounded work, which other requests wait for, when there is more of it than they should.

    It has changed nothing, and is done again where nobody waits for it. See `offload.Offload.run_bounded`.
    """
