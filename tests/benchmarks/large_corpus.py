"""Time and private memory from `setup("fit")` to the first batch on a large corpus of generated sentences with trees.

`python -m tests.benchmarks.large_corpus --sentences 2000000 --workers 2` prints a line of JSON; run it twice with one
`DEPGEN_CACHE`, which the first run fills.
"""

import argparse
import json
import os
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch.multiprocessing

from depgen.annotation.trivial import GoldTrees
from depgen.data.generated import GeneratedLanguage
from depgen.data.text import TextData
from depgen.trees.sentence import Document


class GeneratedSentences:
    """So many sentences, each a document: those of generated stories, over and over from the first."""

    name = "generated sentences"
    published: Mapping = {}

    def __init__(self, sentences, stories=20_000):
        self.sizes = {"train": sentences, "valid": 1000, "test": 1000}
        self.stories = stories

    @cached_property
    def pool(self):
        stories = GeneratedLanguage(train=self.stories, sentences=(5, 5)).documents("train")
        return [sentence for document in stories for sentence in document.sentences]

    def documents(self, split):
        for number in range(self.sizes[split]):
            yield Document((self.pool[number % len(self.pool)],), f"{split}-{number}")

    def fingerprint(self, split):
        return f"generated sentences {split} {self.sizes[split]} of {self.stories} stories"


def private_bytes():
    """Memory of this process and its children but for mapped files: what would be free without them.

    Pages that a process shares with its forked children count once.
    """
    processes = ["self", *(process.pid for process in torch.multiprocessing.active_children())]
    lines = [line for each in processes for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    assert os.environ.get("DEPGEN_CACHE"), "set DEPGEN_CACHE to an empty folder for the first run"
    before = private_bytes()
    data = TextData(GeneratedSentences(options.sentences), annotator=GoldTrees(), workers=options.workers)
    started = time.perf_counter()
    data.prepare_data()
    vocabulary = data.vocabulary_size
    prepared = time.perf_counter()
    data.setup("fit")
    data.val_dataloader()
    batches = iter(data.train_dataloader())
    batch = next(batches)
    found = {
        "sentences": options.sentences,
        "workers": options.workers,
        "vocabulary": vocabulary,
        "tokens": int(data.split("train").counts.sum()),
        "annotation_and_vocabulary_s": round(prepared - started, 2),
        "setup_to_first_batch_s": round(time.perf_counter() - prepared, 2),
        "private_mb_before": round(before / 1e6),
        "private_mb": round(private_bytes() / 1e6),
        "batch": list(batch.inputs.shape),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
