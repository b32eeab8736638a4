import json
import re
from pathlib import Path

import pytest

from depgen.cli import main
from depgen.data.generated import GeneratedLanguage
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.reporting.case_study import EMPTY, HUMAN, case_study, examples_of, load_study, study_names
from depgen.reporting.generation import Generation
from depgen.reporting.jobs import Job, fit
from depgen.reporting.measures.texts import prompts_of
from depgen.reporting.numbers import measures_of
from depgen.reporting.table import load_definition
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


def test_another_seed_draws_others_and_all_are_drawn_in_the_end(studies):
    keep("Base", 1, ["b0", "b1", "b2"])
    drawn = set()
    for seed in range(20):
        (studies / "stories.yaml").write_text(STUDY.replace("seed: 1", f"seed: {seed}"))
        examples = examples_of(load_study("stories"), load_definition("toy"), size="small").examples
        drawn.add(tuple(example.context for example in examples))
    assert len(drawn) == 3


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


def test_three_formats_are_written_and_say_where_texts_come_from(studies):
    keep("Base", 2, ["b0 <unk> [MALE]", "b0 <unk> [MALE]", "b0 <unk> [MALE]"])
    text = case_study("stories", size="small")
    folder = Path("results/stories")
    assert {path.name for path in folder.iterdir()} == {f"case-study-small.{each}" for each in ("md", "txt", "html")}
    assert text == (folder / "case-study-small.txt").read_text()
    assert text.count("  Base:  b0 <unk> [MALE]\n") == 2
    assert "- Texts of toy, nucleus 0.5; seeds of training: Base 2.\n" in text
    assert "- Made on CPU (x86_64), 2 cores, 1 thread, 2026-01-02.\n" in text
    assert "- Without texts: DM-Base (not run yet), Later (not built yet).\n" in text
    markdown, page = (folder / "case-study-small.md").read_text(), (folder / "case-study-small.html").read_text()
    assert "| Base | b0 &lt;unk&gt; \\[MALE\\] |\n" in markdown
    assert markdown.index("| Base |") < markdown.index("| human |")
    assert page.count("<tr><th>Base</th><td>b0 &lt;unk&gt; [MALE]</td></tr>") == 2
    assert "http" not in page


def test_the_machines_and_days_of_the_rows_are_named_where_they_differ(studies):
    keep("Base", 1, ["b0", "b1", "b2"])
    store_texts(make_result("DM-Base", 1, {}, date="2026-01-03"), ["d0", "d1", "d2"], PROMPTS)
    found = examples_of(load_study("stories"), load_definition("toy"), size="small").notes[2]
    assert re.fullmatch(r"Made on .*, 2026-01-02 \(Base\); .*, 2026-01-03 \(DM-Base\)\.", found)


def test_the_size_is_said_where_a_table_has_several(studies, project):
    keep("Base", 1, ["b0", "b1", "b2"])
    assert case_study("stories", size="small").startswith("Endings (size small)\n")
    table = project / "experiments/tables/toy.yaml"
    table.write_text(f"{table.read_text()}sizes: [small]\n")
    assert case_study("stories").startswith("Endings\n")


def test_the_seed_of_training_can_be_chosen(studies):
    keep("Base", 1, ["one"] * 3)
    keep("Base", 2, ["two"] * 3)
    assert "  Base:  one\n" in case_study("stories", size="small")
    assert "  Base:  two\n" in case_study("stories", size="small", seeds=[3, 2])


def test_texts_from_nothing_are_no_endings(studies):
    keep("Base", 1, ["b0", "b1", "b2"], prompts=[""] * 3, generation=Generation(seed=10, samples=3))
    with pytest.raises(UserError, match="No texts of toy at size small"):
        case_study("stories", size="small")


@pytest.mark.parametrize("others", [PROMPTS[:2], [*PROMPTS[:2], "another"]])
def test_systems_that_wrote_on_other_prompts_do_not_stand_side_by_side(studies, others):
    keep("Base", 1, ["b0", "b1", "b2"])
    keep("DM-Base", 1, ["d"] * len(others), prompts=others)
    with pytest.raises(UserError, match="Base and DM-Base wrote on different prompts"):
        case_study("stories", size="small")


def test_a_changed_test_split_is_noticed(studies):
    keep("Base", 1, ["b0"], prompts=["another"])
    with pytest.raises(UserError, match="The test split has changed since Base wrote on it"):
        case_study("stories", size="small")


