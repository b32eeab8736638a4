"""Files of GLUE's tasks as prompts, and what is wrong with files."""

import pytest

from depgen.data.corpus import Corpus
from depgen.data.glue import TASKS, GluePrompts
from depgen.data.prompts import PromptCorpus
from depgen.errors import UserError
from tests.invented_glue import HEADERS, write_glue


@pytest.fixture
def glue(tmp_path):
    write_glue(tmp_path)
    return tmp_path


EXPECTED = {
    "rte": ('Sentence1:The cat sat "there 1.; Sentence2:A owl sat.; Label:', 0.0),
    "sst2": ('Sentence1:the cat sat "there 1.; Sentiment:', 0.0),
    "mrpc": ('Sentence1:The cat sat "there 1.; Sentence2:A owl sat.; Label:', 0.0),
    "stsb": ('Sentence1:The cat sat "there 1.; Sentence2:A owl sat.; Score:', 0.5),
}


@pytest.mark.parametrize("task", TASKS)
def test_each_line_is_a_prompt_with_its_answer(glue, task):
    corpus = GluePrompts(task, str(glue))
    assert isinstance(corpus, Corpus)
    assert isinstance(corpus, PromptCorpus)
    text, answer = EXPECTED[task]
    found = list(corpus.prompts("test"))
    assert len(found) == 9
    assert (" ".join(found[1].words), found[1].answer, found[1].identifier) == (text, answer, "dev.tsv:3")
    assert found[3].answer == (1.5 if task == "stsb" else 1.0)
    assert [each.sentences[0].words for each in corpus.documents("test")] == [each.words for each in found]


def test_every_tenth_training_example_selects(glue):
    corpus = GluePrompts("rte", str(glue))
    train, valid = ([each.identifier for each in corpus.prompts(split)] for split in ("train", "valid"))
    assert valid == [f"train.tsv:{line}" for line in (11, 21, 31, 41)]
    assert sorted([*train, *valid]) == sorted(f"train.tsv:{line}" for line in range(2, 42))


def test_the_first_examples_are_those_of_training_and_validation(glue):
    whole, part = GluePrompts("rte", str(glue)), GluePrompts("rte", str(glue), max_examples=20)
    for split, count in (("train", 18), ("valid", 2)):
        assert list(part.prompts(split)) == list(whole.prompts(split))[:count]
        assert part.fingerprint(split) != whole.fingerprint(split)
    assert list(part.prompts("test")) == list(whole.prompts("test"))
    assert part.fingerprint("test") == whole.fingerprint("test")


def test_prompt_and_verbalisers_can_be_others(glue):
    corpus = GluePrompts("sst2", str(glue), prompt="{0} It was", verbalisers=["bad", "good"])
    assert next(corpus.prompts("train")).words == ("the", "dog", "sat", '"there', "0.", "It", "was")
    assert corpus.verbalisers == ("bad", "good")
    assert corpus.fingerprint("train") != GluePrompts("sst2", str(glue)).fingerprint("train")
    assert corpus.fingerprint("train") != corpus.fingerprint("valid")


def test_a_sentence_that_looks_like_a_place_is_text(glue):
    path = glue / "RTE" / "dev.tsv"
    path.write_text(f"{HEADERS['RTE']}\n0\t{{1}} a\tb\tentailment\n")
    prompt = next(GluePrompts("rte", str(glue)).prompts("test"))
    assert prompt.words[:2] == ("Sentence1:{1}", "a;")


@pytest.mark.parametrize(("text", "said"), [
    ("", r"dev\.tsv: the file is empty"),
    ("\n", r"dev\.tsv:1: expected the column 'sentence1', found ''"),
    (f"{HEADERS['RTE']}\n", r"dev\.tsv: expected examples .* found none"),
    ("index\tsentence1\tlabel\n0\ta\tentailment\n", r"dev\.tsv:1: expected the column 'sentence2'"),
    (f"{HEADERS['RTE']}\n0\ta\tb\tentailment\n1\ta\tb\n", r"dev\.tsv:3: expected 4 columns .* found 3"),
    (f"{HEADERS['RTE']}\n0\ta\tb\tmaybe\n", r"dev\.tsv:2: label: expected not_entailment or entailment, found 'maybe'"),
    (b"index\tsentence1\tsentence2\tlabel\n0\t\xff\tb\tentailment\n", r"dev\.tsv:2: expected UTF-8"),
])  # fmt: skip
def test_files_of_another_form_are_refused(glue, text, said):
    path = glue / "RTE" / "dev.tsv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=said):
        list(GluePrompts("rte", str(glue)).prompts("test"))


@pytest.mark.parametrize("score", ["5.1", "-0.5", "high", "nan"])
def test_a_similarity_outside_its_range_is_refused(glue, score):
    path = glue / "STS-B" / "dev.tsv"
    path.write_text(path.read_text().replace("\t0.000\n", f"\t{score}\n", 1))
    with pytest.raises(UserError, match=rf"dev\.tsv:2: score: expected a similarity .*found '{score}'"):
        list(GluePrompts("stsb", str(glue)).prompts("test"))


def test_a_missing_file_is_named_with_its_source(tmp_path):
    with pytest.raises(UserError, match=r"gluebenchmark\.com"):
        list(GluePrompts("rte", str(tmp_path)).prompts("train"))


@pytest.mark.parametrize(("options", "said"), [
    ({"task": "wnli"}, "wnli"),
    ({"task": "rte", "prompt": "{0} so?"}, r"prompt: expected \{0\} and \{1\}"),
    ({"task": "sst2", "prompt": "{0} or {1}?"}, r"prompt: expected \{0\} for sst2"),
    ({"task": "rte", "verbalisers": ["yes"]}, "verbalisers: expected 2 words"),
    ({"task": "rte", "max_examples": 9}, "max_examples"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        GluePrompts(**options)
