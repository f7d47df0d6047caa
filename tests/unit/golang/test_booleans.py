"""Truth values are those of Go's strconv.ParseBool."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.golang.booleans import parse_bool

VALUES: Final[dict[str | None, bool | None]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
    **dict.fromkeys(("", "yes", "on", "tRUE", " true", "2", None), None),
}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_truth_values(text: str | None, value: bool | None) -> None:
    assert parse_bool(text) is value
