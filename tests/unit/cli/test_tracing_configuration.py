"""The file of `--tracing-config-file`, in kube-apiserver's form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from apiserver.cli.tracing_configuration import TracingConfiguration, parse_tracing_configuration
from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import InvalidConfiguration

PAGE: Final = Path(__file__).parents[3] / "docs/operating/traces.md"
HEAD: Final = b"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HEAD, TracingConfiguration("localhost:4317", 0)),
        (HEAD + b"samplingRatePerMillion: 100", TracingConfiguration("localhost:4317", 100)),
        (
            HEAD.replace(b"/v1", b"/v1beta1") + b"endpoint: collector:4317\nsamplingRatePerMillion: 1000000",
            TracingConfiguration("collector:4317", 1_000_000),
        ),
    ],
)
def test_files_are_read(content: bytes, expected: TracingConfiguration) -> None:
    assert parse_tracing_configuration(content, Brand()) == expected


def test_the_documented_file_is_read() -> None:
    found = re.search(r"```yaml\n(# tracing\.yaml.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    expected = TracingConfiguration("otel-collector:4317", 10_000)
    assert parse_tracing_configuration(found[1].encode(), Brand()) == expected


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "expected an object"),
        (HEAD.replace(b"/v1", b"/v2"), 'kind "TracingConfiguration" of version'),
        (HEAD + b"samplingRatePerMillion: 1000001", "samplingRatePerMillion: 1000001 is not between 0 and"),
        (HEAD + b"samplingRatePerMillion: -1", "samplingRatePerMillion: -1 is not between"),
        (HEAD + b"samplingRatePerMillion: true", "samplingRatePerMillion: expected an integer"),
        (HEAD + b"endpoint: ''", "endpoint: '' is not an address"),
        (HEAD + b"endpoint: 'a b'", "endpoint: 'a b' is not an address"),
        (HEAD + b"endpoint: 5", "endpoint: expected a string"),
        (HEAD + b"sampling: 5", 'unknown field "sampling"'),
    ],
)
def test_mistakes_are_reported_with_their_field(content: bytes, error: str) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        parse_tracing_configuration(content, Brand())
    assert error in str(raised.value)
