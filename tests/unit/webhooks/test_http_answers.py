"""How answers over HTTP/1.1 are read: RFC 9112."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.webhooks.http_answers import (
    CHUNKS_MAX,
    HEAD_BYTES_MAX,
    AnswerReader,
    AnswerTooLong,
    MalformedHttpAnswer,
)

BODY_BYTES_MAX: Final = 20


class Read(NamedTuple):
    """What has been read of an answer."""

    status: int
    body: bytes
    keeps_open: bool
    content_type: str = ""
    encoding: str = ""


def read(*pieces: bytes, closes: bool = False, body_bytes_max: int = BODY_BYTES_MAX) -> Read | None:
    """Returns what an answer says; None if it is not complete. closes: the connection is, afterwards."""
    reader = AnswerReader(body_bytes_max)
    for piece in pieces:
        reader.feed(piece)
    if closes:
        reader.feed_eof()
    if not reader.is_complete:
        return None
    return Read(reader.status, reader.body, reader.keeps_open, reader.content_type, reader.encoding)


def answer(*headers: str, status: str = "200 OK", body: bytes = b"", http: str = "1.1") -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/{http} {status}", *headers))
    return head.encode() + b"\r\n" + body


CHUNKED: Final = "Transfer-Encoding: chunked"
ANSWERS: Final[dict[str, tuple[bytes, Read]]] = {
    "a body of a length": (answer("Content-Length: 2", body=b"{}"), Read(200, b"{}", True)),
    "nothing": (answer("Content-Length: 0"), Read(200, b"", True)),
    "another status": (
        answer("Content-Length: 1", status="503 Service Unavailable", body=b"x"),
        Read(503, b"x", True),
    ),
    "no reason": (answer("Content-Length: 0", status="200"), Read(200, b"", True)),
    "a type with a parameter": (
        answer("content-type: Application/JSON; charset=utf-8", "CONTENT-LENGTH:0"),
        Read(200, b"", True, "application/json"),
    ),
    "an encoding": (
        answer("Content-Encoding: GZIP", "Content-Length: 0"),
        Read(200, b"", True, encoding="gzip"),
    ),
    "the last one": (answer("Connection: x, Close", "Content-Length: 0"), Read(200, b"", False)),
    "HTTP/1.0": (answer("Content-Length: 0", http="1.0"), Read(200, b"", False)),
    "the same length twice": (answer(*["Content-Length: 1"] * 2, body=b"x"), Read(200, b"x", True)),
    "a status without a body": (answer("Content-Length: 5", status="204 No Content"), Read(204, b"", True)),
    "interim answers": (
        answer(status="100 Continue") + answer("Link: x", status="103") + answer("Content-Length: 0"),
        Read(200, b"", True),
    ),
    "lines without a carriage return": (b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", Read(200, b"x", True)),
    "chunks": (answer(CHUNKED, body=b"2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n"), Read(200, b"{}abc", True)),
    "chunks with extensions and trailers": (
        answer(CHUNKED, body=b"a;x=y\r\n0123456789\r\n000\r\nA: b\r\nC: d\r\n\r\n"),
        Read(200, b"0123456789", True),
    ),
    "no chunk": (answer(CHUNKED, body=b"0\r\n\r\n"), Read(200, b"", True)),
    "chunks and a length": (
        answer(CHUNKED, "Content-Length: 1", body=b"1\r\nx\r\n0\r\n\r\n"),
        Read(200, b"x", False),
    ),
    "as long as may be": (answer("Content-Length: 20", body=b"x" * 20), Read(200, b"x" * 20, True)),
    "what nobody has asked for follows": (
        answer("Content-Length: 1", body=b"x") + answer("Content-Length: 0"),
        Read(200, b"x", False),
    ),
    "what nobody has asked for follows chunks": (
        answer(CHUNKED, body=b"0\r\n\r\n") + b"x",
        Read(200, b"", False),
    ),
}


@pytest.mark.parametrize(("data", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(data: bytes, expected: Read) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(("data", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_comes_byte_by_byte(data: bytes, expected: Read) -> None:
    assert read(*(data[index : index + 1] for index in range(len(data)))) == expected


@given(st.sampled_from([*ANSWERS.values()]), st.lists(st.integers(0, 200), max_size=5))
def test_the_pieces_in_which_it_comes_do_not_matter(case: tuple[bytes, Read], cuts: list[int]) -> None:
    data, expected = case
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    assert read(*(data[a:b] for a, b in pairwise(places))) == expected


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    data = answer("Content-Type: text/plain", body=b"abc")
    assert read(data) is None
    assert read(data, closes=True) == Read(200, b"abc", False, "text/plain")


INCOMPLETE: Final = {
    "nothing": b"",
    "a part of the head": b"HTTP/1.1 200 OK\r\nContent-Len",
    "a part of the body": answer("Content-Length: 3", body=b"ab"),
    "a part of a chunk": answer(CHUNKED, body=b"3\r\nab"),
    "chunks without the last one": answer(CHUNKED, body=b"2\r\nab\r\n"),
    "trailers without their end": answer(CHUNKED, body=b"0\r\nA: b\r\n"),
    "an interim answer alone": answer(status="100 Continue"),
}


@pytest.mark.parametrize("data", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_answer_that_is_cut_off(data: bytes) -> None:
    assert read(data, closes=True) is None


MALFORMED: Final = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000\r\n\r\n",
    "a header without a colon": answer("Content-Length 5"),
    "a space before the colon": answer("Content-Length : 5"),
    "a header that goes on in the next line": answer("A: b", " c"),
    "a header without a name": answer(": b"),
    "a zero in a value": answer("A: \0"),
    "a length that is none": answer("Content-Length: +5"),
    "an empty length": answer("Content-Length:"),
    "a length in digits of another script": answer("Content-Length: ٣"),
    "two lengths": answer("Content-Length: 1", "Content-Length: 2", body=b"ab"),
    "two lengths in one": answer("Content-Length: 1, 1", body=b"a"),
    "another encoding": answer("Transfer-Encoding: gzip, chunked"),
    "an encoding twice": answer(CHUNKED, CHUNKED),
    "a switch of protocols": answer("Upgrade: x", status="101 Switching Protocols"),
    "a chunk without a size": answer(CHUNKED, body=b"\r\nab\r\n"),
    "a size with a sign": answer(CHUNKED, body=b"+2\r\nab\r\n"),
    "a size of nine digits": answer(CHUNKED, body=b"100000000\r\n"),
    "a chunk longer than it says": answer(CHUNKED, body=b"1\r\nab\r\n"),
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX,
    "a line without end": b"H" * (HEAD_BYTES_MAX + 1),
    "interim answers without end": answer(status="100") * (HEAD_BYTES_MAX // 16 + 1),
    "an extension without end": answer(CHUNKED, body=b"1;" + b"x" * 2_000),
    "trailers without end": answer(CHUNKED, body=b"0\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX),
    "more chunks than anybody needs": answer(CHUNKED, body=b"1\r\nx\r\n" * (CHUNKS_MAX + 1)),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(MalformedHttpAnswer):
        read(data, body_bytes_max=2 * CHUNKS_MAX)


TOO_LONG: Final = {
    "by its length": answer("Content-Length: 21"),
    "by a length of many digits": answer("Content-Length: 999999999999999999"),
    "by its chunks": answer(CHUNKED, body=b"a\r\n0123456789\r\nb\r\n"),
    "until the connection closes": answer(body=b"x" * 21),
}


@pytest.mark.parametrize("data", TOO_LONG.values(), ids=TOO_LONG)
def test_a_body_that_is_too_long(data: bytes) -> None:
    with pytest.raises(AnswerTooLong, match="the response is longer than 20 bytes"):
        read(data)


@given(st.binary(max_size=60), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", answer(CHUNKED)]))
def test_whatever_comes_is_read_or_refused(data: bytes, before: bytes) -> None:
    try:
        found = read(before + data, closes=True)
    except (MalformedHttpAnswer, AnswerTooLong):
        return
    assert found is None or (100 <= found.status <= 999 and len(found.body) <= BODY_BYTES_MAX)
