from depgen.trees.normalization import normalize
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS

WORDS = ("``", "The", "owners", "'", "US$", "1.5", "%", "&", "#", "2", "-LRB-", ",", "''")
TAGS = ("``", "DT", "NNS", "POS", "$", "CD", "NN", "CC", "#", "CD", "-LRB-", ",", "''")


def read(form, sentence):
    chosen = FORMS[form]
    pairs = zip(sentence.words, chosen.kept(sentence), strict=True)
    return tuple(chosen.spelt(word) for word, keep in pairs if keep)


def test_the_penn_treebanks_form_is_its_normalisation_without_the_unknown_word():
    tagged = Sentence(WORDS, tags=TAGS)
    known = {word.lower() for word in WORDS} | {"N"}
    assert read("ptb", tagged) == normalize(tagged, known).words
    assert read("ptb", Sentence(WORDS)) == ("the", "owners", "us$", "N", "N", "&", "#", "N")


def test_bare_and_unchanged():
    assert read("bare", Sentence(WORDS, tags=TAGS)) == ("the", "owners", "'", "N.N", "%", "&", "N")
    assert read("as_is", Sentence(WORDS, tags=TAGS)) == WORDS
