"""`Storage` over an etcd cluster, which any number of servers may share.

- *Calls* (`client`): the messages of `etcd_subset.proto` over one channel to each endpoint, and one more for
  watches. One endpoint is in use; when it fails, or does not respond, the next takes over.
  Calls that do no harm twice are reads, renewals of leases, compactions and writes of the progress key. When
  one has no response after 0.8 s (lists: 5 s), the next endpoint is called, too, until any responds.
  Other writes are repeated only if they certainly were not sent; otherwise OutcomeUnknown is raised. While
  one waits for more than 0.8 s, a read finds an endpoint that responds for the writes that follow.
  A long turn of the event loop alone makes no call late: it is late only if it has no response 0.1 s after
  the turn (`call_timeouts`).
- *Transport*: `rpc` says what a channel offers. `http2_channel` and `http2_connection` are made for this
  client; `grpc_channel` is gRPC's own library, for `--etcd-transport=grpc`, and is kept until the other has
  served for two releases.
- *Reads and writes* (`store`): every write is one transaction with its conditions. Lists are read in pages of
  1,000 keys, all read at the revision of the first. All reads of the current revision that arrive while a
  call for it is in flight share the next call (`coalesced_call`).
- *Watches* (`watch`): on separate connections, whose small window keeps unread data from growing stale. A
  stream ends when etcd loses its leader rather than staying silent. Large responses arrive in fragments and
  are reassembled; a compacted start raises a separate error.
  A watch is given up when etcd was asked for its progress and sends no byte for 0.7 s while the reader waits.
  The next one uses the next endpoint, and another connection. It is also given up, unasked, when its endpoint
  leaves a call without a response that another one then answers, has responded to no other call since, and
  has sent no byte for 0.8 s: so a member that hangs mostly stops reads for 1.1 s, instead of 2 s. gRPC's
  library shows only whole messages: with it, a fragment that takes longer to arrive counts as silence.
- *Notes* of transactions (`notes`): values of a few small keys below the server's prefix, which the
  transaction itself writes, so that every server that shares the cluster gets them.
- *Snapshots* (`snapshot`): etcd's own, taken from a member that a read has made catch up.
- *Progress*: from etcd 3.4.31, 3.5.13 and 3.6 on, a progress report is never ahead of the events before
  it. Older servers get this wrong (503 and 939 events came at or below a revision already reported), so there
  the store writes a separate key, the progress key, and waits for its event in the watch.

Measured with 16 calls in flight and values of 1 KB, the least of 25 rounds: a create takes 35 µs of processor
time and a get 25 µs; with three endpoints, where each read is a task, 35 µs and 34 µs; with gRPC's library
138 µs and 112 µs (etcd3-py, over the JSON gateway, in an earlier measurement: 1,313 µs and 2,445 µs).
"""

from apiserver.storage.etcd.client import EtcdClient
from apiserver.storage.etcd.rpc import Tls
from apiserver.storage.etcd.store import EtcdStore

__all__ = ["EtcdClient", "EtcdStore", "Tls"]
