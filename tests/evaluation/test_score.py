"""`depgen score` on systems made on the spot: rows of every kind, both units, and what a user gets wrong."""

import csv
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas
import pytest
import yaml

import depgen
from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.reading import reading_of_run
from depgen.evaluation.trained import Trained
from depgen.evaluation.verbs import score as parts_of_score
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.udgn import UDGN
from tests.models.encoders import spread

TEXT = "The mother , who was Xyzzy , believed him .\nShe was pretty .\n\nThey saved his pie .\n"
VOCABULARY = Vocabulary.of_words(sorted({word.lower() for word in TEXT.split()} - {"xyzzy"}), specials=["mask_id"])
BACKBONE = partial(
    Transformer, layers=1, width=8, attention_heads=2, feedforward=8, positions="learned", max_length=520
)
LOWERCASE, SINGLE, BARE = (f"depgen.data.steps.{name}" for name in ("Lowercase", "SingleSentences", "BareWords"))


def lowered(*steps):
    return {"class_path": "depgen.data.corpora.Brown", "init_args": {"steps": [LOWERCASE, *steps]}}


SYSTEMS = {
    "causal": (
        partial(CausalLM, BACKBONE),
        lowered(SINGLE),
    ),
    "documents": (partial(DCLM, context=partial(ContextToContext, size=6), embedding_size=6), lowered()),
    "masked": (
        partial(UDGN, width=4, layers=1, attention_heads=2, head_size=3, parser_layers=1),
        lowered(SINGLE, BARE),
    ),
}


@pytest.fixture(autouse=True, scope="module")
def runs(tmp_path_factory):
    """Three systems as if they had been loaded out of run folders, which say what text they have learnt from."""
    loaded, root = {}, tmp_path_factory.mktemp("runs")
    for name, (make, corpus) in SYSTEMS.items():
        run = root / name
        run.mkdir()
        data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": corpus}}
        (run / "config.yaml").write_text(yaml.safe_dump({"data": data}))
        model, reading = spread(make(VOCABULARY.size)).eval(), reading_of_run(run)
        loaded[name] = Trained(model, VOCABULARY, run, Path(f"{name}.ckpt"), reading)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("depgen.evaluation.system.load_trained", lambda name, **options: in_form(loaded[name], **options))
        yield


def in_form(trained, *, form, device):
    return replace(trained, reading=replace(trained.reading, form=form or trained.reading.form))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def score(*arguments, **options):
    """The whole of what the verb prints."""
    parts = parts_of_score(*arguments, **options)
    return None if parts is None else "".join(parts)


def rows_of(content):
    """Columns by name; what reads as a number is one."""

    def number(cell):
        try:
            return float(cell)
        except ValueError:
            return cell or None

    head, *lines = csv.reader(content.splitlines(), delimiter="\t")
    return [dict(zip(head, map(number, line), strict=True)) for line in lines]


def test_own_words_are_what_stands_between_blanks(capsys, tmp_path):
    text = 'The  cat didn\'t run (at all).\nShe "ran".'
    system = depgen.load("causal", device="cpu")
    words, own = (system.score(text, by=by, tokens="rules") for by in ("word", "own_word"))
    assert own["word"].tolist() == [
        "The", "cat", "didn't", "run", "(at", "all).", "<eos>", "She", '"ran".', "<eos>"
    ]  # fmt: skip
    assert own["position"].tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]
    assert own["log_prob"].sum() == pytest.approx(words["log_prob"].sum())
    negated = words[words["word"].isin(["did", "n't"])]
    assert own["log_prob"][2] == pytest.approx(negated["log_prob"].sum())
    assert [text[start:end] for start, end in zip(own["start"], own["end"], strict=True) if end > start] == [
        word for word in own["word"] if word != "<eos>"
    ]
    command = ["score", "--text", text, "--run", "causal", "--by", "own_word", "--tokens", "rules", "--device", "cpu"]
    assert main(command) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [row["log_prob"] for row in rows] == pytest.approx(own["log_prob"], abs=1e-5)
    files = {"t.txt": text, "t.jsonl": json.dumps({"sentences": text.split("\n"), "item": 7})}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        rows = rows_of(score(tmp_path / name, run="causal", by="own_word", tokens="rules"))
        assert [row["word"] for row in rows] == own["word"].tolist()
        assert [row["log_prob"] for row in rows] == pytest.approx(own["log_prob"], abs=1e-5)
        assert {row.get("item") for row in rows} == {None if name == "t.txt" else 7}
        assert "start" not in rows[0]


