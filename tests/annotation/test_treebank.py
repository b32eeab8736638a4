"""Treebanks made to look like delexicalised stories."""

from depgen.annotation.annotator import lowercase
from depgen.annotation.training import replace_names
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS


def sentence(*rows):
    words, heads, relations, tags = zip(*rows, strict=True)
    return Sentence(words, heads, relations, tags)


def test_flat_names_subjects_and_possessors_become_placeholders_and_places_stay():
    tree = sentence(
        ("Ada", 3, "obl", "NNP"), ("Lovelace", 1, "flat", "NNP"), ("met", 0, "root", "VBD"),
        ("Paris", 3, "obj", "NNP"), ("Mary", 6, "nmod:poss", "NNP"), ("aunt", 3, "obj", "NN"),
    )  # fmt: skip
    replaced = replace_names(tree)
    assert [word in PLACEHOLDERS for word in replaced.words] == [True, False, False, False, True, False]
    assert (replaced.heads, replaced.relations, replaced.tags) == (tree.heads, tree.relations, tree.tags)


def test_a_subject_with_a_determiner_or_in_capitals_is_no_name():
    tree = sentence(
        ("The", 2, "det", "DT"), ("Senate", 3, "nsubj", "NNP"), ("met", 0, "root", "VBD"), ("IBM", 3, "nsubj", "NNP"),
    )  # fmt: skip
    assert replace_names(tree) == tree


def test_a_name_always_becomes_the_same_placeholder_and_names_meet_all_three():
    def replaced(name):
        return replace_names(sentence((name, 2, "nsubj", "PROPN"), ("ran", 0, "root", "VERB"))).words[0]

    names = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo"]
    assert {replaced(name) for name in names} == set(PLACEHOLDERS)
    assert all(replaced(name) == replaced(name) for name in names)


def test_lower_case_leaves_placeholders():
    assert lowercase(Sentence(("[MALE]", "Ran", "USA"))).words == ("[MALE]", "ran", "usa")
