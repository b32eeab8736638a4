import json
from dataclasses import replace
from pathlib import Path

import pytest

from depgen.data.generated import GeneratedLanguage
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.reporting.case_study import EMPTY, HUMAN, case_study, examples_of, load_study, study_names
from depgen.reporting.jobs import Job, fit
from depgen.reporting.measures import measures_of
from depgen.reporting.measures.texts import prompts_of
from depgen.reporting.table import Generation, load_definition
from depgen.training.runs import read_record
from tests.reporting.conftest import make_result, store_texts

STUDY = """
study: stories
caption: Endings
source: an invented paper, Table 8
table: toy
rows: [Base, DM-Base, Later]
contexts: 2
seed: 1
"""
PROMPTS, REFERENCES = prompts_of(GeneratedLanguage(train=6, valid=2, test=3, sentences=(5, 5)), Generation())


@pytest.fixture
def studies(project):
    folder = project / "experiments/case_studies"
    folder.mkdir()
    (folder / "stories.yaml").write_text(STUDY)
    (folder / "news.yaml").write_text(
        STUDY.replace("contexts: 2", "texts: 2\ntop_p: 0.7").replace("study: stories", "study: news")
    )
    return folder


def keep(row, seed, texts, *, prompts=PROMPTS, **how):
    store_texts(make_result(row, seed, {}), texts, prompts, **how)


def test_the_same_contexts_one_ending_a_system_and_the_human_one_last(studies):
    keep("Base", 1, ["b0", "b1", "b2"])
    keep("DM-Base", 2, ["d0", "", "d2"])
    definition = load_definition("toy")
    examples = examples_of(load_study("stories"), definition, size="small").examples
    assert len(examples) == 2
    for example in examples:
        place = PROMPTS.index(example.context)
        assert example.title == f"Context (test document {place + 1})"
        assert example.texts == (
            ("Base", (f"b{place}",)),
            ("DM-Base", (f"d{place}" if place != 1 else EMPTY,)),
            (HUMAN, (REFERENCES[place],)),
        )
    assert examples_of(load_study("stories"), definition, size="small").examples == examples
    drawn = set()
    for seed in range(20):
        study = replace(load_study("stories"), seed=seed)
        drawn.add(tuple(each.context for each in examples_of(study, definition, size="small").examples))
    assert len(drawn) == 3, "all pairs of the three contexts"


def test_texts_from_nothing_of_another_nucleus(studies):
    five, three = (Generation(seed=10, samples=number) for number in (5, 3))
    keep("Base", 1, ["wrong"] * 5, prompts=[""] * 5, generation=five)
    keep("Base", 1, ["b0", "b1", "b2", "b3", "b4"], prompts=[""] * 5, generation=five, top_p=0.7)
    keep("DM-Base", 1, ["d0", "d1", "d2"], prompts=[""] * 3, generation=three, top_p=0.7)
    (example,) = examples_of(load_study("news"), load_definition("toy"), size="small").examples
    assert (example.title, example.context) == (None, None)
    (_, base), (_, dm), (human, theirs) = example.texts
    assert [text[1] for text in base] == [text[1] for text in dm]
    assert (len(set(base)), human) == (2, HUMAN)
    stories = {
        " ".join(each.words())
        for each in GeneratedLanguage(train=6, valid=2, test=3, sentences=(5, 5)).documents("test")
    }
    assert set(theirs) <= stories
    assert len(theirs) == 2


VARIANTS = """
study: warm
caption: By temperature
source: an invented paper, Table 13
table: toy
rows: [Base]
texts: 2
seed: 1
first: true
"""
FROM_NOTHING = Generation(seed=10, samples=3)
TREE = {"heads": [2, 0, 2], "relations": ["nsubj", "root", "obj"]}


def of_temperatures(studies, more):
    (studies / "warm.yaml").write_text(VARIANTS + more)
    for temperature in (0.5, 1.0, 2.0):
        texts = [f"b{number} at {temperature}" for number in range(3)]
        keep(
            "Base", 1, texts, prompts=[""] * 3, generation=FROM_NOTHING, temperature=temperature, trees=[TREE] * 3,
        )  # fmt: skip
    return examples_of(load_study("warm"), load_definition("toy"), size="small")


def test_the_first_texts_of_each_variant(studies):
    found = of_temperatures(studies, "variants: {cold: {temperature: 0.5}, warm: {temperature: 2.0}}\n")
    (example,) = found.examples
    human = next(iter(GeneratedLanguage(train=6, valid=2, test=3, sentences=(5, 5)).documents("test")))
    assert example.texts[:2] == (
        ("Base, cold", ("b0 at 0.5", "b1 at 0.5")),
        ("Base, warm", ("b0 at 2.0", "b1 at 2.0")),
    )
    assert example.texts[2][1][0] == " ".join(human.words())
    assert "The first texts" in found.notes[0]
    assert not found.trees


def test_texts_are_shown_level_by_level(studies):
    found = of_temperatures(studies, "trees: levels\n")
    assert [(each.title, each.context) for each in found.examples] == [
        ("Base, text 1", "b0 at 1.0"),
        ("Base, text 2", "b1 at 1.0"),
    ]
    (first, root), (second, leaves) = found.examples[0].texts
    assert (first, second) == ("Iteration 1", "Iteration 2")
    assert root == ("I_tok: [ROOT]", "O_tok: at", "O_exp: [nsubj-HEAD-obj]")
    assert leaves == ("I_tok: [nsubj] at [obj]", "O_tok: b0 [pad] 1.0", "O_exp: [HEAD] [pad] [HEAD]")


