"""The graph of owners and their dependents. Pure.

An owner is identified by the key under which it is, or would be, stored, and by its uid: an owner reference
means at most one object, whether that exists or not. Dependents are identified by their keys alone.

Only objects that have owners, and these owners, are in the graph, and of each no more than its key: a million
objects without owners cost nothing. Other properties of objects are read from the watch cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple


class _Keys:
    """A set of keys that allocates nothing while it has only one."""

    __slots__ = ("_all", "_one")

    def __init__(self) -> None:
        self._one: str | None = None
        self._all: set[str] | None = None

    def add(self, key: str) -> None:
        if self._all is not None:
            self._all.add(key)
        elif self._one is None:
            self._one = key
        elif self._one != key:
            self._all, self._one = {self._one, key}, None

    def discard(self, key: str) -> None:
        if self._all is not None:
            self._all.discard(key)
        elif self._one == key:
            self._one = None

    def __contains__(self, key: object) -> bool:
        return key in self._all if self._all is not None else key is not None and key == self._one

    def __len__(self) -> int:
        return len(self._all) if self._all is not None else int(self._one is not None)

    def __iter__(self) -> Iterator[str]:
        if self._all is not None:
            return iter(self._all)
        return iter((self._one,) if self._one is not None else ())


class Link(_Keys):
    """The dependents that name an owner in the same way, or one dependent's way to name it.

    blocks: whether the owner must not be removed before them.
    """

    __slots__ = ("blocks", "owner")

    def __init__(self, owner: Owner, *, blocks: bool) -> None:
        super().__init__()
        self.owner = owner
        self.blocks = blocks


class Owner:
    """An owner that some object names, in the graph as long as one does.

    key: where it is, or would be, stored. uid: the one in references.
    is_absent: whether no object with this uid is, or ever will be, stored there, as uids are unique. So this
        also remembers absent owners, until their last dependent is gone.
    """

    __slots__ = ("_blocking", "_others", "is_absent", "key", "uid")

    def __init__(self, key: str, uid: str) -> None:
        self.key = key
        self.uid = uid
        self.is_absent = False
        self._blocking: Link | None = None
        self._others: Link | None = None

    @property
    def blocking(self) -> Collection[str]:
        """The keys of the dependents that the owner must not be removed before."""
        return self._blocking if self._blocking is not None else ()

    @property
    def dependents(self) -> Sequence[str]:
        """The current keys of all dependents."""
        return [key for link in (self._blocking, self._others) if link is not None for key in link]

    @property
    def has_dependents(self) -> bool:
        return bool(self._blocking) or bool(self._others)

    def link(self, *, blocks: bool) -> Link:
        if blocks:
            if self._blocking is None:
                self._blocking = Link(self, blocks=True)
            return self._blocking
        if self._others is None:
            self._others = Link(self, blocks=False)
        return self._others

    def __str__(self) -> str:
        return f"{self.key} (uid {self.uid})"


class OwnerIdentity(NamedTuple):
    """An owner as a dependent names it."""

    key: str
    uid: str
    blocks: bool


class Changes(NamedTuple):
    """The changes in the graph by the owners of one dependent.

    new: owners that no object named before. names_absent: whether it newly names an owner that is known to be
    absent. unblocked: owners that have lost their last dependent, or the last blocking one.
    """

    new: Sequence[Owner]
    names_absent: bool
    unblocked: Sequence[Owner]


# One link stands for itself: nearly all dependents have one owner. Where one was added alone it is a dict.
_Links = Link | tuple[Link, ...] | dict[Link, None]


class Graph:
    """The owners and their dependents."""

    def __init__(self) -> None:
        # Under one key there is nearly always one uid.
        self._owners: dict[str, Owner | dict[str, Owner]] = {}
        self._links: dict[str, _Links] = {}

    # ---- questions

    def is_owner(self, key: str) -> bool:
        """Returns whether any object names an owner with this key, with any uid."""
        return key in self._owners

    def is_dependent(self, key: str) -> bool:
        return key in self._links

    def owner(self, key: str, uid: str) -> Owner | None:
        found = self._owners.get(key)
        if isinstance(found, dict):
            return found.get(uid)
        return found if found is not None and found.uid == uid else None

    def owners(self) -> list[Owner]:
        """Returns all current owners."""
        every: list[Owner] = []
        for each in self._owners.values():
            if isinstance(each, dict):
                every += each.values()
            else:
                every.append(each)
        return every

    def dependents(self) -> list[str]:
        """Returns the keys of all objects that currently have owners."""
        return list(self._links)

    def links(self, key: str) -> tuple[Link, ...]:
        """Returns the links of an object to its owners."""
        found = self._links.get(key, ())
        if isinstance(found, tuple):
            return found
        return (found,) if isinstance(found, Link) else tuple(found)

    def count_links(self, key: str) -> int:
        """Returns the number of owners that an object names."""
        found = self._links.get(key, ())
        return 1 if isinstance(found, Link) else len(found)

    # ---- changes

    def replace(self, key: str, names: Iterable[OwnerIdentity]) -> Changes | None:
        """Note the current owners of an object, none if it is deleted; returns None if they are unchanged."""
        before = self.links(key)
        wanted = {(each.key, each.uid, each.blocks): None for each in names}
        if wanted.keys() == {(each.owner.key, each.owner.uid, each.blocks) for each in before}:
            return None
        new: list[Owner] = []
        now: dict[Link, None] = {}
        for owner_key, uid, blocks in wanted:
            owner = self.owner(owner_key, uid)
            if owner is None:
                owner = self._add(owner_key, uid)
                new.append(owner)
            link = owner.link(blocks=blocks)
            link.add(key)
            now[link] = None
        gone = [link for link in before if link not in now]
        for link in gone:
            link.discard(key)
        if now:
            self._links[key] = next(iter(now)) if len(now) == 1 else tuple(now)
        else:
            self._links.pop(key, None)
        unblocked = {link.owner: None for link in gone if not link}
        for owner in unblocked:
            if not owner.has_dependents:
                self._remove(owner)
        names_absent = any(link.owner.is_absent for link in now.keys() - before)
        return Changes(new, names_absent, list(unblocked))

    def add(self, key: str, name: OwnerIdentity) -> Changes | None:
        """Note one more owner of an object; returns None if it was known. See `replace`."""
        owner = self.owner(name.key, name.uid)
        new = [] if owner is not None else [owner := self._add(name.key, name.uid)]
        assert owner is not None
        link, links = owner.link(blocks=name.blocks), self._separate_links(key)
        if link in links:
            return None
        link.add(key)
        links[link] = None
        return Changes(new, owner.is_absent, ())

    def discard(self, key: str, name: OwnerIdentity) -> Changes | None:
        """Note that an object no longer names an owner; returns None if it did not. See `replace`."""
        owner = self.owner(name.key, name.uid)
        if owner is None or key not in self._links:
            return None
        link, links = owner.link(blocks=name.blocks), self._separate_links(key)
        if link not in links:
            return None
        link.discard(key)
        del links[link]
        if not links:
            del self._links[key]
        if link:
            return Changes((), False, ())
        if not owner.has_dependents:
            self._remove(owner)
        return Changes((), False, [owner])

    def _separate_links(self, key: str) -> dict[Link, None]:
        found = self._links.get(key)
        if not isinstance(found, dict):
            found = self._links[key] = dict.fromkeys(self.links(key))
        return found

    def _add(self, key: str, uid: str) -> Owner:
        owner = Owner(key, uid)
        found = self._owners.get(key)
        if found is None:
            self._owners[key] = owner
        elif isinstance(found, dict):
            found[uid] = owner
        else:
            self._owners[key] = {found.uid: found, uid: owner}
        return owner

    def _remove(self, owner: Owner) -> None:
        found = self._owners.get(owner.key)
        if not isinstance(found, dict):
            del self._owners[owner.key]
            return
        del found[owner.uid]
        if not found:
            del self._owners[owner.key]