def test_own_words_of_a_file_are_in_the_sentences_that_a_run_reads(tmp_path, monkeypatch):
    def of_raw_text(*names, **options):
        system = depgen.load("causal", device="cpu")
        return replace(system, reading=replace(system.reading, tokens="rules", splitter="sentencizer"))

    monkeypatch.setattr("depgen.evaluation.verbs.load", of_raw_text)
    (tmp_path / "a.txt").write_text("The cat ran. It didn't sit.\n")
    rows, of_text = (
        rows_of(score(run="causal", by="own_word", **source))
        for source in ({"file": tmp_path / "a.txt"}, {"text": "The cat ran. It didn't sit."})
    )
    assert [row["word"] for row in rows] == ["The", "cat", "ran.", "<eos>", "It", "didn't", "sit.", "<eos>"]
    assert [row["log_prob"] for row in rows] == pytest.approx([row["log_prob"] for row in of_text], abs=1e-5)
    assert [row["sentence"] for row in rows] == [1, 1, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("steps", "documents", "expected"),
    [
        ([], None, [2, 0, 2, 1, 1, 1, 3]),
        ([LOWERCASE], None, [3, 0, 2, 1, 1, 1, 3]),
        ([LOWERCASE], 1, [2, 0, 2, 1, 1, 0, 2]),
        ([LOWERCASE, BARE], None, [3, 0, 2, 1, 1, 1, None]),
    ],
)
def test_frequencies_are_counts_in_a_training_text(tmp_path, steps, documents, expected):
    (tmp_path / "train.txt").write_text("The cat didn't sit. Then the cat left.\nThe mat is old.\n")
    for split in ("valid", "test"):
        (tmp_path / f"{split}.txt").write_text("The cat is in no training text.\n")
    corpus = {"class_path": "depgen.data.corpora.RawText", "init_args": {"folder": str(tmp_path), "steps": steps}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": corpus, "max_documents": documents}}
    config = tmp_path / "mine.yaml"
    config.write_text(yaml.safe_dump({"data": data}))
    text = "The owl cat didn't mat."
    words, own = (
        depgen.load("causal", device="cpu").score(text, tokens="rules", frequency=config, by=by)
        for by in ("word", "own_word")
    )
    assert words["word"].tolist() == ["The", "owl", "cat", "did", "n't", "mat", ".", "<eos>"]
    assert [None if pandas.isna(count) else count for count in words["frequency"]] == [*expected, None]
    rarest = min(count for count in expected[5:] if count is not None)
    assert own["frequency"].tolist()[:-1] == [*expected[:3], 1, rarest]
    rows = rows_of(score(text=text, run="causal", tokens="rules", frequency=str(config)))
    assert [row["frequency"] for row in rows] == [*expected, None]
    at_blanks = rows_of(score(text=text, run="causal", tokens="whitespace", frequency=str(config)))
    assert [row["word"] for row in at_blanks] == ["The", "owl", "cat", "didn't", "mat.", "<eos>"]
    assert [row["frequency"] for row in at_blanks] == [*expected[:3], 1, rarest, None]


def test_frequencies_are_not_those_of_a_pretrained_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="frequency: expected a run"):
        score(text="the cat", run="causal", frequency=str(tmp_path))


def test_words_are_rows_in_the_form_that_the_run_has_learnt_from(text):
    rows = rows_of(score(text, run="causal"))
    assert list(rows[0]) == [
        "document", "sentence", "position", "word", "tokens", "unknown", "is_end", "log_prob", "likelihood",
        "beam_size", "begin", "unit", "surprisal",
    ]  # fmt: skip
    lines = [line.split() for line in TEXT.splitlines() if line]
    assert [row["word"] for row in rows] == [word for line in lines for word in [*line, "<eos>"]]
    assert [(row["document"], row["sentence"]) for row in rows if row["position"] == 1] == [(1, 1), (1, 2), (2, 1)]
    assert {row["likelihood"] for row in rows} == {"exact"}
    assert all(row["surprisal"] == -row["log_prob"] > 0 for row in rows)
    assert [row["word"] for row in rows if row["unknown"]] == ["Xyzzy"], "The and She are known in lower case"
    as_written = rows_of(score(text, run="causal", form="as_is"))
    assert [row["word"] for row in as_written if row["unknown"]] == ["The", "Xyzzy", "She", "They"]


