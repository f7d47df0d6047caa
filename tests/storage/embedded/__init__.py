"""The guarantees of the embedded store beyond the contract, as `storage.embedded` states them."""
