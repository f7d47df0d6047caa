"""Exits with code 0 if a server is healthy, and with code 1 otherwise. The image does not contain curl.

healthcheck.py [URL]     the default URL is https://127.0.0.1:6443/livez
"""

from __future__ import annotations

import http.client
import ssl
import sys
from urllib.parse import urlsplit

# After 4 seconds, the server reports the checks that did not finish.
TIMEOUT_S = 5.0


def main(url: str = "https://127.0.0.1:6443/livez") -> int:
    where = urlsplit(url)
    # The script connects to its own machine and sends no secrets, so it does not verify the certificate.
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
