"""What each step does to documents, and to their fingerprint."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.data.corpus import SPLITS, WithSteps
from depgen.data.generated import GeneratedLanguage
from depgen.data.steps import (
    BareWords,
    ContextsOfOtherDocuments,
    FirstDocuments,
    Lowercase,
    MoreTraining,
    Normalized,
    PlaceholdersForNames,
    Retokenized,
    SingleSentences,
    WithoutHeldOut,
    WithoutRelations,
    WithPartners,
    WithTreesOnly,
    partners,
)
from depgen.data.tokenization import rejoined
from depgen.errors import MissingDataError
from depgen.trees.sentence import Document, Sentence

STORIES = GeneratedLanguage(train=4, valid=2, test=2, sentences=(5, 5))


class Texts:
    """Documents of sentences as strings, sentences apart by |."""

    published: dict = {}  # noqa: RUF012

    def __init__(self, name, **splits):
        self.name, self.splits = name, splits

    def documents(self, split):
        if split not in self.splits:
            raise MissingDataError(f"no {split}")
        for number, text in enumerate(self.splits[split]):
            yield Document(tuple(Sentence(tuple(each.split())) for each in text.split("|")), f"{split}:{number}")

    def fingerprint(self, split):
        if split not in self.splits:
            raise MissingDataError(f"no {split}")
        return f"{self.name} {self.splits[split]}"


def taken(step, corpus, split="train"):
    """The texts that a step makes of a corpus's split."""
    documents = WithSteps(corpus, steps=[step]).documents(split)
    return ["|".join(" ".join(s.words) for s in document.sentences) for document in documents]


def sentences(step, *those):
    """What a step makes of sentences."""
    return [s for d in step.documents(lambda split: iter([Document(those, "d")]), "train") for s in d.sentences]


def fingerprint(corpus, *steps, split="train"):
    return WithSteps(corpus, steps=steps).fingerprint(split)


def fingerprints(steps, corpus, split="train"):
    """How many fingerprints the steps give, the corpus's own among them."""
    return len({fingerprint(corpus, *([step] if step else []), split=split) for step in (None, *steps)})


# -- sentences rewritten -----------------------------------------------------------------------------------------------


def test_lower_case_keeps_the_trees_and_placeholders_where_told():
    tree = Sentence(("The", "[MALE]", "[x]"), (2, 0, 2), ("det", "root", "dep"))
    assert sentences(Lowercase(), tree) == [replace(tree, words=("the", "[male]", "[x]"))]
    assert sentences(Lowercase(but_placeholders=True), tree) == [replace(tree, words=("the", "[MALE]", "[x]"))]


DOGS = Sentence(("Dogs", ",", "bark", "$", "10.5"), (3, 1, 0, 3, 4), tags=("NNS", ",", "VBP", "$", "CD"))
DOTS = Sentence(("...",), (0,), tags=(".",))
YES = Sentence(("!", "Yes", "No"), (0, 1, 1), tags=(".", "UH", "UH"))


def test_bare_words_have_no_punctuation_and_their_trees_are_closed(caplog):
    first, second = sentences(BareWords(), DOGS, DOTS, YES)
    assert (first.words, first.heads) == (("dogs", "bark", "N.N"), (2, 0, 2))
    assert (second.words, second.heads) == (("yes", "no"), (0, 0))
    assert caplog.messages == ["BareWords, train: left out 1 sentences without words."]
    assert taken(BareWords(), Texts("untagged", train=["Dogs -- bark $ 10.5 !", ". . ."])) == ["dogs bark N.N"]


def test_normalised_words_are_those_of_a_corpus():
    words = Texts("lines", train=["sells N horses"])
    sells = Sentence(("``", "Sells", "3", "dogs", "."), (2, 0, 4, 2, 2), tags=("``", "VBZ", "CD", "NNS", "."))
    (sentence,) = sentences(Normalized(words), sells, replace(DOTS, tags=(":",)))
    assert (sentence.words, sentence.heads, sentence.tags) == (("sells", "N", "<unk>"), (0, 3, 1), ("VBZ", "CD", "NNS"))
    assert fingerprints([Normalized(words), Normalized(Texts("lines", train=["sells N dogs"]))], STORIES) == 3
    assert WithSteps(STORIES, steps=[Normalized(words)]).name == "generated (normalised as lines)"


def test_tokens_are_joined_and_cut_by_the_same_rules_as_raw_text():
    news = Texts("news", train=["they ' re 50 , 000 strong , don ' t ask", "( it 's )"])
    assert taken(Retokenized(apart=True), news) == ["they 're 50,000 strong , do n't ask", "( it 's )"]
    assert taken(Retokenized(), news)[0] != taken(Retokenized(apart=True), news)[0]


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


