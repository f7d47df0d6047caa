"""Restricts this server to versions that all servers on its store can read."""

from __future__ import annotations

import logging

from apiserver.app.core import Core
from apiserver.custom_resources.serving.definition_controller import DefinitionController
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.registry.served_resource import ServedResource

log = logging.getLogger(__name__)


class ReleaseSharing:
    """Follows the oldest release on the store, and adapts the stored and served versions; see
    `meta.releases.sharing`.

    Types that this release does not have are not served, nor are their stored objects, until the old server
    is gone. All others are served in all versions of this server's release, and stored in a version that both
    have. The server's own objects are written in any case.

    The watch cache keeps what it has, and watches continue: values are converted when they are read, whatever
    version is stored at the time.
    """

    def __init__(self, core: Core, definitions: DefinitionController) -> None:
        self._core, self._definitions = core, definitions
        self._withdrawn: tuple[ServedResource, ...] = ()
        self._builtin = core.served.current.resources

    async def share(self, oldest: EmulatedRelease) -> None:
        """Store and serve only versions that all servers can read. Raises the storage's errors.

        oldest: the oldest release among them, this server's own included.
        """
        core = self._core
        types = core.catalogue.share(oldest)
        core.forms.shared = types.forms
        withdrawn = tuple(each for each in self._builtin if each.stored_group_resource in types.unreadable)
        gone = [each for each in withdrawn if each not in self._withdrawn]
        back = [each for each in self._withdrawn if each not in withdrawn]
        self._withdrawn = withdrawn
        if gone or back:
            core.served.replace(self._definitions.change_builtin(gone, back))
            core.streams.end_all_of(frozenset(gone))
            core.streams.restore_all_of(back)
        log.info(
            "objects are stored for Kubernetes %s, and 1.%d can read them; %d resources are not served",
            oldest,
            oldest.min_compatible,
            len(withdrawn),
        )
