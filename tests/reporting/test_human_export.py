import csv
import json
from pathlib import Path

import pytest

from depgen.cli import main
from depgen.data.generated import GeneratedLanguage
from depgen.errors import UserError
from depgen.evaluation.human.questionnaire import read_key
from depgen.reporting.generation import Generation
from depgen.reporting.human_export import OF_PAPER, export
from depgen.reporting.table import load_definition
from tests.reporting.conftest import make_result, store_texts

CONTEXTS = [f"beginning {number} ." for number in range(8)]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def files(project):
    """Texts of two systems, their contexts and human sentences, as plain files."""
    write(project / "a.txt", [f"alpha {number} ." for number in range(8)])
    write(project / "b.txt", ["", "alpha 1 .", *(f"beta {number} ." for number in range(2, 8))])
    write(project / "contexts.txt", CONTEXTS)
    write(project / "real.txt", [f"human {number} ." for number in range(5)])
    return project


@pytest.fixture
def rows(project):
    """What `depgen reproduce` leaves of two rows, and which contexts they had."""
    for row, word in (("Base", "beta"), ("DM-Base, left chain", "alpha")):
        store_texts(make_result(row, 2, {}), [f"{word} {number} ." for number in range(8)], CONTEXTS)
    return project


def test_a_comparison_of_plain_files(files, capsys):
    arguments = ["--texts", "DM=a.txt", "Base=b.txt", "--contexts", "contexts.txt", "-n", "5", "--raters", "2"]
    assert main(["human-eval", "export", *arguments, "--output", "out"]) == 0
    said = capsys.readouterr().out
    assert "5 pairs of DM and Base for 2 raters in out." in said
    assert "draw: 1 with an empty text, 1 of identical texts (empty texts: DM 0 of 8, Base 1 of 8).\n" in said
    assert "depgen human-eval score out" in said
    found = sorted(str(path.relative_to(files / "out")) for path in (files / "out").rglob("*"))
    sheets = [f"raters/rater-{number}.{ending}" for number in (1, 2) for ending in ("csv", "html")]
    assert found == ["answers", "key.json", "raters", "raters/instructions.txt", *sheets]
    asked = read_key(files / "out/key.json")
    assert asked.systems == ("DM", "Base")
    assert asked.profile is None
    assert asked.top_p is None
    assert asked.sources["Base"].file == "b.txt"
    assert (asked.sources["Base"].texts, asked.sources["Base"].empty) == (8, 1)
    assert all(item.context == CONTEXTS[item.line - 1] for item in asked.items)


def test_nothing_that_raters_get_says_who_wrote_what(files):
    export(texts=["DM-Net=a.txt", "Base-Net=b.txt"], contexts=files / "contexts.txt", output=files / "out", number=5)
    export(texts=["DM-Net=a.txt", "Base-Net=b.txt"], real=files / "real.txt", output=files / "mixed", number=5)
    sent = [path for folder in ("out", "mixed") for path in (files / folder / "raters").iterdir()]
    assert len(sent) == 22
    for path in sent:
        content = path.read_text(encoding="utf-8-sig")
        assert not any(word in content for word in ("Net", "Real data", "a.txt", "b.txt", "real.txt"))
        assert "Net" not in path.name


def test_rows_of_a_table(rows):
    said = export(
        texts=["DM-Base, left chain", "Base"],
        table="toy",
        size="small",
        training_seed=2,
        number=4,
        output=rows / "out",
    )
    asked = read_key(rows / "out/key.json")
    assert asked.systems == ("DM-Base, left chain", "Base")
    assert asked.profile == "small"
    assert asked.top_p == 0.5
    assert asked.items[0].texts[0].startswith("alpha")
    assert asked.items[0].context == CONTEXTS[asked.items[0].line - 1]
    assert "4 pairs of DM-Base, left chain and Base" in said


def test_a_row_beside_a_plain_file(rows):
    write(rows / "a.txt", [f"other {number} ." for number in range(8)])
    export(texts=["Base", "Other=a.txt"], table="toy", size="small", training_seed=2, number=4, output=rows / "out")
    assert read_key(rows / "out/key.json").sources["Other"].file == "a.txt"


