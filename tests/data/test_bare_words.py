import logging

import pytest
from depgen.data.bare_words import BareWords
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank

from depgen.data.corpus import Corpus, form_in

TREES = """# newdoc id = a
1\tDogs\t_\tNOUN\tNNS\t_\t3\tnsubj\t_\t_
2\t,\t_\tPUNCT\t,\t_\t1\tpunct\t_\t_
3\tbark\t_\tVERB\tVBP\t_\t0\troot\t_\t_
4\t$\t_\tSYM\t$\t_\t3\tobj\t_\t_
5\t10.5\t_\tNUM\tCD\t_\t4\tnummod\t_\t_

1\t...\t_\tPUNCT\t.\t_\t0\troot\t_\t_

1\t!\t_\tPUNCT\t.\t_\t0\troot\t_\t_
2\tYes\t_\tINTJ\tUH\t_\t1\tdep\t_\t_
3\tNo\t_\tINTJ\tUH\t_\t1\tdep\t_\t_

"""


@pytest.fixture
def treebank(tmp_path):
    (tmp_path / "a.conllu").write_text(TREES)
    (tmp_path / "train.txt").write_text("Dogs -- bark $ 10.5 !\n. . .\n")
    return ConlluTreebank(str(tmp_path), train=["a.conllu"], name="trees")


def test_each_sentence_is_a_document_of_words_with_its_tree(treebank, caplog):
    corpus = BareWords(treebank)
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        first, second = corpus.documents("train")
    assert (first.identifier, second.identifier) == ("a:1", "a:3")
    assert first.sentences[0].words == ("dogs", "bark", "N.N")
    assert first.sentences[0].heads == (2, 0, 2)
    assert second.sentences[0].heads == (0, 0)
    assert caplog.messages == ["trees (bare words), train: left out 1 sentences without words."]
    *_, together = BareWords(treebank, orphans="one_root").documents("train")
    assert together.sentences[0].heads == (0, 1)


def test_text_without_tags_goes_by_form(treebank):
    (document,) = BareWords(TextLines(treebank.folder)).documents("train")
    assert document.sentences[0].words == ("dogs", "bark", "N.N")


def test_the_fingerprint_follows_the_corpus_and_the_orphans(treebank, tmp_path):
    before = BareWords(treebank).fingerprint("train")
    assert before == BareWords(treebank).fingerprint("train")
    assert before != BareWords(treebank, orphans="one_root").fingerprint("train")
    (tmp_path / "a.conllu").write_text(TREES.replace("bark", "sleep"))
    assert BareWords(treebank).fingerprint("train") != before


def test_capitals_can_stay(treebank):
    cased = BareWords(treebank, lowercase=False)
    assert next(cased.documents("train")).sentences[0].words == ("Dogs", "bark", "N.N")
    assert (form_in(cased), form_in(BareWords(treebank))) == ("bare_cased", "bare")
    assert cased.fingerprint("train") != BareWords(treebank).fingerprint("train")
