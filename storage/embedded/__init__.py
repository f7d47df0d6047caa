"""`Storage` in this process, over SQLite, without another program to install, start or operate.

It is one file, or memory of this process (`memory_database`), for tests and other temporary data: the code is
the same, but the first and the last of the following guarantees do not hold there. Several stores in memory
can begin with one copy of another store, which they share.

What it guarantees, and how:

- *An acknowledged write is on disk.* WAL with `synchronous=FULL`: a commit returns after its fsync.
  (`NORMAL` is 2.5 times faster for a lone writer, but could roll back after a power cut and then hand the
  same revision out a second time.)
- *Many writers share one fsync.* One thread owns the writing connection and commits whatever has queued
  while the last commit was under way (`writer`). At 32 writers this gives 18-24 thousand puts a second on
  two cores, ten times the rate of single commits.
- *Readers never wait for writers.* They have their own connections and see the last commit (`reader`). WAL
  gives each read transaction one consistent state; the compacted revision is checked inside it.
- *A watch misses no event.* It reads history from the file until it has caught up, then takes batches as
  they are committed; if too many batches wait for it, it goes back to the file (`watch`).
- *A note costs no further row*: it is a column of the rows that its transaction writes, and compaction
  deletes it with them.
- *The file does not grow without end.* Compaction first sets the oldest readable revision, then deletes in
  small transactions between which others can write, and gives pages back (`compaction`).
- *The write-ahead log is emptied above a bound* (`writer`), as SQLite's own checkpoints never finish while
  reads overlap; for that moment reads wait, too (`checkpoint_lock`).
- *A snapshot can be taken at any time*, by another process and at one revision; a store restored from it
  continues with higher revisions (`snapshot`). Both can be copied to another store (`source`).
- *One process at a time.* An exclusive lock on a file beside the database, released by the kernel however
  the process ends (`database`).

Revisions come from a counter in the file that moves with every commit, not from the newest row: rows can be
compacted away, revisions must never be reused.

What it leaves out: several processes on one file (use etcd for that), and a cache of values: the watch
cache in front does that for every store alike.
"""

from apiserver.storage.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