@pytest.mark.parametrize("table", ["toy", "dmlm_table2"])
@pytest.mark.parametrize("other", [[], ["Other=a.txt"]])
def test_the_papers_words_are_for_rows_of_its_tables_alone(rows, table, other):
    path = rows / "experiments/tables/toy.yaml"
    path.with_stem(table).write_text(path.read_text().replace("table: toy", f"table: {table}"))
    for row in ("Base", "DM-Base, left chain"):
        store_texts(make_result(row, 2, {}, table=table), [f"{row} {number} ." for number in range(8)], CONTEXTS)
    write(rows / "a.txt", [f"other {number} ." for number in range(8)])
    texts = ["Base", *(other or ["DM-Base-left-chain"])]
    export(texts=texts, table=table, size="small", training_seed=2, number=4, output=rows / "out")
    asked, said = read_key(rows / "out/key.json"), (rows / "out/raters/instructions.txt").read_text()
    assert asked.profile == "small"
    assert asked.of_paper == ("[MALE]" in said) == (table == "dmlm_table2" and not other)
    assert asked.of_paper == ("the texts may be lower-cased" not in said)


def test_the_tables_of_a_paper_write_texts(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    for kind, tables in OF_PAPER.items():
        for table in tables:
            definition = load_definition(table)
            assert definition.generation is not None
            assert (definition.generation.samples is None) == (kind == "pairwise")


def test_of_several_nuclei_one_is_named_and_its_texts_are_taken(rows):
    path = rows / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("header: B-1,", "header: B-1, top_p: 0.7,"))
    for row in ("Base", "DM-Base, left chain"):
        store_texts(make_result(row, 2, {}), [f"{row} warm {n} ." for n in range(8)], CONTEXTS, top_p=0.7)
    options = {"texts": ["DM-Base, left chain", "Base"], "table": "toy", "size": "small", "training_seed": 2}
    options |= {"number": 4, "output": rows / "out"}
    with pytest.raises(UserError, match=r"toy .*0\.5, 0\.7: .*--top-p"):
        export(**options)
    with pytest.raises(UserError, match=r"toy has no texts .*0\.8, .*0\.5, 0\.7"):
        export(**options, top_p=0.8)
    export(**options, top_p=0.7)
    asked = read_key(rows / "out/key.json")
    assert asked.top_p == 0.7
    assert "/seed2/2026-01-01/texts/4-sentences_top-p-0.7_" in asked.sources["Base"].file
    assert all("warm" in text for item in asked.items for text in item.texts)
    export(**{**options, "output": rows / "cold"}, top_p=0.5)
    assert "/texts/4-sentences_top-p-0.5_" in read_key(rows / "cold/key.json").sources["Base"].file


def test_contexts_must_be_the_same(rows):
    store_texts(make_result("Base", 2, {}), ["beta ."] * 8, ["another ."] * 8)
    with pytest.raises(UserError, match=r"jsonl and .*jsonl have different contexts"):
        export(texts=["DM-Base-left-chain", "Base"], table="toy", size="small", training_seed=2, output=rows / "out")


def test_a_row_without_texts_says_what_makes_them(rows):
    store_texts(make_result("Base", 3, {}), ["beta ."], ["a ."]).unlink()
    for seed in (1, 3):  # without a result, and with one of an older version
        with pytest.raises(UserError, match=rf"toy --row Base --size small --seeds '\[{seed}\]' --remeasure"):
            export(texts=["Base", "DM-Base"], table="toy", size="small", training_seed=seed, output=rows / "out")


def test_texts_from_nothing_have_no_contexts(rows):
    how = Generation(seed=10, samples=8)
    for row in ("Base", "DM-Base, left chain"):
        store_texts(make_result(row, 2, {}), [f"{row} {number} ." for number in range(9)], [""] * 9, generation=how)
    options = {"texts": ["DM-Base, left chain", "Base"], "table": "toy", "size": "small", "training_seed": 2}
    with pytest.raises(UserError, match="give --contexts FILE"):
        export(**options, output=rows / "out")
    write(rows / "real.txt", [f"human {number} ." for number in range(8)])
    export(**options, real=rows / "real.txt", number=8, output=rows / "out")
    assert read_key(rows / "out/key.json").sources["Base"].texts == 8


