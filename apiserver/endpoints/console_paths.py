"""The paths of the console, by what a request for them needs.

The console itself (`apiserver.console`) is imported when the first request for it comes.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "/console/"
# For everybody, as are the files of the pages.
CONFIG: Final = "/console/config"
SESSION: Final = "/console/session"
# The WebSocket that carries many watches: see `apiserver.console.watches`.
WATCHES: Final = "/console/watches"
LOGIN_CODES: Final = "/console/login-codes"
# What clients ask of the server beside the API: see `apiserver.console.playground` and `.who_can`.
CEL: Final = "/console/cel"
WHO_CAN: Final = "/console/who-can"

# For users, who need no right.
OF_USERS: Final = frozenset({WATCHES, LOGIN_CODES})
# For users; limited and authorized as requests for the API are.
ROUTED: Final = frozenset({CEL, WHO_CAN})