@pytest.mark.parametrize(("system", "reads"), [("causal", None), ("causal", "document"), ("documents", None)])
def test_sentences_documents_and_all_are_sums_of_words(text, system, reads):
    words, sentences, documents, (everything,) = (
        rows_of(score(text, run=system, by=by, reads=reads)) for by in ("word", "sentence", "document", "all")
    )
    for level, rows in (("sentence", sentences), ("document", documents)):
        for row in rows:
            own = [each for each in words if all(each[name] == row[name] for name in ("document", level))]
            assert row["log_prob"] == pytest.approx(sum(each["log_prob"] for each in own), abs=1e-5)
            assert row["words"] == sum(each["word"] != "<eos>" for each in own)
            assert row["tokens"] == len(own)
            assert row["perplexity"] == pytest.approx(math.exp(-row["log_prob"] / len(own)), rel=1e-5)
    assert everything["log_prob"] == pytest.approx(sum(row["log_prob"] for row in documents), abs=1e-5)
    counts = [everything[name] for name in ("documents", "sentences", "words", "unknown", "tokens")]
    assert counts == [2, 3, 19, 1, 21 if reads == "document" else 22]
    assert [row["text"] for row in sentences] == [line for line in TEXT.splitlines() if line]
    assert [row["place"] for row in sentences] == ["text.txt:1", "text.txt:2", "text.txt:4"]
    assert [row["identifier"] for row in documents] == ["text.txt:1", "text.txt:4"]


def test_a_document_model_reads_documents_unless_told_otherwise(text):
    whole, again, apart = (
        rows_of(score(text, run="documents", by="sentence", reads=reads)) for reads in (None, "document", "sentence")
    )
    assert whole == again
    same = [
        one["log_prob"] == pytest.approx(other["log_prob"], abs=1e-5) for one, other in zip(whole, apart, strict=True)
    ]
    assert same == [True, False, True], "the second sentence alone has one before it"


@pytest.mark.parametrize("by", ["word", "all"])
def test_bits_are_nats_over_the_logarithm_of_two(text, by):
    nats, bits = (rows_of(score(text, run="causal", by=by, unit=unit)) for unit in ("nats", "bits"))
    for one, other in zip(nats, bits, strict=True):
        assert other["surprisal"] == -other["log_prob"] == pytest.approx(one["surprisal"] / math.log(2), abs=1e-5)
        assert other.get("perplexity") == one.get("perplexity")


@pytest.mark.parametrize("by", ["word", "document", "all"])
def test_json_lines_hold_what_the_columns_hold(text, tmp_path, by):
    output = tmp_path / "scores.jsonl"
    assert score(text, run="causal", by=by, unit="bits", json=True, output=output) is None
    found = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    columns = rows_of(score(text, run="causal", by=by, unit="bits"))
    assert [list(row) for row in found] == [list(row) for row in columns]
    for row, expected in zip(found, columns, strict=True):
        assert row["unit"] == expected["unit"] == "bits"
        assert row["beam_size"] is expected["beam_size"] is None
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        assert numbers == pytest.approx({name: expected[name] for name in numbers}, abs=1e-6)
    if by == "word":
        assert {type(row["unknown"]) for row in found} == {bool}


def test_pseudo_likelihoods_have_perplexities_of_their_own_and_unread_words_no_score(text):
    (row,) = rows_of(score(text, run="masked", by="all"))
    assert row["likelihood"] == "pseudo"
    assert {"pseudo_perplexity", "token_pseudo_perplexity", "known_word_pseudo_perplexity"} <= row.keys()
    assert not [name for name in row if name.endswith("perplexity") and "pseudo" not in name]
    assert row["words"] == row["tokens"] == 14
    unread = [each for each in rows_of(score(text, run="masked")) if not each["tokens"]]
    assert [each["word"] for each in unread] == [",", ",", ".", ".", "."]
    assert all(each["log_prob"] is each["surprisal"] is None for each in unread)


@pytest.mark.parametrize(("system", "tokens"), [("causal", [2, 501]), ("documents", [2, 501]), ("masked", [1, 60])])
def test_a_sentence_of_a_word_and_a_very_long_one(tmp_path, system, tokens):
    path = tmp_path / "t.txt"
    path.write_text(f"late\n{'his mother was pretty ' * (tokens[1] // 4)}\n")
    assert [row["tokens"] for row in rows_of(score(path, run=system, by="sentence"))] == tokens


