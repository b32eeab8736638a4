"""A folder of corpora made on the spot, laid out like the real one, all of the small generated language."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

from depgen.data.generated import GeneratedLanguage
from depgen.trees.conllu import write_conllu
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Document, Sentence


def write_corpora(folder: Path, *, stories: int = 24) -> None:
    """Write stories, `ud_english_ewt`, `emnlp_news`, `wikinews`, `ptb` and the documents of `write_documents`."""
    corpus = GeneratedLanguage(train=stories, valid=stories // 4, test=stories // 4, sentences=(5, 5))
    (folder / "rocstories").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        with (folder / "rocstories" / f"{split}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([f"sentence{number}" for number in range(1, 6)])
            for document in corpus.documents(split):
                writer.writerow([" ".join(sentence.words) for sentence in document.sentences])
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        path = folder / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu"
        write_conllu(map(_with_graphs, corpus.documents(split)), path)
    write_documents(folder, corpus)
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


def _with_graphs(document: Document) -> Document:
    """The document with its trees as graphs too, as the DEPS of treebanks hold them."""
    return replace(document, sentences=tuple(map(_with_graph, document.sentences)))


def _with_graph(sentence: Sentence) -> Sentence:
    words = range(1, len(sentence) + 1)
    return replace(sentence, edges=sorted_edges(zip(sentence.heads, words, sentence.relations, strict=True)))


def write_documents(folder: Path, corpus: GeneratedLanguage) -> None:
    """Write `wsj_sample/dependency`, `brown`, `wsj`, `wikitext2` and `nant`."""
    documents = list(corpus.documents("train"))
    (folder / "wsj_sample" / "dependency").mkdir(parents=True)
    for number in range(44):  # more than the 40 that are held out
        path = folder / "wsj_sample" / "dependency" / f"wsj_{number:04}.dp"
        sentences = documents[number % (len(documents) // 2)].sentences  # `ptb` keeps sentences that are not here
        path.write_text("\n".join(map(_columns, sentences)), encoding="utf-8")
    (folder / "brown").mkdir()
    for number in range(102):  # more than the 100 that are held out
        lines = [" ".join(f"{word}/nn" for word in s.words) for s in documents[number % len(documents)].sentences]
        (folder / "brown" / f"c{'abc'[number // 50]}{number % 50:02}").write_text("\n\n".join(lines), encoding="utf-8")
    for section in range(25):
        path = folder / "wsj" / f"{section:02}" / f"wsj_{section:02}01.mrg"
        path.parent.mkdir(parents=True)
        sentences = documents[section % len(documents)].sentences
        path.write_text("".join(f"( (S {' '.join(f'(NN {word})' for word in s.words)}) )\n" for s in sentences))
    for name in ("wikitext2", "nant"):
        (folder / name).mkdir()
    for split in ("train", "valid", "test"):
        texts = [[" ".join(s.words) for s in document.sentences] for document in corpus.documents(split)]
        articles = "".join(f" \n = Story = \n \n {' '.join(text)} \n" for text in texts)
        (folder / "wikitext2" / f"wiki.{split}.tokens").write_text(articles, encoding="utf-8")
        lines = "".join("".join(f"{sentence}\n" for sentence in text) + "=\n" for text in texts)
        (folder / "nant" / f"{split}.txt").write_text(lines, encoding="utf-8")


def _columns(sentence: Sentence) -> str:
    rows = zip(sentence.words, sentence.tags or (), sentence.heads or (), strict=True)
    return "".join(f"{word}\t{tag}\t{head}\n" for word, tag, head in rows)


def _line(document: Document) -> str:
    """The first sentence as the language-modelling Penn Treebank would have it."""
    words = document.sentences[0].words[:-1]
    return " ".join("<unk>" if word.startswith("[") else word.lower() for word in words)
