"""A corpus in memory."""

import hashlib
from collections.abc import Mapping


class Shelf:
    """The same documents in every split, or others in the test split."""

    name = "shelf"
    published: Mapping = {}

    def __init__(self, documents, *, test=None):
        self._documents = {"test": documents if test is None else test}
        self._others = documents

    def documents(self, split):
        yield from self._documents.get(split, self._others)

    def fingerprint(self, split):
        return hashlib.sha256(repr((split, list(self.documents(split)))).encode()).hexdigest()
