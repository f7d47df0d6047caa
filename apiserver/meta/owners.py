"""Owners of objects: the one that manages an object, and references to owners."""

from __future__ import annotations

from apiserver.meta.vocabulary import Document


def controller_of(document: Document) -> Document | None:
    """Returns the reference to the owner that manages an object."""
    owners = document["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def controller_reference(owner: Document) -> Document:
    """Returns the reference that makes `owner` the controller of an object, as metav1.NewControllerRef."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
