"""Texts in objects: quantities, durations, times, schedules, addresses, URLs, formats, PEM, JSON paths."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import orjson

from apiserver.catalogue.batch.cron_schedules import InvalidSchedule, check_schedule
from apiserver.cel.library import semver as semver_library
from apiserver.cel.library.named_formats import FORMATS
from apiserver.custom_resources.schemas import formats as custom_formats
from apiserver.custom_resources.serving.json_path import InvalidJsonPath, compile_path
from apiserver.golang import addresses as go_addresses
from apiserver.golang import urls as go_urls
from apiserver.golang.durations import parse_duration
from apiserver.golang.pem import NoCertificate, bundle_certificates, pem_blocks
from apiserver.golang.quoting import go_quote
from apiserver.meta import names, timestamps
from apiserver.meta.quantity import InvalidQuantity, canonical_quantity, parse_quantity
from tests.fuzz.target import fuzzer


def _text(data: bytes) -> str:
    """Any text that JSON can hold."""
    return data.decode("utf-8", "replace")


@fuzzer(
    b"1500m",
    b"1Gi",
    b"1.5e3",
    b"-0.1n",
    b"12E6",
    b"1e-30",
    b"9e999",
    b".5Ki",
    b"+1",
    b"1E",
    words=b"n u m k Ki Mi E e - + .",
)
def quantities(data: bytes) -> None:
    """A quantity in canonical form is the same, and in canonical form."""
    try:
        canonical = canonical_quantity(_text(data))
    except InvalidQuantity:
        return
    assert parse_quantity(canonical) == parse_quantity(canonical_quantity(canonical))
    quantity = parse_quantity(_text(data))
    assert isinstance(quantity.rounded_up(), int)
    assert quantity.is_whole in (True, False)


@fuzzer(
    b"2024-05-06T07:08:09Z",
    b"2024-02-30T25:61:61+99:99",
    b"9999-12-31T23:59:60.999999999-23:59",
    b"1h30m5.5s",
    b"0",
    b"1e3s",
)
def times(data: bytes) -> None:
    """Times and durations. What is read of a time can be written and read again."""
    text = _text(data)
    moment = timestamps.from_text(text)
    if moment is not None and moment >= 0:
        again = timestamps.from_text(timestamps.to_text(moment))
        assert again == int(moment)
    try:
        assert parse_duration(text) >= 0
    except ValueError:
        return


@fuzzer(
    b"*/5 0-6,8 1 jan-dec mon",
    b"@every 1h5m",
    b"@daily",
    b"TZ=Europe/Berlin 0 0 * * *",
    b"CRON_TZ=.. * * * * ?",
    words=b"* / - , ? @every @yearly TZ= CRON_TZ= jan sun 59 60",
)
def schedules(data: bytes) -> None:
    try:
        check_schedule(_text(data))
    except InvalidSchedule as error:
        str(error).encode()


@fuzzer(
    b"10.0.0.1",
    b"10.0.0.0/8",
    b"::1",
    b"fe80::1%eth0",
    b"::ffff:1.2.3.4/96",
    b"1.2.3.256",
    b"01.2.3.4",
    b"2001:db8::/129",
    words=b". : :: / % ffff 0",
)
def addresses(data: bytes) -> None:
    """Without a zone, what is an address is one for the standard library, too, and the same."""
    text = _text(data)
    try:
        found = go_addresses.parse_address(text)
    except go_addresses.InvalidAddress:
        found = None
    if found is None or not found.zone:
        try:
            expected = ipaddress.ip_address(text)
        except ValueError:
            assert found is None
        else:
            assert "%" in text or (found is not None and found.number == int(expected))
    try:
        address, length = go_addresses.parse_prefix(text)
    except go_addresses.InvalidAddress:
        return
    assert 0 <= length <= address.bits


@fuzzer(
    b"https://u:p@h:443/a%20b?c=d&e;f#g",
    b"http://[::1%25z]:8/",
    b"//h/p",
    b"mailto:a@b",
    b"/a?b",
    b"http://h:99999/%zz",
    words=b":// % [ ] @ ? # & ; %2F ..",
)
def urls(data: bytes) -> None:
    """The escaped path of a URL has the same path."""
    text = _text(data)
    go_urls.is_request_uri(text)
    for parse in (go_urls.parse, go_urls.parse_request_uri):
        try:
            url = parse(text)
        except go_urls.InvalidUrl as error:
            str(error).encode()
            continue
        assert isinstance(url.hostname + url.port, str)
        orjson.dumps(url.queries)
        if url.escaped_path.startswith("/") and not url.path.startswith(b"//"):
            assert go_urls.parse_request_uri(url.escaped_path).path == url.path


@fuzzer(
    b"2024-05-06",
    b"a.example.com",
    b"a@b.c",
    b"978-3-16-148410-0",
    b"4111 1111 1111 1111",
    b"123e4567-e89b-12d3-a456-426614174000",
    b"#fff",
    b"rgb(1,2,3)",
    b"01:23:45:67:89:ab",
    b"1 week",
    b"AAEC",
    b"1.2.3-rc.1+b",
)
def formats(data: bytes) -> None:
    """All formats that schemas and expressions have, names and versions."""
    text = _text(data)
    for name in _FORMAT_NAMES:
        check = custom_formats.format_of("string", name)
        assert check is not None
        check(text)
    for each in FORMATS.values():
        assert all(isinstance(problem, str) for problem in each.validate(text))
    for rule in (
        names.dns_label,
        names.dns_subdomain,
        names.qualified_name,
        names.label_value,
        names.path_segment,
    ):
        assert all(isinstance(problem, str) for problem in rule(text))
    semver_library._is_semver(text, True)
    go_quote(text).encode()


_FORMAT_NAMES: Final = (
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date"),
    *("duration", "datetime", "quantity", "k8s-short-name", "k8s-long-name"),
)


@fuzzer(
    b"-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n",
    b"x\n-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n\nAAEC\n-----END A-----\n-----BEGIN "
    b"B-----\n-----END B-----",
    words=b"-----BEGIN -----END CERTIFICATE----- REQUEST ----- : =",
)
def pem(data: bytes) -> None:
    for block in pem_blocks(data):
        block.label.encode()
    try:
        assert bundle_certificates(data)
    except NoCertificate as error:
        str(error).encode()


_DOCUMENT: Final[Any] = {
    "metadata": {"name": "a", "labels": {"x.y/z": "v"}},
    "spec": {"list": [{"n": 1, "s": "t"}, {"n": 2.5}, None, []], "deep": {"a": {"b": {"c": True}}}},
}


@fuzzer(
    b".metadata.name",
    b".spec.list[0].n",
    b".spec.list[?(@.n>1)].s",
    b"..c",
    b".spec['list'][-1:0:-1]",
    b".metadata.labels.x\\.y/z",
    b".spec.list[*]['n','s']",
    b".spec.list[0,1:3].n",
    b"$..*..*",
    words=b".. . [ ] * ? ( ) @ $ ' \" == != < > <= >= : , \\. [*] [?(@.",
)
def json_paths(data: bytes) -> None:
    """A path finds values of the document, within its budget."""
    try:
        find = compile_path(_text(data))
    except InvalidJsonPath as error:
        str(error).encode()
        return
    for value in find(_DOCUMENT):
        orjson.dumps(value)
