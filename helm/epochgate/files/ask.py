"""Asks a URL until something answers, with whatever status; for `helm test`."""

import http.client
import ssl
import sys
import time
from urllib.parse import urlsplit

ATTEMPTS, PAUSE_S, TIMEOUT_S = 20, 3, 5


def ask(url):
    """The status of the answer. A certificate is not looked at: its names are for clients elsewhere."""
    place = urlsplit(url)
    if place.scheme == "https":
        unchecked = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(
            place.hostname, place.port, timeout=TIMEOUT_S, context=unchecked
        )
    else:
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=TIMEOUT_S)
    connection.request("GET", place.path)
    return connection.getresponse().status


for _ in range(ATTEMPTS):
    try:
        print(sys.argv[1], "answered", ask(sys.argv[1]))
        sys.exit(0)
    except ssl.SSLError as error:
        if "CERTIFICATE_REQUIRED" in str(error):
            print(sys.argv[1], "asks for a certificate, so it is there")
            sys.exit(0)
        print(sys.argv[1], repr(error))
    except (OSError, http.client.HTTPException) as error:
        print(sys.argv[1], repr(error))
    time.sleep(PAUSE_S)
sys.exit(1)
