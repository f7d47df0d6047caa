"""What a start learns of keys and certificates, so that nothing has to look into them later."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from apiserver.app.serving.server_keys import ServerKeys, make_server_keys, renew_certificates
from apiserver.app.serving.serving_tls import UnusableTls
from apiserver.cli.command_line import parse
from apiserver.cli.config import Config
from apiserver.controllers.authentication_info import certificate_blocks

DAY_S: Final = 24 * 3600.0


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return parse([f"--data-dir={tmp_path}"])


@pytest.fixture
def keys(config: Config) -> ServerKeys:
    return make_server_keys(config, None)


def test_the_expirations_are_known_of_what_controllers_look_at(keys: ServerKeys) -> None:
    content = keys.tls.content
    blocks = certificate_blocks((content.all_client_cas + content.front_proxy_cas).decode())
    assert len(blocks) == 2
    assert {each.encode() for each in blocks} < set(keys.expirations)
    assert keys.certificates.front_proxy_cert.read_bytes() in keys.expirations


def test_other_certificates_are_looked_into(keys: ServerKeys) -> None:
    pem = keys.certificates.admin_cert.read_bytes()
    assert pem not in keys.expirations
    assert keys.expires_at("the administrator", pem) > time.time() + 300 * DAY_S
    with pytest.raises(UnusableTls, match="it: a certificate is missing or invalid"):
        keys.expires_at("it", b"none")


# ---- renewal


SPOILED: Final[dict[str, Callable[[ServerKeys], object]]] = {
    "a certificate is missing": lambda keys: keys.certificates.serving_cert.unlink(),
    "a key is another": lambda keys: keys.certificates.admin_key.write_bytes(keys.tokens.signing),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_files_that_have_changed_are_looked_into(
    config: Config, keys: ServerKeys, spoil: Callable[[ServerKeys], object]
) -> None:
    assert keys.own.are_good_at(time.time())
    assert not renew_certificates(config, keys.own)
    spoil(keys)
    assert not keys.own.are_good_at(time.time())
    assert renew_certificates(config, keys.own)


def test_files_that_expire_soon_are_looked_into(keys: ServerKeys) -> None:
    assert keys.own.are_good_at(time.time() + 334 * DAY_S)
    assert not keys.own.are_good_at(time.time() + 336 * DAY_S)
