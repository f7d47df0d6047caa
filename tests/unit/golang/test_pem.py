"""PEM, as Go's encoding/pem reads it."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.golang.pem import NoCertificate, PemBlock, bundle_certificates, pem_blocks

A: Final = b"-----BEGIN A-----\neA==\n-----END A-----\n"
B: Final = b"-----BEGIN B-----\neQ==\n-----END B-----\n"

BLOCKS: Final = {
    "one block": (A, ["A=x"]),
    "several blocks": (A + B, ["A=x", "B=y"]),
    "text before, between and after them": ("für:\n".encode() + A + b"and\n\n" + B + b"end", ["A=x", "B=y"]),
    "lines that end as on Windows": ((A + B).replace(b"\n", b"\r\n"), ["A=x", "B=y"]),
    "no line end after the last": (A.rstrip(), ["A=x"]),
    "spaces and tabs at the ends of lines and in the content": (
        b"-----BEGIN A----- \t\ne A\t==\n-----END A-----  \n",
        ["A=x"],
    ),
    "an empty block": (b"-----BEGIN A-----\n-----END A-----\n", ["A="]),
    "headers": (
        b"-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nkey: b\n\neA==\n-----END A-----\n",
        ["A=x with headers"],
    ),
    "a block must begin a line": (b" " + A, []),
    "a block without an end": (b"-----BEGIN A-----\neA==\n" + B, ["B=y"]),
    "an end of another label": (b"-----BEGIN A-----\neA==\n-----END B-----\n" + B, ["B=y"]),
    "content that is not base64": (b"-----BEGIN A-----\n!\n-----END A-----\n" + B, ["B=y"]),
    "nothing": (b"", []),
}


def shown(block: PemBlock) -> str:
    return f"{block.label}={block.content.decode()}{' with headers' if block.has_headers else ''}"


@pytest.mark.parametrize(("data", "blocks"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(data: bytes, blocks: list[str]) -> None:
    assert [shown(block) for block in pem_blocks(data)] == blocks


@given(st.lists(st.sampled_from([A, B, b"-----BEGIN A-----\n", b"-----END A-----", b"\r\n", b"a:", b"\xff"])))
def test_any_data_is_read(pieces: list[bytes]) -> None:
    found = {shown(block).removesuffix(" with headers") for block in pem_blocks(b"".join(pieces))}
    assert found <= {"A=x", "B=y", "A="}


WITHOUT_CERTIFICATES: Final = {
    "nothing": (b"", "unable to parse bytes as PEM block"),
    "other text": (b"nonsense", "unable to parse bytes as PEM block"),
    "only other blocks": (A, "unable to parse bytes as PEM block"),
    "a certificate with headers": (
        b"-----BEGIN CERTIFICATE-----\nkey: b\n\neA==\n-----END CERTIFICATE-----\n",
        "unable to parse bytes as PEM block",
    ),
    "a certificate that cannot be read": (A.replace(b"A-", b"CERTIFICATE-"), "failed to parse certificate: "),
}


@pytest.mark.parametrize(("bundle", "problem"), WITHOUT_CERTIFICATES.values(), ids=WITHOUT_CERTIFICATES)
def test_bundles_without_certificates(bundle: bytes, problem: str) -> None:
    with pytest.raises(NoCertificate, match=f"^{problem}"):
        bundle_certificates(bundle)
