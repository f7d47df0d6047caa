"""Fuzzers of everything that reads what clients send: `make fuzz`.

A target is a function of bytes that calls a decoder and fails if an invariant does not hold: no exception but
the documented ones, what was decoded can be encoded and decoded again, two implementations agree. What holds
for all of them is checked around them (`target.py`): an input takes neither more than a second of processor
time nor much memory.

Inputs come from three sources:

- The corpus (`corpus/NAME.txt`): what the fuzzers found to reach new code, and each input that has ever
  failed. `make test` runs all of it.
- Mutations of the corpus by a random generator that always starts the same way (`mutations.py`): bytes, and
  the values of JSON documents. `make slow` runs some thousands of them for each target.
- Guided mutations: `make fuzz` runs each target under atheris (libFuzzer), which keeps what reaches new code
  in `apiserver` and `storage` (`guided.py`). `--keep` adds the best of it to the corpus.
"""
