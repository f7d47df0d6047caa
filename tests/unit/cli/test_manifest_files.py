"""The documents in a file: of YAML, and of JSON without markers in between."""

from __future__ import annotations

import itertools
import time
from typing import Final

import pytest

from apiserver.cli.manifest_files import documents_in

FILES: Final[dict[str, tuple[bytes, list[bytes]]]] = {
    "JSON": (b'{"a": 1} {"b": 2}\n{"c": 3}', [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']),
    "JSON with markers": (b'{"a": 1}\n---\n{"b": 2}', [b'{"a": 1}', b'{"b": 2}']),
    "JSON that ends as YAML does": (b'{"a": 1}\n...\n', [b'{"a": 1}\n...\n']),
    "JSON with a comment of YAML": (b'{"a": 1} # one\n', [b'{"a": 1} # one\n']),
    "YAML in braces": (b"{a: 1}", [b"{a: 1}"]),
    "JSON and what is none": (b'{"a": 1} {b: 2}', [b'{"a": 1}', b" {b: 2}"]),
    "YAML": (b"a: 1\n---\n# nothing\n---\nb: 2\n", [b"a: 1\n", b"b: 2\n"]),
    "no text": (b'{"a": "\xff"}', [b'{"a": "\xff"}']),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_documents(content: bytes, expected: list[bytes]) -> None:
    assert list(documents_in(content)) == expected


def test_documents_are_read_one_by_one() -> None:
    """Their number is bounded by whoever reads them."""
    began = time.thread_time()
    assert list(itertools.islice(documents_in(b"{}" * 1_000_000), 3)) == [b"{}"] * 3
    assert time.thread_time() - began < 0.2
