"""Exits with 0 if a server is healthy, else with 1. The image has no curl.

healthcheck.py [URL]     the URL is https://127.0.0.1:6443/livez if none is given
"""

from __future__ import annotations

import http.client
import ssl
import sys
from urllib.parse import urlsplit

# The server gives its checks 4 seconds, and then reports which one hangs.
TIMEOUT_S = 5.0


def main(url: str = "https://127.0.0.1:6443/livez") -> int:
    where = urlsplit(url)
    # It connects to its own machine and sends no secrets, so the certificate need not be verified.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(where.netloc, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("GET", f"{where.path}?verbose")
        answer = connection.getresponse()
        print(answer.read().decode())
    except (OSError, http.client.HTTPException) as error:
        print(f"{url}: {error}")
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