def test_texts_are_drawn_with_their_trees(studies):
    of_temperatures(studies, "trees: pictures\n")
    text = case_study("warm", size="small")
    picture = Path("results/warm/trees-small.svg").read_text()
    assert text.count("b1 at 1.0") == 1
    assert picture.count(">nsubj<") == 2
    assert all(f">{word}<" in picture for word in ("b0", "b1", "Base, text 2"))


def test_the_files_and_the_text_say_where_texts_come_from(studies):
    keep("Base", 2, ["b0 <unk> [MALE]", "b0 <unk> [MALE]", "b0 <unk> [MALE]"])
    keep("Base", 3, ["another seed"] * 3)
    store_texts(make_result("DM-Base", 1, {}, date="2026-01-03"), ["d0", "d1", "d2"], PROMPTS)
    text, folder = case_study("stories", size="small"), Path("results/stories")
    assert text.startswith("Endings (size small)\n")
    assert text.count("  Base:    b0 <unk> [MALE]\n") == 2
    assert "- Texts of toy, nucleus 0.5; seeds of training: Base 2; DM-Base 1.\n" in text
    assert "2 cores, 1 thread, 2026-01-02 (Base); CPU" in text
    assert "2026-01-03 (DM-Base).\n- Without texts: Later.\n" in text
    markdown, page = ((folder / f"case-study-small.{ending}").read_text() for ending in ("md", "html"))
    assert "| Base | b0 &lt;unk&gt; \\[MALE\\] |\n" in markdown
    assert page.count("<tr><th>Base</th><td>b0 &lt;unk&gt; [MALE]</td></tr>") == 2
    assert "http" not in page


@pytest.mark.parametrize(
    ("name", "kept", "message"),
    [
        ("stories", [("Base", ["b0"], [""], {"generation": FROM_NOTHING})], "No texts of toy at size small"),
        ("news", [("Base", ["b0"], ["old"], {})], r"No texts of toy .*small.*0\.7.*--remeasure"),
        ("stories", [("Base", ["b0"], ["another"], {})], "Base wrote on other prompts than the test split has"),
        (
            "stories",
            [("Base", ["b"] * 3, PROMPTS, {}), ("DM-Base", ["d"] * 2, PROMPTS[:2], {})],
            "DM-Base wrote on other prompts",
        ),
    ],
)
def test_texts_that_do_not_compare_are_refused(studies, name, kept, message):
    for row, texts, prompts, how in kept:
        keep(row, 1, texts, prompts=prompts, **how)
    with pytest.raises(UserError, match=message):
        case_study(name, size="small")


def test_a_study_and_its_table_may_be_files_of_ones_own(studies, project, tmp_path):
    keep("Base", 1, ["b0", "b1", "b2"])
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.yaml").write_text((project / "experiments/tables/toy.yaml").read_text())
    (own / "my-study.yaml").write_text(STUDY.replace("table: toy", "table: mine.yaml"))
    assert load_study(str(own / "my-study.yaml")).table == str(own / "mine.yaml")
    assert case_study(str(own / "my-study.yaml")) == case_study("stories")


@pytest.mark.slow
def test_trained_systems_continue_invented_contexts(studies, depgen):
    invented = ["[MALE] was tired .", "it rained ."]
    (studies / "ours.yaml").write_text(STUDY.replace("contexts: 2", f"invented: {json.dumps(invented)}"))
    study, definition = load_study("ours"), load_definition("toy")
    with pytest.raises(UserError, match="Make them first: depgen reproduce toy"):
        examples_of(study, definition, size="small")
    run = fit(Job(definition, definition.row("DM-Base"), "small", 2), depgen).run
    found = examples_of(study, definition, size="small")
    assert [(each.title, each.context) for each in found.examples] == [
        (f"Context {number}", text) for number, text in enumerate(invented, start=1)
    ]
    texts = load(run).generate(invented, seed=1 + 2, top_p=0.5, max_new_tokens=60)["text"]
    assert [each.texts for each in found.examples] == [(("DM-Base", (text or EMPTY,)),) for text in texts]
    assert "seeds of training: DM-Base 2." in found.notes[1]
    assert read_record(run)["finished"][:10] in found.notes[2]
    assert found.notes[3] == "Without texts: Base, Later."


def test_the_case_studies_of_itexp_show_the_first_texts_that_their_tables_make(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    names = [name for name in study_names() if name.startswith("itexp_")]
    assert {*names} == {f"itexp_{each}" for each in ("table7", "table8", "table13", "table14", "figure7", "figure8")}
    for study in map(load_study, names):
        (measure,) = measures_of(load_definition(study.table))
        assert study.first
        made = {"temperature": getattr(measure, "temperatures", [1.0]), "options": [{"boost": {"amod": 10.0}}]}
        assert all(value in made[name] for how in study.variants.values() for name, value in how.items())
        assert study.variants or 1.0 in made["temperature"]
