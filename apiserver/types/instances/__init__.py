"""Makes instances of classes from documents, and documents from instances.

    decoder  makes instances. All four kinds of classes are read alike, by their fields
    scalars  reads texts and numbers as the types of Python
    encoder  makes documents
    changes  writes what has changed in an instance into its document, which keeps all else

TypedDicts are the documents themselves: their fields are checked, and not converted.
"""

from apiserver.types.instances.changes import with_changes
from apiserver.types.instances.decoder import InstanceDecoder
from apiserver.types.instances.encoder import InstanceEncoder

__all__ = ["InstanceDecoder", "InstanceEncoder", "with_changes"]
