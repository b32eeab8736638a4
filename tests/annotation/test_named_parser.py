"""`depgen parse --parser`: raw text and CoNLL-U parsed by a parser that `train-parser` made."""

from pathlib import Path

import pytest
import yaml

from depgen.annotation.annotator import parser_named
from depgen.annotation.spacy import SpacyAnnotator
from depgen.annotation.supar import SuparAnnotator
from depgen.cli import main
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Sentence

GENERATED = "depgen.data.generated.GeneratedLanguage"
WORDS = ("The", "dog", "sees", "a", "small", "cat", ".")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "annotator"), [("toy", SpacyAnnotator), ("toy_supar", SuparAnnotator)])
def test_text_is_parsed_by_the_parser(own_cache, toy_parsers, tmp_path, capsys, name, annotator):
    (tmp_path / "a.txt").write_text("The dog sees a small cat.\n")
    options = ["--input", str(tmp_path / "a.txt"), "--tokens", "rules"]
    assert main(["parse", "--parser", name, *options]) == 0
    content = capsys.readouterr().out
    assert content.splitlines()[:2] == ["# sent_id = a.txt:1", "# text = The dog sees a small cat."]
    (tmp_path / "b.conllu").write_text(content)
    (document,) = read_conllu(tmp_path / "b.conllu")
    (expected,) = annotator(name).annotate([Sentence(WORDS)])
    assert document.sentences == (expected,)
    assert set(expected.relations) > {"root"}
    assert main(["parse", "--parser", str(own_cache / "parsers" / name), "--input", str(tmp_path / "b.conllu")]) == 0
    assert capsys.readouterr().out.strip() == content.strip()


@pytest.mark.slow
def test_a_parser_and_a_run_exclude_each_other(own_cache, toy_parsers, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("The dog sees a small cat.\n")
    for option in (["--run", "udgn"], ["--form", "bare"], ["--device", "cpu"], ["--attention_head", "[0,1]"]):
        assert main(["parse", "--parser", "toy", "--input", str(tmp_path / "a.txt"), *option]) == 2
        assert f"--parser can't be combined with {option[0]}" in capsys.readouterr().err


def test_an_annotator_goes_by_the_kind_of_the_folder(own_cache, toy_parsers):
    assert isinstance(parser_named("toy"), SpacyAnnotator)
    assert isinstance(parser_named("toy_supar"), SuparAnnotator)


@pytest.mark.parametrize(
    ("name", "class_path", "argument"),
    [("toy", "spacy.SpacyAnnotator", "pipeline"), ("toy_supar", "supar.SuparAnnotator", "path")],
)
def test_fit_learns_from_the_trees_of_a_parser_by_its_name(own_cache, toy_parsers, capsys, name, class_path, argument):
    experiment = ["--config", "experiments/dmlm_brown.yaml", "--data.init_args.corpus", GENERATED]
    assert main(["fit", *experiment, "--parser", name, "--print_config"]) == 0
    annotator = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]["annotator"]
    assert annotator["class_path"] == f"depgen.annotation.{class_path}"
    assert annotator["init_args"][argument] == name


@pytest.mark.parametrize("place", ["folder", "package", "run"])
def test_fit_keeps_the_absolute_path_of_a_folder_and_the_name_of_a_package(
    own_cache, tmp_path, monkeypatch, capsys, place
):
    for each in ("a_b_spacy/meta.json", "a_b_spacy/__init__.py", "run/run.json", "run/checkpoints/best.ckpt"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("{}")
    monkeypatch.syspath_prepend(tmp_path)
    experiment = ["--config", str(Path("experiments/dmlm_brown.yaml").absolute())]
    experiment += ["--data.init_args.corpus", GENERATED, "--print_config"]
    monkeypatch.chdir(tmp_path)
    given = {"folder": "./a_b_spacy", "package": "a_b_spacy", "run": "../" + tmp_path.name + "/run"}[place]
    assert main(["fit", *experiment, "--parser", given]) == 0
    arguments = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]["annotator"]["init_args"]
    found = arguments["run" if place == "run" else "pipeline"]
    assert found == "a_b_spacy" if place == "package" else Path(found).samefile(given) and Path(found).is_absolute()


def test_two_annotators_are_refused(own_cache, toy_parsers, capsys):
    experiment = ["--config", "experiments/dmlm_brown.yaml", "--data.init_args.annotator", "RightChain"]
    assert main(["fit", *experiment, "--parser", "toy"]) == 2
    assert "Give only one of --parser and --data.init_args.annotator" in capsys.readouterr().err