def test_raw_stories_get_placeholders_for_names(tmp_path):
    names = tmp_path / "names.tsv"
    names.write_text("Ann\tF\nBill\tM\nKit\tN\n")
    raw = Texts(
        "raw",
        train=['Ann\'s cat didn\'t eat .|Ann Lee , sad , wept.|Kit met Ann .|"No" , she \' d said .|The cat ate !',
               "Kit ran .|Bill saw him .|Zork fell .|He fed Zork .|The Zork paid $100 ."],
    )  # fmt: skip
    assert taken(PlaceholdersForNames(str(names)), raw) == [
        "[FEMALE] 's cat did n't eat .|[FEMALE] , sad , wept .|[NEUTRAL] met [FEMALE] .|`` no `` , she 'd said .|"
        "the cat ate !",
        "[NEUTRAL] ran .|[MALE] saw him .|[MALE] fell .|he fed [MALE] .|the [MALE] paid $ 100 .",
    ]
    before = fingerprint(raw, PlaceholdersForNames(str(names)), split="train")
    names.write_text("Ann\tF\n")
    assert fingerprint(raw, PlaceholdersForNames(str(names)), split="train") != before


def test_graphs_without_some_relations():
    edges = ((2, 1, "cc:preconj"), (0, 2, "root"), (2, 3, "conj:and>nsubj"), (2, 4, "punct"))
    graph = Sentence(("Both", "walk", "she", "."), (2, 0, 2, 2), edges=edges)
    found = sentences(WithoutRelations(["punct", "cc"]), graph, Sentence(("Yes",), (0,)))
    assert [each.edges for each in found] == [edges[1:3], None]
    assert replace(found[0], edges=edges) == graph


# -- documents and sentences chosen ------------------------------------------------------------------------------------


def test_lengths_outside_the_limits_are_left_out_and_counted(caplog):
    lengths = [len(sentence) for document in STORIES.documents("train") for sentence in document.sentences]
    least, most = sorted(lengths)[5], sorted(lengths)[14]
    kept = [len(s) for d in SingleSentences(least, most).documents(STORIES.documents, "train") for s in d.sentences]
    assert kept == [length for length in lengths if least <= length <= most]
    assert caplog.messages == [
        f"SingleSentences, train: left out {len(lengths) - len(kept)} sentences of other lengths."
    ]
    assert fingerprints([SingleSentences(), SingleSentences(2), SingleSentences(max_words=9)], STORIES) == 4


def test_the_first_documents_of_a_split():
    whole = list(STORIES.documents("train"))
    assert list(WithSteps(STORIES, steps=[FirstDocuments(3)]).documents("train")) == whole[:3]
    assert list(WithSteps(STORIES, steps=[FirstDocuments(2, skip=1)]).documents("train")) == whole[1:3]
    assert list(WithSteps(STORIES, steps=[FirstDocuments(skip=1)]).documents("train")) == whole[1:]
    assert list(WithSteps(STORIES, steps=[FirstDocuments(1)]).documents("valid")) == list(STORIES.documents("valid"))
    assert len(list(WithSteps(STORIES, steps=[FirstDocuments(1, split="test")]).documents("test"))) == 1
    steps = [FirstDocuments(3), FirstDocuments(2), FirstDocuments(2, skip=1), FirstDocuments(skip=1)]
    assert fingerprints(steps, STORIES) == 5
    assert fingerprints([*steps, FirstDocuments(), FirstDocuments(2, split="test")], STORIES, "valid") == 1


def test_sentences_without_a_tree_can_be_left_out(caplog):
    tree, graph, bare = Sentence(("up",), (0,)), Sentence(("up",), edges=()), Sentence(("up",))
    assert sentences(WithTreesOnly(), tree, graph, bare) == [tree]
    assert sentences(WithTreesOnly("edges"), tree, graph, bare) == [graph]
    assert caplog.messages[0] == "WithTreesOnly, train: left out 2 sentences without heads."


# -- what is held out --------------------------------------------------------------------------------------------------

NEWS = Texts(
    "news",
    train=["a cat sat .", "two dogs ran .", "he left .", "a catsat.", "A cat sat ."],
    valid=["he left.", "nobody came ."],
    test=["acat sat .", "it rained ."],
)


def test_training_documents_that_equal_one_of_validation_or_test_but_for_blanks_go(caplog):
    assert taken(WithoutHeldOut(), NEWS) == ["two dogs ran .", "A cat sat ."]
    (message,) = caplog.messages
    assert "left out 3 of 5 documents" in message
    assert [taken(WithoutHeldOut(), NEWS, split) for split in ("valid", "test")] == [
        NEWS.splits[s] for s in ("valid", "test")
    ]
    assert taken(WithoutHeldOut(splits=["valid"]), NEWS, "valid") == NEWS.splits["valid"], "but for the test's"
    lower = WithSteps(NEWS, steps=[Lowercase(), WithoutHeldOut()])
    assert [" ".join(document.words()) for document in lower.documents("train")] == ["two dogs ran ."]


def test_a_split_that_is_not_there_takes_nothing_away():
    without = {split: texts for split, texts in NEWS.splits.items() if split != "test"}
    assert taken(WithoutHeldOut(), Texts("news", **without)) == [NEWS.splits["train"][i] for i in (0, 1, 3, 4)]
    assert len(taken(WithoutHeldOut(), Texts("news", train=NEWS.splits["train"]))) == 5


