"""Corpora with more to train on, and with their tokens cut again."""

import pytest
from depgen.data.mixed import Retokenized, WithMoreTraining
from depgen.data.text_lines import TextLines

from depgen.data.detokenization import rejoined
from depgen.errors import UserError


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        for split in ("train", "valid", "test"):
            (tmp_path / name / f"{split}.txt").write_text("".join(f"{name} {split} {line} .\n" for line in range(3)))
    return [TextLines(name) for name in ("one", "two", "three")]


def texts(corpus, split):
    return [" ".join(document.words()) for document in corpus.documents(split)]


def test_only_the_training_split_has_documents_of_others(corpora):
    one, *others = corpora
    mixed = WithMoreTraining(one, more=others, max_more=4)
    assert mixed.name == "one and two and three"
    assert texts(mixed, "train") == [*texts(one, "train"), *texts(others[0], "train"), *texts(others[1], "train")[:1]]
    for split in ("valid", "test"):
        assert texts(mixed, split) == texts(one, split)
        assert mixed.fingerprint(split) == one.fingerprint(split)
    assert len(texts(WithMoreTraining(one, more=others), "train")) == 9
    prints = {WithMoreTraining(one, more=others, max_more=most).fingerprint("train") for most in (3, 4, None)}
    assert len({*prints, one.fingerprint("train"), WithMoreTraining(one, more=others[:1]).fingerprint("train")}) == 5


def test_nothing_to_add_is_refused(corpora):
    with pytest.raises(UserError, match="at least one corpus"):
        WithMoreTraining(corpora[0], more=[])
    with pytest.raises(UserError, match="max_more"):
        WithMoreTraining(corpora[0], more=corpora[1:], max_more=0)


def test_tokens_are_joined_and_cut_by_the_same_rules_as_raw_text(corpora, tmp_path):
    (tmp_path / "one" / "train.txt").write_text("they ' re 50 , 000 strong , don ' t ask\n( it 's )\n")
    assert texts(Retokenized(corpora[0], apart=True), "train") == ["they 're 50,000 strong , do n't ask", "( it 's )"]
    assert texts(Retokenized(corpora[0]), "train")[0] != texts(Retokenized(corpora[0], apart=True), "train")[0]
    prints = {Retokenized(corpora[0], apart=apart).fingerprint("train") for apart in (True, False)}
    assert len({*prints, corpora[0].fingerprint("train")}) == 3


@pytest.mark.parametrize(
    ("apart", "joined"),
    [
        ("it ' s Trump ' S", "it's Trump'S"),
        ("1 , 000 , 000 , 50", "1,000,000 , 50"),
        ("4 . 5 and 6 .", "4.5 and 6 ."),
        ("he said ' sorry '", "he said ' sorry '"),
    ],
)
def test_what_the_news_cut_apart_is_joined(apart, joined):
    assert rejoined(apart) == joined