def test_without_texts_one_is_told_how_to_make_them_and_all_go_on(studies):
    store_texts(make_result("Base", 1, {}), ["b0"], ["old"], top_p=0.7).unlink()  # as an older version left it
    with pytest.raises(UserError, match=r"No texts of toy .*small.*0\.7.*--remeasure"):
        case_study("news", size="small")
    keep("Base", 1, ["b0", "b1", "b2"])
    text = case_study(size="small")
    assert text.startswith("news: No texts of toy at size small and nucleus 0.7.")
    assert "Endings (size small)" in text


def test_slips_in_the_file_are_named(studies):
    with pytest.raises(UserError, match="Case studies: news, stories"):
        load_study("poems")
    (studies / "stories.yaml").write_text(STUDY + "context: 3\n")
    with pytest.raises(UserError, match=r"stories\.yaml: context: "):
        load_study("stories")
    (studies / "stories.yaml").write_text(STUDY.replace("contexts: 2", "contexts: 0"))
    with pytest.raises(UserError, match="at least one text"):
        load_study("stories")
    (studies / "stories.yaml").write_text(f"{STUDY}invented: [it rained .]\n")
    with pytest.raises(UserError, match="Leave out one of them"):
        load_study("stories")


def test_a_study_and_its_table_may_be_files_of_ones_own(studies, project, tmp_path, capsys):
    keep("Base", 1, ["b0", "b1", "b2"])
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.yaml").write_text((project / "experiments/tables/toy.yaml").read_text())
    (own / "my-study.yaml").write_text(STUDY.replace("table: toy", "table: mine.yaml"))
    assert load_study(str(own / "my-study.yaml")).table == str(own / "mine.yaml")
    assert main(["case-study", str(own / "my-study.yaml")]) == 0
    assert capsys.readouterr().out.strip() == case_study("stories").strip()
    assert main(["case-study", str(own / "other.yaml")]) == 2
    assert "other.yaml is not there" in capsys.readouterr().err


def test_trees_are_of_texts_from_nothing_alone(studies):
    (studies / "stories.yaml").write_text(STUDY.replace("contexts: 2", "invented: [it rained .]\ntrees: levels"))
    with pytest.raises(UserError, match=r"stories\.yaml: trees are shown of texts written from nothing"):
        load_study("stories")


@pytest.mark.slow
def test_trained_systems_continue_invented_contexts(studies, depgen):
    invented = ["[MALE] was tired .", "it rained ."]
    (studies / "ours.yaml").write_text(STUDY.replace("contexts: 2", f"invented: {json.dumps(invented)}"))
    study, definition = load_study("ours"), load_definition("toy")
    with pytest.raises(UserError, match="Train them first: depgen reproduce toy"):
        examples_of(study, definition, size="small")
    run = fit(Job(definition, definition.row("DM-Base"), "small", 2), depgen).run
    found = examples_of(study, definition, size="small")
    assert [(each.title, each.context) for each in found.examples] == [
        (f"Context {number}", text) for number, text in enumerate(invented, start=1)
    ]
    texts = [each.text for each in load(run).generate(invented, seed=1 + 2, top_p=0.5, max_new_tokens=60)]
    assert [each.texts for each in found.examples] == [(("DM-Base", (text or EMPTY,)),) for text in texts]
    assert "seeds of training: DM-Base 2." in found.notes[1]
    assert read_record(run)["finished"][:10] in found.notes[2]
    assert found.notes[3] == "Without texts: Base (not run yet), Later (not built yet)."
    with pytest.raises(UserError, match="is trained at size small"):
        examples_of(study, definition, size="small", seeds=[1])


def test_the_papers_three_case_studies(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    dmlm = [name for name in study_names() if not name.startswith("itexp_")]
    assert dmlm == ["demo_endings", "dmlm_invented", "dmlm_table16", "dmlm_table8", "dmlm_table9"]
    systems = [row.name for row in load_definition("dmlm_table2").rows if row.in_paper]
    for name, shown in (("dmlm_table8", (3, 1)), ("dmlm_table9", (None, 1)), ("dmlm-table16", (None, 4))):
        study = load_study(name)
        assert (study.contexts, study.texts) == shown
        assert list(study.rows) == systems


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