def test_training_depends_on_what_is_held_out():
    changed = [Texts("news", **{**NEWS.splits, split: ["another ."]}) for split in SPLITS]
    assert len({fingerprint(each, WithoutHeldOut(), split="train") for each in (NEWS, *changed)}) == 4
    assert fingerprint(NEWS, WithoutHeldOut(), split="test") == NEWS.fingerprint("test")


def test_documents_of_another_corpus_go_from_training_and_validation_and_from_nowhere_else(caplog):
    ptb = Texts("PTB", train=["a b", "c d", "f g", "a b"], valid=["c d", "h"], test=["a b", "h"])
    tested = Texts("sample", train=["a b"], valid=["e"], test=["c d|x y", "a"])
    step = WithoutHeldOut(WithSteps(tested, steps=[SingleSentences()]), ["train", "valid"])
    assert [taken(step, ptb, split) for split in SPLITS] == [["f g"], ["h"], ["a b", "h"]]
    assert "left out 3 of 4 documents, which equal one of sample" in caplog.messages[0]
    assert taken(WithoutHeldOut(tested, ["test"]), ptb, "test") == ["h"]
    assert taken(WithoutHeldOut(tested), ptb, "valid") == ["c d", "h"]
    assert fingerprint(ptb, step, split="test") == ptb.fingerprint("test")
    changed = [Texts("sample", **{**tested.splits, split: ["new"]}) for split in SPLITS]
    assert fingerprints([WithoutHeldOut(), *map(WithoutHeldOut, [tested, *changed])], ptb) == 6
    assert WithSteps(ptb, steps=[step]).name == "PTB without sample"


# -- controls ----------------------------------------------------------------------------------------------------------


TREES = st.sampled_from([(2, 0), (0, 1), (2, 0, 2), (0, 1, 1), (0, 1, 2), (3, 3, 0)])


@given(st.lists(TREES, min_size=1, max_size=20), st.integers(0, 9))
def test_partners_are_as_long_have_another_tree_and_serve_once(trees, seed):
    found = partners([Sentence(("w",) * len(heads), heads) for heads in trees], seed)
    taken_once = [place for place in found if place is not None]
    assert len({*taken_once}) == len(taken_once)
    for heads, place in zip(trees, found, strict=True):
        assert place is None or (len(trees[place]) == len(heads) and trees[place] != heads)
    alone = 0
    for length in (2, 3):
        counts = Counter(heads for heads in trees if len(heads) == length)
        alone += max([0, *(2 * count - counts.total() for count in counts.values())])
    assert found.count(None) == alone, "no more than must be"


def test_training_sentences_without_a_partner_go(caplog):
    corpus = GeneratedLanguage(60, 20, 20)
    kept = [*WithSteps(corpus, steps=[WithPartners()]).documents("train")]
    everything = [*corpus.documents("train")]
    has_partner = [place is not None for place in partners([each.sentences[0] for each in everything])]
    assert kept == [each for each, kept in zip(everything, has_partner, strict=True) if kept]
    assert f"left out {60 - len(kept)} sentences" in caplog.messages[0]
    assert [*WithSteps(corpus, steps=[WithPartners()]).documents("test")] == [*corpus.documents("test")]


def test_contexts_are_those_of_other_documents():
    corpus = GeneratedLanguage(30, 1, 9, sentences=(3, 6))
    mixed = [*WithSteps(corpus, steps=[ContextsOfOtherDocuments()]).documents("train")]
    plain = [*corpus.documents("train")]
    assert [each.sentences[0] for each in mixed] == [each.sentences[0] for each in plain]
    assert [len(each.sentences) for each in mixed] == [len(each.sentences) for each in plain]
    for number in range(1, 6):
        theirs, own = (
            [each.sentences[number] for each in docs if len(each.sentences) > number] for docs in (mixed, plain)
        )
        assert Counter(theirs) == Counter(own)
        assert (
            sum(one == other for one, other in zip(theirs, own, strict=True)) <= 2
        )  # equal sentences of two documents
    assert [*WithSteps(corpus, steps=[ContextsOfOtherDocuments()]).documents("test")] == [*corpus.documents("test")]


# -- documents of others -----------------------------------------------------------------------------------------------


def test_only_the_training_split_has_documents_of_others():
    one, two, three = (
        Texts(name, **{split: [f"{name} {split} {n}" for n in range(3)] for split in SPLITS}) for name in "abc"
    )
    step = MoreTraining([two, three], most=4)
    assert taken(step, one) == [*one.splits["train"], *two.splits["train"], *three.splits["train"][:1]]
    for split in ("valid", "test"):
        assert taken(step, one, split) == one.splits[split]
        assert fingerprint(one, step, split=split) == one.fingerprint(split)
    assert len(taken(MoreTraining([two, three]), one)) == 9
    steps = [step, MoreTraining([two, three], 3), MoreTraining([two, three]), MoreTraining([two])]
    assert fingerprints(steps, one) == 5
    assert WithSteps(one, steps=[step]).name == "a and b and c"
