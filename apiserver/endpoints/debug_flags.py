"""Serves /debug/flags/v, which sets the log level of the running server.

    PUT /debug/flags/v    the body is a value of --v

Responses are those of kube-apiserver. Source: k8s.io/apiserver, pkg/server/routes/flags.go.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.responses import TEXT, send
from apiserver.meta.errors import NoSuchEndpoint

log = logging.getLogger(__name__)

_VERBOSITY: Final = re.compile(rb"[+-]?[0-9]{1,9}")
_FLAG: Final = "v"


class DebugFlags:
    """Serves /debug/flags. set_verbosity: sets the value of --v."""

    def __init__(self, set_verbosity: Callable[[int], None]) -> None:
        self._set_verbosity = set_verbosity

    async def __call__(self, call: ApiCall, name: str) -> None:
        """Respond to a request. name: what follows /debug/flags/. Raises NoSuchEndpoint."""
        if name != _FLAG:
            raise NoSuchEndpoint
        if call.info.method != "PUT":
            await send(call, 406, b"unsupported http method\n", TEXT)
            return
        text = (await read_body(call)).data
        shown = text[:64].decode(errors="replace")
        if not _VERBOSITY.fullmatch(text):
            reason = f'failed to set klog.logging.verbosity {shown}: parsing "{shown}": invalid syntax\n'
            await send(call, 400, reason.encode(), TEXT)
            return
        self._set_verbosity(int(text))
        log.info("log level set to --v=%d; %s", int(text), call.client)
        await send(call, 200, f"successfully set klog.logging.verbosity to {shown}".encode(), TEXT)
