"""Authenticates the extensions of a server by tokens that are derived from its service account key.

A token is `extension-<name>.<HMAC-SHA256 of the name>`. All servers of a cluster have the same key, and so
accept each other's tokens. A token is valid as long as the key is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from apiserver.auth.authn.chain import Identity, authenticated
from apiserver.meta.vocabulary import SYSTEM_MASTERS

if TYPE_CHECKING:
    from apiserver.auth.authn.service_account_keys import PrivateKey

USER_PREFIX: Final = "system:extension:"
GROUP: Final = "system:extensions"
# What is signed begins with it, so that it is nothing else that the key signs.
_CONTEXT: Final = b"extension token of "
_parts = re.compile(r"extension-([a-z0-9][-a-z0-9]*)\.([0-9a-f]{64})").fullmatch


class ExtensionTokens:
    """Issues and authenticates the tokens of extensions.

    key: that of service account tokens. audiences: those of this server, which all these tokens have.
    """

    def __init__(self, key: PrivateKey, audiences: Sequence[str]) -> None:
        # Few servers have extensions, and only these read the key when they start.
        from apiserver.auth.authn.service_account_keys import private_der

        self._key = hashlib.sha256(_CONTEXT + private_der(key)).digest()
        self._audiences = tuple(audiences)

    def issue(self, name: str) -> str:
        """Returns the token of an extension."""
        return f"extension-{name}.{self._code(name)}"

    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Returns the user of a token; None if it is not one of an extension."""
        found = _parts(token)
        shared = tuple(each for each in audiences if each in self._audiences)
        if found is None or not shared:
            return None
        name, code = found.groups()
        if not hmac.compare_digest(code, self._code(name)):
            return None
        return Identity(authenticated(f"{USER_PREFIX}{name}", (SYSTEM_MASTERS, GROUP)), shared)

    def _code(self, name: str) -> str:
        return hmac.new(self._key, _CONTEXT + name.encode(), hashlib.sha256).hexdigest()
