"""What a validation finds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apiserver.meta.field_errors import FieldError


class Findings(NamedTuple):
    """What the checks of a write have found.

    errors: why the write is refused. warnings: what the client is warned of, although the write is allowed.
    """

    errors: Sequence[FieldError]
    warnings: Sequence[str] = ()
