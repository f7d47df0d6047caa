"""The flags of the server, a module for each section of `--help`, each with its table `FLAGS`.

Flags have the names and the meaning that kube-apiserver gives them, wherever it has them. Defaults are those
of `Config`, so that each is written once.
"""
