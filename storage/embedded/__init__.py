"""`Storage` in this process, over one SQLite file: nothing else to install, start or look after.

What it guarantees, and how:

- *An answered write survives power loss.* WAL with `synchronous=FULL`: a commit returns after its fsync.
  (`NORMAL` is 2.5 times faster for a lone writer, but could roll back after a power cut and then hand the
  same revision out a second time.)
- *Many writers share one fsync.* One thread owns the writing connection and commits whatever has queued
  while the last commit was under way (`writer`). At 32 writers this gives 18-24 thousand puts a second on
  two cores, ten times the rate of single commits.
- *Readers never wait for writers.* They have connections of their own and see the last commit (`store`).
  WAL gives each read transaction one consistent state; the compacted revision is checked inside it.
- *A watch misses nothing.* It reads history from the file until it has caught up, then takes batches as
  they are committed; one that falls behind its bound goes back to the file (`watch`).
- *The file does not grow without end.* Compaction first says which revision is the oldest readable, then
  deletes in small transactions that writers can pass between, and gives pages back (`compaction`).
- *The log is emptied above a bound* (`writer`), as SQLite's own checkpoints never run while reads overlap;
  for that moment reads wait, too (`gate`).
- *A copy can be taken at any time*, by another process and at one revision; one that is brought back goes on
  with higher revisions (`snapshot`).
- *One process at a time.* An exclusive lock on a file beside the database, released by the kernel however
  the process ends (`database`).

Revisions come from a counter in the file that moves with every commit, not from the newest row: rows can
be compacted away, revisions must never come twice.

What it leaves out: several processes on one file (that is what etcd is for), and any cache of values: the
watch cache in front does that for every store alike.
"""

from storage.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
