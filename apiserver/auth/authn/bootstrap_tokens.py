"""Authenticates by bootstrap tokens, with which new nodes join a cluster: `<id>.<secret>`.

A token is valid while a Secret of the type `bootstrap.kubernetes.io/token` in `kube-system` has it, which is
called `bootstrap-token-<id>`. It is looked up for each request, since it may expire at any moment; failed
attempts are not cached.

Source: k8s.io/kubernetes, plugin/pkg/auth/authenticator/token/bootstrap; k8s.io/cluster-bootstrap, token/api
and util/secrets.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authn.service_account import ObjectGetter
from apiserver.meta.timestamps import from_text
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
NAME_PREFIX: Final = "bootstrap-token-"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105  a type
USER_PREFIX: Final = "system:bootstrap:"
GROUP: Final = "system:bootstrappers"
_parts = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})").fullmatch
_is_group = re.compile(rf"{GROUP}:[a-z0-9:-]{{0,255}}[a-z0-9]").fullmatch


class BootstrapTokenAuthenticator:
    """Authenticates by bootstrap tokens.

    get: gets Secrets. audiences: those of this server, which all these tokens have.
    clock: seconds since 1970.
    """

    def __init__(self, get: ObjectGetter, audiences: Sequence[str], clock: Callable[[], float]) -> None:
        self._get, self._audiences, self._clock = get, tuple(audiences), clock

    async def __call__(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Returns the user of a token; None if it is not a valid bootstrap token, as another authenticator
        may know it.
        """
        shared = tuple(each for each in audiences if each in self._audiences)
        found = _parts(token)
        if found is None or not shared:
            return None
        token_id, secret_part = found.groups()
        name = NAME_PREFIX + token_id
        secret = await self._get("secrets", NAMESPACE, name, False)
        if secret is None:
            return None
        groups = groups_of(secret)
        if why := _problem_of(secret, token_id, secret_part, self._clock()) or ("" if groups else _NO_GROUPS):
            log.debug("the bootstrap token in the secret %s/%s is not valid: %s", NAMESPACE, name, why)
            return None
        return Identity(UserInfo(USER_PREFIX + token_id, (*groups, AUTHENTICATED)), shared)


_NO_GROUPS: Final = "auth-extra-groups contains a group that is not valid for bootstrap tokens"


def _problem_of(secret: Document, token_id: str, secret_part: str, now: float) -> str:
    """Returns why a token is not valid; empty if it is."""
    if "deletionTimestamp" in secret["metadata"]:
        return "the secret is being deleted"
    if secret.get("type") != SECRET_TYPE:
        return f"the type of the secret is not {SECRET_TYPE}"
    if not hmac.compare_digest(_data(secret, "token-secret"), secret_part.encode()):
        return "token-secret does not match"
    if _data(secret, "token-id") != token_id.encode():
        return "token-id does not match"
    if expiration := _data(secret, "expiration"):
        expires_at = from_text(expiration.decode("utf-8", "replace"))
        if expires_at is None or expires_at <= now:
            return "the token has expired, or its expiration is not a valid time"
    if _data(secret, "usage-bootstrap-authentication") != b"true":
        return "usage-bootstrap-authentication is not true"
    return ""


def groups_of(secret: Document) -> tuple[str, ...]:
    """Returns the groups of a token's user, in order; none if one of them is not for bootstrappers."""
    extra = _data(secret, "auth-extra-groups").decode("utf-8", "replace")
    groups = extra.split(",") if extra else []
    return tuple(sorted({GROUP, *groups})) if all(map(_is_group, groups)) else ()


def _data(secret: Document, key: str) -> bytes:
    """Returns a value of a Secret; empty if it is missing or damaged."""
    encoded = (secret.get("data") or {}).get(key)
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except ValueError:
        return b""
