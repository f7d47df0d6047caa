"""Parts of the Common Expression Language that Kubernetes does not offer, for the language's own tests."""
