"""Encryption at rest: a store in front of another that keeps the values of some resources encrypted.

    configuration   which resources are encrypted by which providers, already checked
    ciphers         AES-GCM, AES-CBC, secretbox, and AES-GCM with derived keys, for single values
    chains          which of several providers and keys writes a value, and which one reads it
    encryption      the chain of each resource, by the configuration that holds now
    kms             the provider that asks a KMS plugin for keys; its health, and the rotation of its key
    kms_client      calls a plugin over its socket
    kms_pb2         the messages of plugins, and the form of values: generated from kms.proto
    store           `Storage` over another store, which encrypts and decrypts

- *Beneath the cache.* What the watch cache has is decrypted, so a cached read costs nothing. Without a
  configuration there is nothing of this package in the way of a request.
- *Kubernetes' form.* Prefixes, layouts, the key in the store as additional data: values are those that
  kube-apiserver writes, wherever the key and the value before it was encrypted are the same. That is so for
  custom resources; built-in types have other keys there, and are protobuf.
- *The first provider writes, all read.* A value that another provider or key wrote is stale: an update that
  changes nothing writes it again, and nothing else does.
- *One value that cannot be decrypted harms no other.* It stands in its place as `UnreadableValue`, with the
  reason; whoever reads the object is told. Nothing ends, and the server starts.
- *A plugin is asked for keys, never for values,* and is not waited for by who reads from the cache. While it
  does not respond, values with keys that are known are read and written, the latter for three minutes.
- *Secrets stay here.* No error, log or metric has a key, or a part of a value; of a plugin's key IDs there
  are hashes.

Left out: of the server's own records only those are encrypted that a caller names, since they are secret;
KMS v1, which Kubernetes switches off by default; a bound on the time for which a key is cached.
"""
