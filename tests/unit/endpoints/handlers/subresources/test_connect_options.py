"""The options of logs that depend on a feature gate.

Source: k8s.io/kubernetes, pkg/apis/core/validation, ValidatePodLogOptions.
"""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.endpoints.handlers.subresources.connect_options import read_log_options
from apiserver.meta.errors import Invalid
from apiserver.meta.vocabulary import Query

STREAMS: Final[dict[str, tuple[Query, str]]] = {
    "none is all": ({}, "All"),
    "all": ({"stream": ["All"]}, "All"),
    "one": ({"stream": ["Stderr"]}, "Stderr"),
    "all, from the end": ({"stream": ["All"], "tailLines": ["1"]}, "All"),
}


@pytest.mark.parametrize(("query", "stream"), STREAMS.values(), ids=STREAMS)
def test_streams_of_a_log(query: Query, stream: str) -> None:
    assert read_log_options(query, "p", splits_streams=True)["stream"] == stream


NO_STREAMS: Final[dict[str, tuple[Query, bool, list[str]]]] = {
    "the gate is off": ({"stream": ["All"]}, False, ["stream: Forbidden: may not be specified"]),
    "there is none such": (
        {"stream": ["stdout"]},
        True,
        ['stream: Unsupported value: "stdout": supported values: "All", "Stderr", "Stdout"'],
    ),
    "it has no name": (
        {"stream": [""]},
        True,
        ['stream: Unsupported value: "": supported values: "All", "Stderr", "Stdout"'],
    ),
    "lines of one stream": (
        {"stream": ["Stdout"], "tailLines": ["1"]},
        True,
        ["Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"],
    ),
}


@pytest.mark.parametrize(("query", "is_on", "problems"), NO_STREAMS.values(), ids=NO_STREAMS)
def test_streams_of_a_log_that_are_refused(query: Query, is_on: bool, problems: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        read_log_options(query, "p", splits_streams=is_on)
    for problem in problems:
        assert problem in refused.value.message
