"""Documents of word/tag, in the Brown corpus's form."""

import os

import pytest
from depgen.data.files import seeded_split
from depgen.data.tagged import TaggedDocuments

from depgen.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Six invented documents and a file that is none."""
    for number in range(6):
        text = (
            f"\n\n\tThe/at Crane/np-tl no./nn {number}/cd 1//2/cd rose/vbd ./.\n\n\n\tUp/rp ``/`` and/or/cc away/rb\n"
        )
        (tmp_path / f"ca0{number}").write_text(text)
    (tmp_path / "README").write_text("no document\n")
    return tmp_path


def corpus(folder, **options):
    return TaggedDocuments(os.fspath(folder), **{"valid_documents": 1, "test_documents": 2, **options})


def test_words_and_tags_are_parted_at_the_last_slash(folder):
    (document,) = corpus(folder).documents("valid")
    first, second = document.sentences
    assert first.words == ("The", "Crane", "no.", document.identifier[-1], "1//2", "rose", ".")
    assert first.tags == ("at", "np-tl", "nn", "cd", "cd", "vbd", ".")
    assert (second.words, second.tags) == (("Up", "``", "and/or", "away"), ("rp", "``", "cc", "rb"))
    (lower,) = corpus(folder, lowercase=True).documents("valid")
    assert lower.sentences[0].words[1] == "crane"


def test_every_document_is_in_one_split_whatever_the_order_of_files(folder):
    splits = {s: [d.identifier for d in corpus(folder).documents(s)] for s in ("train", "valid", "test")}
    assert [len(splits[s]) for s in ("train", "valid", "test")] == [3, 1, 2]
    assert sorted(name for names in splits.values() for name in names) == [f"ca0{n}" for n in range(6)]
    paths = sorted(folder.glob("ca*"))
    assert seeded_split(paths[::-1], valid=1, test=2, seed=0, where="") == seeded_split(
        paths, valid=1, test=2, seed=0, where=""
    )
    others = [[d.identifier for d in corpus(folder, seed=seed).documents("test")] for seed in range(1, 6)]
    assert any(names != splits["test"] for names in others)


def test_what_is_wrong_is_named(folder, tmp_path):
    with pytest.raises(UserError, match="expected more than 6 documents to split, found 6"):
        list(corpus(folder, test_documents=5).documents("train"))
    (path,) = [folder / document.identifier for document in corpus(folder).documents("valid")]
    path.write_text("The/at\nCrane\n")
    with pytest.raises(UserError, match=rf"{path}:2: expected word/tag, found 'Crane'"):
        list(corpus(folder).documents("valid"))
    path.write_text("\n\n")
    with pytest.raises(UserError, match="expected sentences, one a line, found none"):
        list(corpus(folder).documents("valid"))


def test_its_fingerprint_is_that_of_what_is_read(folder):
    first = corpus(folder).fingerprint("train")
    assert corpus(folder).fingerprint("train") == first
    assert corpus(folder, lowercase=True).fingerprint("train") != first
    assert corpus(folder).fingerprint("test") != first
