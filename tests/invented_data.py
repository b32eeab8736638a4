"""A folder of corpora made on the spot, laid out like the real one: stories and a treebank from the story grammar."""

import csv
from pathlib import Path

from depgen.data.generated import GeneratedStories
from depgen.trees.conllu import write_conllu


def write_corpora(folder: Path, *, stories: int = 24) -> None:
    """Write `rocstories/*.csv` and `ud_english_ewt/*.conllu` below a folder."""
    corpus = GeneratedStories(train=stories, valid=stories // 4, test=stories // 4)
    (folder / "rocstories").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        with (folder / "rocstories" / f"{split}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([f"sentence{number}" for number in range(1, 6)])
            for document in corpus.documents(split):
                writer.writerow([" ".join(sentence.words) for sentence in document.sentences])
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        path = folder / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu"
        write_conllu(corpus.documents(split), path)
