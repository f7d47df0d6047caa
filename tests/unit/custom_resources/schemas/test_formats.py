"""String formats: those of k8s.io/kube-openapi, pkg/validation/strfmt, and of Go's parsers."""

from __future__ import annotations

import time
from typing import Final

import pytest

from apiserver.custom_resources.schemas.formats import format_of, is_recognised

# format: (texts that have it, texts that do not)
FORMATS: Final[dict[str, tuple[list[str], list[str]]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"]),
    "uri": (
        ["http://a.example/x?y#z", "/path", "mailto:a@b", "http://%e9", "https://::1"],
        ["", "path", "/%zz", "http://h:port/", "http://a[>"],
    ),
    "email": (
        ["a@b", "a.b+c@d.example", "Jo Doe <a@b>", '"a b"@c', "ä@ö", "<a@b>", "a@[1.2.3.4]"],
        ["", "a", "a@", "@b", "a@b@c", "a..b@c", "Jo <a@b", "a b@c"],
    ),
    "hostname": (
        ["a", "example.com", "a-b.example", "ä.example", "1.example", "x" * 63],
        ["", "a.b.c-", "-a.example", "a_b", "a.1", "example..com", "x" * 64, "a.b" * 100, "exa mple.com"],
    ),
    "ipv4": (
        ["1.2.3.4", "01.2.003.4", "::ffff:1.2.3.4"],
        ["1.2.3", "256.1.1.1", "::1", "1.2.3.4/8", "", "1.2.3.4\n"],
    ),
    "ipv6": (["::1", "fe80::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0", ":::", ""]),
    "cidr": (
        ["10.0.0.0/8", "010.0.0.1/08", "::/0", "::1/128"],
        ["10.0.0.0", "10.0.0.0/33", "::/129", "/8", "1.2.3.4/-1"],
    ),
    "mac": (
        ["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"],
        ["01:23:45:67:89", "01:23-45:67:89:ab", "0123.4567", ""],
    ),
    "uuid": (["01234567-89ab-cdef-0123-456789ABCDEF", "0123456789abcdef0123456789abcdef"], ["0123", ""]),
    "uuid3": (["01234567-89ab-3def-0123-456789abcdef"], ["01234567-89ab-4def-0123-456789abcdef"]),
    "uuid4": (["01234567-89ab-4def-8123-456789abcdef"], ["01234567-89ab-4def-0123-456789abcdef"]),
    "uuid5": (["01234567-89ab-5def-B123-456789abcdef"], ["01234567-89ab-5def-c123-456789abcdef"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044", "978-0321751042", ""]),
    "isbn10": (["0321751043", "080442957X", "0-8044-2957-X"], ["978-0321751041"]),
    "isbn13": (["978-0321751041", "978 0321751041"], ["0321751043", "9780321751042"]),
    "creditcard": (["4111 1111 1111 1111", "378282246310005"], ["4111 1111 1111 1112", "1", ""]),
    "ssn": (["111-11-1111", "111111111", "111 11 1111"], ["11-111-1111", "111-11-11111"]),
    "hexcolor": (["#FFF", "a0b1c2"], ["#FFFF", "red", ""]),
    "rgbcolor": (["rgb(0,100,255)", "rgb( 1 , 2 , 3 )"], ["rgb(256,1,1)", "rgb(1,1)", "rgba(1,1,1,1)"]),
    "byte": (["aGk=", "aGkh"], ["", "aGk", "a-_="]),
    "password": (["", "any thing"], []),
    "date": (["2024-02-29", "0000-01-01"], ["2023-02-29", "2024-2-9", "2024-02-29T", ""]),
    "datetime": (
        ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
        ["2014-12-15", "2014-12-15 19:30:20Z", "2014-12-15T24:00:00Z", "2014-13-15T19:30:20Z", "T"],
    ),
    "date-time": (["2014-12-15T19:30:20Z"], ["2014-12-15T19:30:60Z", "2014-12-15T19:30:20"]),
    "duration": (
        ["1h30m", "-1.5s", "0", "3 days", "1 week 2 hours", "5µs", "1H"],
        ["", "x", "5", "3 moons", "1" * 30 + " days"],
    ),
    "quantity": (["10Gi", "0.5", "1e3"], ["ten", ""]),
    "k8s-short-name": (["a", "a-1", "x" * 63], ["", "A", "a-", "a.b", "x" * 64]),
    "k8s-long-name": (["a", "a-1.b", "x" * 253], ["", "A", "a..b", ".a", "x" * 254]),
}
CASES: Final = {
    f"{name}: {text[:30]!r} {'fits' if fits else 'does not'}": (name, text, fits)
    for name, (good, bad) in FORMATS.items()
    for texts, fits in ((good, True), (bad, False))
    for text in texts
}


@pytest.mark.parametrize(("name", "text", "fits"), CASES.values(), ids=CASES)
def test_format(name: str, text: str, fits: bool) -> None:
    check = format_of("string", name)
    assert check is not None
    assert bool(check(text)) is fits


def test_which_formats_say_something() -> None:
    for name in FORMATS:
        assert is_recognised("string", name)
        assert is_recognised("", name)
        assert not is_recognised("integer", name)
    assert is_recognised("integer", "int64")
    assert is_recognised("number", "double")
    assert not is_recognised("integer", "uint32")
    assert not is_recognised("string", "zip")
    assert format_of("string", "zip") is None
    assert format_of("integer", "date") is None


@pytest.mark.parametrize("name", FORMATS)
def test_long_texts_take_no_longer_than_they_are(name: str) -> None:
    check = format_of("string", name)
    assert check is not None
    for part in ("1", "a", " ", "-", ".", ":", "(", '"', "<a", "1 ", "a-", "1a ", "%41", "\\"):
        text = part * (300_000 // len(part)) + "!"
        start = time.process_time()
        check(text)
        assert time.process_time() - start < 1, part
