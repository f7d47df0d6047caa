"""`apiserver console`: opens the console of a running server, and logs the user in."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.printing import print_error, print_line, print_warning
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.cli.worker_answers import invalid_response
from apiserver.endpoints import console_paths

_ABOUT: Final = """
Opens the console of a running server in the browser. The user in the kubeconfig is logged in: the command
gets a login code from the server, and puts it into the URL. The code works once, within 60 seconds. The
credentials in the kubeconfig do not enter the browser, except a bearer token.

The command also prints the URL. While the browser starts, other users of this machine might see the URL in
the process list. To open the URL yourself, use --no-open.

The command sends POST /console/login-codes, which requires authentication but no permission. The server
serves the console if it has an embedded store, or with --console.
"""
DONE, FAILED = 0, 1
_is_code = re.compile(r"[\w.-]+", re.ASCII).fullmatch


def run(arguments: Sequence[str]) -> int:
    """Open the console for the arguments after `console`. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    url = console_url(ServerOptions.of(given))
    print_line(url)
    if given.no_open or not has_browser(os.environ, sys.platform):
        print_warning("Open this URL in a browser within 60 seconds. It works once.")
    elif not _open(url):
        print_error("no browser could be started: open this URL within 60 seconds")
        return FAILED
    return DONE


def console_url(options: ServerOptions) -> str:
    """Returns the URL that logs a browser in, with a new code. Raises RequestFailed."""
    client = ApiClient(options, "console")
    try:
        code = client.post(console_paths.LOGIN_CODES, {}).get("code")
    except RequestFailed as error:
        # Without a console, the path is one that most users may not use.
        is_forbidden = error.status == HTTPStatus.FORBIDDEN and console_paths.LOGIN_CODES in str(error)
        if error.status == HTTPStatus.NOT_FOUND or is_forbidden:
            raise RequestFailed(
                f"{client.server} does not serve the console: start the server with --console, or upgrade it",
                error.status,
            ) from None
        raise
    finally:
        client.close()
    if not isinstance(code, str) or not _is_code(code):
        raise invalid_response(console_paths.LOGIN_CODES)
    return f"{client.server.rstrip('/')}{console_paths.PREFIX}#code={code}"


def has_browser(environment: Mapping[str, str], platform: str) -> bool:
    """Returns whether a browser can show pages: elsewhere, one in text mode would take the terminal."""
    if platform in ("darwin", "win32"):
        return True
    return any(environment.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def _open(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)


def parser() -> IntermixedParser:
    parser = described_parser("console", _ABOUT)
    parser.add_argument("--no-open", action="store_true", help="Print the URL, and do not start a browser.")
    add_server_options(parser)
    return parser
