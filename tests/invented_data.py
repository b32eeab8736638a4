"""A folder of corpora made on the spot, laid out like the real one, all from the story grammar."""

import csv
import gzip
import json
from pathlib import Path

from depgen.data.generated import GeneratedStories
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence


def write_corpora(folder: Path, *, stories: int = 24) -> None:
    """Write stories, `brown`, `ud_english_ewt`, `wsj_sample/dependency`, `emnlp_news`, `wikinews` and `ptb`."""
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
    documents = list(corpus.documents("train"))
    (folder / "wsj_sample" / "dependency").mkdir(parents=True)
    for number in range(44):  # more than the 40 that are held out
        path = folder / "wsj_sample" / "dependency" / f"wsj_{number:04}.dp"
        path.write_text("\n".join(map(_columns, documents[number % stories].sentences)), encoding="utf-8")
    (folder / "brown").mkdir()
    for number in range(102):  # more than the 100 that are held out
        lines = [" ".join(f"{word}/nn" for word in s.words) for s in documents[number % stories].sentences]
        (folder / "brown" / f"c{'abc'[number // 50]}{number % 50:02}").write_text("\n\n".join(lines), encoding="utf-8")
    (folder / "emnlp_news").mkdir()
    for split in ("train", "valid", "test"):
        sentences = (" ".join(s.words) for document in corpus.documents(split) for s in document.sentences)
        (folder / "emnlp_news" / f"{split}.txt").write_text("".join(f"{s}\n" for s in sentences), encoding="utf-8")
    (folder / "wikinews").mkdir()
    for split in ("train", "valid", "test"):
        texts = (" ".join(document.words()) for document in corpus.documents(split))
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / "wikinews" / f"{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "ptb").mkdir()
    for split in ("train", "valid", "test"):
        lines = "".join(f" {_line(document)} \n" for document in corpus.documents(split))
        (folder / "ptb" / f"ptb.{split}.txt").write_text(lines, encoding="utf-8")


def _columns(sentence: Sentence) -> str:
    rows = zip(sentence.words, sentence.tags or (), sentence.heads or (), strict=True)
    return "".join(f"{word}\t{tag}\t{head}\n" for word, tag, head in rows)


def _line(document: Document) -> str:
    """The first sentence as the language-modelling Penn Treebank would have it."""
    words = document.sentences[0].words[:-1]
    return " ".join("<unk>" if word.startswith("[") else word.lower() for word in words)