def test_a_text_without_a_word_that_is_read_is_refused(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("...\n``\n")
    with pytest.raises(UserError, match=r"xpected words .* found none in the form `bare`.*--form"):
        score(path, run="masked")


ODD = ['"', "NA", "null", "a,b", '"no"', "#", "'s", "nan", "\u201cyes\u201d"]
"""Words that readers of tables take for something else, if they may."""


@pytest.mark.parametrize(("ending", "separator"), [(".tsv", "\t"), (".txt", "\t"), (".csv", ",")])
def test_other_programs_read_every_word_as_it_is(tmp_path, ending, separator):
    path, output = tmp_path / "t.txt", tmp_path / f"scores{ending}"
    path.write_text(f"{' '.join(ODD)}\n" * 2, encoding="utf-8")
    assert score(path, run="masked", form="as_is", output=output) is None
    assert score(path, run="masked", form="bare", by="sentence", output=tmp_path / f"sums{ending}") is None
    read = partial(pandas.read_csv, sep=separator, keep_default_na=False, na_values="")  # as the guide says
    frame, sums = read(output), read(tmp_path / f"sums{ending}")
    assert frame["word"].tolist() == ODD * 2
    assert frame["surprisal"].dtype == float
    assert sums["text"].tolist() == [" ".join(ODD)] * 2


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.jsonl"
    lines = [
        {
            "id": "x7",
            "sentences": ["They saved him .", "She was pretty ."],
            "item": 1,
            "weight": 1e-9,
            "regions": [1, "a"],
        },
        {"sentences": [["His", "mother"]], "item": 2, "condition": 'so "called"'},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("by", ["word", "sentence", "document"])
def test_fields_of_json_lines_are_columns_of_every_row(items, by):
    columns = rows_of(score(items, run="causal", by=by))
    lines = [json.loads(line) for line in score(items, run="causal", by=by, json=True).splitlines()]
    names = ["id", "item", "weight", "regions", "condition"]
    for rows, regions in ((columns, "[1, 'a']"), (lines, [1, "a"])):
        first, *_, last = rows
        assert list(first)[:6] == ["document", *names]
        assert [first[name] for name in names] == ["x7", 1, 1e-9, regions, None]
        assert [last[name] for name in names] == [None, 2, None, None, 'so "called"']
        assert [row["item"] for row in rows] == [row["document"] for row in rows]
    (total,) = rows_of(score(items, run="causal", by="all"))
    assert not {*names} & {*total}


def test_a_field_with_the_name_of_a_column_is_left_out_with_a_warning(items, caplog):
    items.write_text('{"id": "x", "text": "They saved him .", "place": 1, "unit": "s"}\n')
    assert {row["unit"] for row in rows_of(score(items, run="causal"))} == {"nats"}
    assert "The scores have columns of their own called unit: those of the texts are left out" in caplog.text
    items.write_text('{"id": "x", "text": "They saved him .", "place": 1}\n')
    assert rows_of(score(items, run="causal"))[0]["place"] == 1, "rows of words have no such column"
    (row,) = rows_of(score(items, run="causal", by="sentence"))
    assert row["place"] == "x"
    assert "called place:" in caplog.text


@pytest.mark.parametrize("by", ["word", "sentence"])
def test_fields_called_start_and_end_are_kept_for_files_which_have_no_such_columns(items, caplog, by):
    items.write_text('{"id": "x", "text": "They saved him .", "start": 1.5, "end": "b"}\n')
    rows = [json.loads(line) for line in score(items, run="causal", by=by, json=True).splitlines()]
    assert {(row["start"], row["end"]) for row in rows} == {(1.5, "b")}
    assert "left out" not in caplog.text


def test_rows_of_a_treebank_name_its_sentences(tmp_path):
    path = tmp_path / "t.conllu"
    columns = "\t_" * 8
    path.write_text(f"# newdoc id = d\n# sent_id = s-1\n1\tThey{columns}\n\n1\tsaved{columns}\n\n")
    words, sentences, documents = (rows_of(score(path, run="causal", by=by)) for by in ("word", "sentence", "document"))
    assert [row["sent_id"] for row in words] == ["s-1", "s-1", None, None]
    assert [row["sent_id"] for row in sentences] == ["s-1", None]
    assert "sent_id" not in documents[0]
