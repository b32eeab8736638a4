from depgen.data.bare_words import BareWords
from depgen.data.corpus import form_of
from depgen.data.exclusion import WithoutSentences
from depgen.data.normalized import NormalizedTreebank
from depgen.data.sentences import SingleSentences
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank


def test_corpora_say_in_which_form_their_text_is():
    lines, ptb, trees = TextLines("news"), TextLines("ptb", published="ptb"), ConlluTreebank()
    normalized = NormalizedTreebank(trees, words_of=lines)
    assert [form_of(each) for each in (lines, trees, ptb, normalized, BareWords(trees))] == [
        None, None, "ptb", "ptb", "bare",
    ]  # fmt: skip


def test_wrappers_pass_it_on():
    lines, bare = TextLines("news"), BareWords(ConlluTreebank())
    assert form_of(SingleSentences(bare)) == "bare"
    assert form_of(WithoutSentences(bare, excluded=lines)) == "bare"
    assert form_of(WithoutSentences(lines, excluded=bare)) == "bare"
    assert form_of(WithoutSentences(lines, excluded=lines)) is None
