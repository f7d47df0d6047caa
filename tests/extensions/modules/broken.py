"""An extension that cannot be imported."""

raise RuntimeError("no license")