def test_a_turing_test_of_plain_files(files):
    said = export(texts=["DM=a.txt", "Base=b.txt"], real=files / "real.txt", number=5, raters=3, output=files / "out")
    assert "draw: empty texts (DM 0 of 8, Base 1 of 8, Real data 0 of 5).\n" in said
    asked = read_key(files / "out/key.json")
    assert asked.kind == "turing"
    assert asked.systems == ("DM", "Base", "Real data")
    assert asked.sources["Real data"].file.endswith("real.txt")
    with (files / "out/raters/rater-3.csv").open(encoding="utf-8-sig", newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 15


def test_a_questionnaire_is_not_overwritten_by_another(files):
    options = {"contexts": files / "contexts.txt", "number": 4, "output": files / "out"}
    export(texts=["DM=a.txt", "Base=b.txt"], **options)
    before = (files / "out/key.json").read_text()
    export(texts=["DM=a.txt", "Base=b.txt"], **options)
    with pytest.raises(UserError, match="belongs to another questionnaire"):
        export(texts=["DM=a.txt", "Base=b.txt"], seed=1, **options)
    assert (files / "out/key.json").read_text() == before
    assert json.loads(before)["seed"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["DM=a.txt"]}, "two systems to compare, found 1"),
        ({"texts": ["DM=a.txt", "DM=b.txt"]}, "different names, found DM, DM"),
        ({"texts": ["DM=a.txt", "Base"]}, "expected Base=FILE, or --table"),
        ({"texts": ["DM=a.txt", "Base=b.txt"], "top_p": 0.7}, "none is a table's row: leave --top-p out"),
        (
            {"texts": ["DM=a.txt", "Base=b.txt"], "table": "toy", "size": "small", "training_seed": 1},
            "leave --table, --size, --training-seed out",
        ),
        ({"texts": ["DM=a.txt", "=b.txt"]}, "--texts =b.txt: expected NAME=FILE"),
        ({"texts": ["DM=a.txt", "Base=none.txt"]}, "No file at"),
        ({"texts": ["DM=a.txt", "Base=b.txt"], "contexts": None}, "give --contexts FILE"),
        ({"texts": ["DM=a.txt", "Base=b.txt"]}, "at least 100 pairs of DM and Base to draw from, found 6"),
    ],
)
def test_what_is_wrong_is_said(files, options, message):
    with pytest.raises(UserError, match=message):
        export(**{"contexts": Path("contexts.txt"), "output": Path("out")} | options)
    assert not Path("out").exists()


def test_a_turing_test_has_no_contexts(files):
    with pytest.raises(UserError, match="leave --contexts out"):
        export(texts=["DM=a.txt"], real=files / "real.txt", contexts=files / "contexts.txt", output=files / "out")


def test_ratings_take_texts_at_the_chosen_temperature_and_sentences_of_a_split(project):
    path = project / "experiments/tables/toy.yaml"
    more = "  - {name: Real, experiment: base_toy, floor: valid, in_paper: false}\n"
    path.write_text(path.read_text().replace("prompt_sentences: 4", "samples: {small: 9, paper: 5}") + more)
    how = Generation(seed=10, samples=4)
    for temperature in (1.0, 0.7):
        texts = [f"{temperature} {number}" for number in range(4)]
        result = make_result("Base", 1, {"temperature": 0.7})
        store_texts(result, texts, [""] * 4, generation=how, temperature=temperature)
    export(
        texts=["Base", "Real"], table="toy", size="small", rate=True, number=4, raters=2, per_sentence=1,
        output=project / "out",
    )  # fmt: skip
    asked = read_key(project / "out/key.json")
    assert {item.texts[0] for item in asked.items if item.systems == ("Base",)} == {f"0.7 {k}" for k in range(4)}
    real = {
        " ".join(each.words())
        for each in GeneratedLanguage(train=6, valid=2, test=3, sentences=(5, 5)).documents("valid")
    }
    sentences = [item.texts[0] for item in asked.items if item.systems == ("Real",)]
    assert all(any(sentence in story for story in real) for sentence in sentences)
    assert asked.sources["Real"].texts == 9
    assert asked.sources["Real"].file.endswith(", valid")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_sentence": 3}, "add --rate"),
        ({"rate": True, "real": Path("real.txt")}, "name real ones by --texts"),
        ({"rate": True, "contexts": Path("contexts.txt")}, "leave --contexts out"),
    ],
)
def test_options_of_other_questionnaires_are_refused(files, options, message):
    with pytest.raises(UserError, match=message):
        export(texts=["DM=a.txt", "Base=b.txt"], number=2, output=Path("out"), **options)
