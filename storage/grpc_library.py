"""gRPC's own library, with the settings that it reads from the environment when it is imported.

Whatever uses it imports it from here, or imports this module first. The server imports it only for KMS
plugins, for traces and with `--etcd-transport=grpc`.
"""

import os

# The resolver that gRPC has by default waits for a DNS server that does not respond, even for names in
# /etc/hosts.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")

import grpc
import grpc.aio

__all__ = ["grpc"]
