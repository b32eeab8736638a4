import random
import sys

import pytest
import spacy
from spacy.training import Example

from depgen.annotation.names import EntityNames, ProperNounNames
from depgen.data.names import CapitalizedNames, everywhere, library_name_genders, people, read_name_genders
from depgen.errors import UserError

GENDERS = {"ann": "FEMALE", "bill": "MALE", "boston": "MALE", "ford": "MALE"}
STORIES = [
    [text.split() for text in story]
    for story in (
        [
            "Ann saw a bill .",
            "The bill was for Bill .",
            "Bill left the shop in Boston with his bill .",
            "She paid the bill .",
        ],
        ["Zork had a Ford .", "Then Zork drove it to Mars .", "He was glad ."],
        ["Xerx has rain .", "Then Xerx has snow .", "Ann Miller left ."],
    )
]


def words(story, positions):
    return [story[number][index] for number, index in sorted(positions)]


def test_capitals():
    finder = CapitalizedNames(STORIES, GENDERS)
    assert [words(story, finder.find(story)) for story in STORIES] == [
        ["Ann", "Bill", "Bill"],  # not the place
        ["Zork", "Zork"],  # neither the car nor the planet
        ["Ann", "Miller"],  # no he or she: nobody says that Xerx is a person
    ]


def test_a_common_word_at_the_start_of_a_sentence_is_no_name():
    stories = [[["Bill", "came"], ["the", "bill", "and", "bill"]]]
    assert CapitalizedNames(stories, GENDERS).find(stories[0]) == set()


def test_text_without_capitals_wants_a_pipeline():
    with pytest.raises(UserError, match="Expected stories with capitals"):
        CapitalizedNames([[["ann", "left"]]], GENDERS)


def test_people_and_everywhere():
    story = [["Ann", "left"], ["the", "tall", "Ann", "ann"]]
    assert people(story, {(0, 0)}, GENDERS) == {(0, 0)}
    assert everywhere(story, {(0, 0)}) == {(0, 0), (1, 2)}


def test_own_list(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("Ann\tfemale\nBILL\tm\nKit\tN\n")
    assert read_name_genders(path) == {"ann": "FEMALE", "bill": "MALE", "kit": "NEUTRAL"}
    path.write_text("Ann\tfemale\nBill male\n")
    with pytest.raises(UserError, match=r"names\.tsv:2: expected name, tab and male, female or neutral"):
        read_name_genders(path)


def test_library():
    pytest.importorskip("faker")
    genders = library_name_genders()
    assert (genders["mary"], genders["john"], genders["taylor"]) == ("FEMALE", "MALE", None)


def test_without_the_library_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faker.providers.person.en", None)
    with pytest.raises(UserError, match=r"pip install 'depgen\[names\]'"):
        library_name_genders()


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    """A pipeline with the component ner and tagger, trained on generated sentences, and one without either."""
    folder = tmp_path_factory.mktemp("pipelines")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("ner")
    pipeline.add_pipe("tagger")
    pick = random.Random(0).choice
    examples = []
    for _ in range(60):
        name, verb, thing = pick(["Ann", "Bill", "Zork", "Mo"]), pick(["saw", "ate"]), pick(["cats", "Mars", "fish"])
        tags = ["NNP", "VBD", "NNP" if thing == "Mars" else "NNS"]
        annotation = {"words": [name, verb, thing], "entities": ["U-PERSON", "O", "O"], "tags": tags}
        examples.append(Example.from_dict(pipeline.make_doc(f"{name} {verb} {thing}"), annotation))
    spacy.util.fix_random_seed(0)
    optimizer = pipeline.initialize(lambda: examples)
    for _ in range(8):
        pipeline.update(examples, sgd=optimizer)
    pipeline.to_disk(folder / "trained")
    spacy.blank("en").to_disk(folder / "blank")
    return folder


@pytest.mark.slow
def test_entities(pipelines):
    story = [["Bill", "saw", "Mars"], ["Zork", "ate", "fish"]]
    finder = EntityNames(str(pipelines / "trained"))
    assert words(story, finder.find(story)) == ["Bill", "Zork"]
    assert "trained" in finder.method


@pytest.mark.slow
def test_proper_nouns(pipelines):
    story = [["Bill", "saw", "Mars"], ["Zork", "ate", "fish"]]
    assert words(story, ProperNounNames(str(pipelines / "trained"), GENDERS).find(story)) == ["Bill"]


def test_pipelines_that_will_not_do(pipelines):
    with pytest.raises(UserError, match="expected a spaCy pipeline with the component ner"):
        EntityNames(str(pipelines / "blank"))
    with pytest.raises(UserError, match="No parser 'no_such_pipeline'"):
        EntityNames("no_such_pipeline")
