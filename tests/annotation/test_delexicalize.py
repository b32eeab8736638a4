import pytest

from depgen.annotation.delexicalize import STORIES, Delexicalization, delexicalize_file
from depgen.data.corpora import RocStories
from depgen.data.names import delexicalize, genders_in_story
from depgen.errors import UserError

HEADER = "sentence1,sentence2,sentence3,sentence4,sentence5\n"


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("Ann\tF\nBill\tM\nKit\tN\n")
    return path


def test_stories_look_like_the_published_ones(tmp_path, names):
    source, output = tmp_path / "raw.csv", tmp_path / "out.csv"
    source.write_text(
        HEADER
        + 'Ann\'s cat didn\'t eat .,"Ann Lee , sad , wept.",Kit met Ann .,"""No"" , she \' d said .",The cat ate !\n'
        + "Kit ran .,Bill saw him .,Zork fell .,He fed Zork .,The Zork paid $100 .\n"
    )
    result = delexicalize_file(source, output, name_genders=names)
    assert [texts for _, texts in STORIES.rows(output)] == [
        [
            "[FEMALE] 's cat did n't eat .",
            "[FEMALE] , sad , wept .",
            "[NEUTRAL] met [FEMALE] .",
            "`` no `` , she 'd said .",
            "the cat ate !",
        ],
        ["[NEUTRAL] ran .", "[MALE] saw him .", "[MALE] fell .", "he fed [MALE] .", "the [MALE] paid $ 100 ."],
    ]
    assert result == Delexicalization(2, {"FEMALE": 3, "MALE": 4, "NEUTRAL": 2}, "capitalised words")
    assert (
        str(result)
        == "2 stories, 4.50 placeholders a story ([FEMALE] 3, [MALE] 4, [NEUTRAL] 2); names: capitalised words"
    )


def test_a_story_of_the_test_split_is_left_out_whatever_its_names_and_contractions(tmp_path, names):
    source, output, test = tmp_path / "raw.csv", tmp_path / "out.csv", tmp_path / "test.csv"
    told = (
        "Ann wanted to buy a red kite .,She didn't have the money for it .,So she sold her old bike .,{},"
        "She flew it all day ."
    )
    source.write_text(
        HEADER
        + told.format("Bill then gave her the kite she liked .")
        + "\nKit wanted to buy a red car .,He had no money .,"
        + "He asked Bill for a loan .,Bill said no .,Kit walked home .\n"
    )
    test.write_text(HEADER + told.lower().replace("ann", "[NEUTRAL]").format("it was the best kite in town .") + "\n")
    result = delexicalize_file(source, output, name_genders=names, apart_from=[test])
    assert [texts[4] for _, texts in STORIES.rows(output)] == ["[NEUTRAL] walked home ."], "five words are no story"
    assert (result.stories, result.left_out) == (1, 1)
    assert result.placeholders == {"NEUTRAL": 2, "MALE": 2}, "of what is written"
    assert str(result).startswith("1 stories, 1 left out, 4.00 placeholders a story")


def test_pronouns_decide_for_names_that_the_list_leaves_open():
    story = [["Kit", "met", "Sam", "."], ["Zork", "fed", "his", "cat"]]
    names = genders_in_story(story, {(0, 0), (0, 2), (1, 0)}, {"kit": "NEUTRAL", "sam": None})
    assert names == {(0, 0): "NEUTRAL", (0, 2): "MALE", (1, 0): "MALE"}


def test_pronouns_that_disagree_leave_a_name_neutral():
    story = [["Kit", "saw", "him", "and", "her"], ["Ann", "left"]]
    names = genders_in_story(story, {(0, 0), (1, 0)}, {"kit": "NEUTRAL", "ann": "FEMALE"})
    assert names == {(0, 0): "NEUTRAL", (1, 0): "FEMALE"}
    assert delexicalize(story, names) == ["[NEUTRAL] saw him and her", "[FEMALE] left"]


def test_one_way_of_finding_names_at_a_time(tmp_path):
    with pytest.raises(UserError, match="give one"):
        delexicalize_file(tmp_path / "a.csv", tmp_path / "b.csv", ner="one", tagger="two")


@pytest.mark.real_data
def test_as_many_placeholders_as_the_official_stories(tmp_path):
    pytest.importorskip("faker")
    corpus = RocStories()
    tokens = [token for story in corpus.documents("test") for token in story.words()]
    official = sum(token in ("[MALE]", "[FEMALE]", "[NEUTRAL]") for token in tokens) / 9816
    raw = corpus._paths("test")[0].with_name("raw_cased.csv")
    result = delexicalize_file(raw, tmp_path / "out.csv")
    rate = sum(result.placeholders.values()) / result.stories
    assert 0.8 * official <= rate <= 1.2 * official
