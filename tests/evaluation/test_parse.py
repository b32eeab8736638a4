import gzip
from dataclasses import replace

import pytest

from depgen.annotation.controls import LeftChain
from depgen.cli import main
from depgen.evaluation import verbs
from depgen.evaluation.induced import InducedTrees
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import load
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Sentence
from tests.evaluation.test_parsing import BRACKETED, PUSHDOWN, system_of

CONLLU = """# newdoc id = letter
# sent_id = letter-1
# text = Don't go, dog!
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\tMood=Ind\t7\twrong\t3:aux\tA=1
2\tn't\tnot\tPART\tRB\t_\t2\taux\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t_\t_\t0:root\tSpaceAfter=No
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t3:conj\t_
4\t,\t,\tPUNCT\t,\t_\tx\t_\t_\t_
5\tdog\tdog\tNOUN\tNN\t_\t3\tvocative\t_\tSpaceAfter=No
6\t!\t!\tPUNCT\t.\t_\t3\tpunct\t_\t_

# a comment of its own
1\t...\t...\tPUNCT\t.\t_\t_\t_\t_\t_
2\t!\t!\tPUNCT\t.\t_\t_\t_\t_\t_

"""


def parsed(capsys, *arguments):
    capsys.readouterr()
    code = main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def refusal(capsys, *arguments):
    assert main(["parse", "--run", "udgn", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def rows(content):
    return [[line.split("\t") for line in part.splitlines()] for part in content.rstrip("\n").split("\n\n")]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("The dog , she said , ran .\n\n  ( ... )  \nDogs\nShe ran 3 km\n")
    return path


def test_text_becomes_conllu_and_no_word_is_lost(parsing_run, text, capsys):
    content = parsed(capsys, "parse", "--run", parsing_run, "--input", text)
    sentences = rows(content)
    assert [part[0][0] for part in sentences] == [f"# sent_id = story.txt:{line}" for line in (1, 3, 4, 5)]
    assert sentences[1][1] == ["# text = ( ... )"]
    lines = [line.split() for line in text.read_text().splitlines() if line.strip()]
    assert [[row[1] for row in part[2:]] for part in sentences] == lines
    annotated = InducedTrees(str(parsing_run)).annotate([Sentence(tuple(line)) for line in lines])
    assert [tuple(int(row[6]) for row in part[2:]) for part in sentences] == [each.heads for each in annotated]
    assert [tuple(row[7] for row in part[2:]) for part in sentences] == [each.relations for each in annotated]
    assert annotated[1].heads == (0, 1, 1)


def test_what_has_constituents_writes_brackets(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(verbs, "load", lambda run, **_: system_of(PUSHDOWN))
    path, output = tmp_path / "text.txt", tmp_path / "brackets.txt"
    path.write_text(BRACKETED)
    expected = system_of(PUSHDOWN).parse(BRACKETED, beam_size=300).to_brackets()
    assert parsed(capsys, "parse", "--input", path, "--beam_size", "300") == expected
    assert parsed(capsys, "parse", "--input", path, "--format", "brackets", "--output", output) == ""
    assert output.read_text() == expected
    assert "conllu holds tree or graph, found constituency" in refusal(capsys, "--input", path, "--format", "conllu")


def test_text_may_be_cut_by_rules_and_read_as_it_is(parsing_run, tmp_path, monkeypatch, capsys):
    path = tmp_path / "raw.conllu"
    path.write_text("She didn't run.\n")
    options = ["--run", "udgn", "--input", path, "--input_format", "text"]
    (sentence,) = rows(parsed(capsys, "parse", *options, "--tokens", "rules"))
    assert [row[1] for row in sentence[2:]] == ["She", "did", "n't", "run", "."]
    assert [row[9] for row in sentence[2:]] == ["_", "SpaceAfter=No", "_", "SpaceAfter=No", "_"]
    assert sentence[-1][6] == "4"
    (as_it_is,) = rows(parsed(capsys, "parse", *options, "--form", "as_is"))
    expected = InducedTrees("udgn", form="as_is").annotate([Sentence(("She", "didn't", "run."))])[0].heads
    assert tuple(int(row[6]) for row in as_it_is[2:]) == expected
    read = replace(load("udgn"), reading=Reading("bare", "rules", splitter="sentencizer"))
    monkeypatch.setattr(verbs, "load", lambda run, **_: read)
    path.write_text("She ran. She didn't.\n")
    two = rows(parsed(capsys, "parse", *options))
    assert [[line[0] for line in sentence[:2]] for sentence in two] == [
        ["# sent_id = raw.conllu:1-1", "# text = She ran."], ["# sent_id = raw.conllu:1-2", "# text = She didn't."]
    ]  # fmt: skip


@pytest.mark.slow
def test_of_conllu_only_the_tree_changes(parsing_run, tmp_path, capsys):
    path, output = tmp_path / "a.conllu", tmp_path / "out" / "b.conllu"
    path.write_text(CONLLU)
    assert parsed(capsys, "parse", "--run", "udgn", "--input", path, "--output", output) == ""
    empty_nodes = [line for line in CONLLU.splitlines() if line.startswith("3.1\t")]
    assert len(empty_nodes) == 1, "it is left out"
    before, after = [line for line in CONLLU.splitlines() if line not in empty_nodes], output.read_text().splitlines()
    after.remove("# text = ... !")
    for old, new in zip(before, after, strict=True):
        old, new = old.split("\t"), new.split("\t")
        if old[0].isdecimal():
            old[6:8], new[6:8] = (), ()
        if not old[0].startswith("#") and len(old) > 1:
            assert new[-2] == "_"
            old[-2] = "_"
        assert old == new
    (letter,) = read_conllu(output)
    words = ("Do", "n't", "go", ",", "dog", "!")
    tagged = Sentence(words, tags=("VBP", "RB", "VB", ",", "NN", "."))
    assert letter.sentences[0].heads == InducedTrees("udgn").annotate([tagged])[0].heads
    assert letter.sentences[0].relations[3] == "dep"
    assert letter.sentences[1].heads == (0, 1)
    with gzip.open(tmp_path / "a.conllu.gz", "wt") as stream:
        stream.write(CONLLU)
    assert parsed(capsys, "parse", "--run", "udgn", "--input", tmp_path / "a.conllu.gz") == output.read_text()


@pytest.mark.slow
def test_sdp_and_tables_are_parsed_by_their_words(parsing_run, tmp_path, capsys):
    sdp, table = tmp_path / "a.sdp", tmp_path / "a.csv"
    sdp.write_text("#20000281\n1\tShe\tshe\tPRP\t-\t-\tARG1\n2\tran\trun\tVBD\t+\t+\t_\n\n")
    table.write_text('item,text\n7,"She ran . Dogs ran ."\n8,She ran\n')
    (of_sdp,) = rows(parsed(capsys, "parse", "--run", "udgn", "--input", sdp))
    assert of_sdp[0] == ["# sent_id = 20000281"]
    assert [(row[1], row[4]) for row in of_sdp[2:]] == [("She", "PRP"), ("ran", "VBD")]
    of_table = rows(parsed(capsys, "parse", "--run", "udgn", "--input", table))
    assert [each[0][0] for each in of_table] == [f"# sent_id = a.csv:{n}" for n in ("2-1", "2-2", "3")]
    assert [row[6] for row in of_table[2][2:]] == [row[6] for row in of_sdp[2:]]


@pytest.mark.slow
def test_the_column_of_tags_can_be_named(parsing_run, tmp_path, capsys):
    path = tmp_path / "a.conllu"
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    path.write_text(row.format(1, "dogs", "NOUN") + row.format(2, "or", "PUNCT") + row.format(3, "cats", "NOUN"))
    by_tag = rows(parsed(capsys, "parse", "--input", path, "--run", "udgn", "--tags", "upos"))[0]
    assert by_tag[2][6] == "1"
    by_form = rows(parsed(capsys, "parse", "--input", path, "--run", "udgn"))[0]
    assert [row[6] for row in by_form[1:]] == [
        str(head) for head in InducedTrees("udgn").annotate([Sentence(("dogs", "or", "cats"))])[0].heads
    ]


def test_a_parser_takes_the_place_of_a_run(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setattr(verbs, "parser_named", lambda name: LeftChain())
    path = tmp_path / "a.txt"
    path.write_text("She ran .\n\nDogs\n")
    sentences = rows(parsed(capsys, "parse", "--parser", "chain", "--input", path))
    assert [[row[6] for row in sentence[2:]] for sentence in sentences] == [["0", "1", "2"], ["0"]]
    assert "raw text" not in caplog.text
    path.write_text("She ran.\n")
    parsed(capsys, "parse", "--parser", "chain", "--input", path)
    assert "1 of 2 words end in a punctuation mark" not in caplog.text  # three letters may be an abbreviation
    path.write_text("She walked.\n")
    parsed(capsys, "parse", "--parser", "chain", "--input", path)
    assert "1 of 2 words end in a punctuation mark, as in raw text: --tokens rules" in caplog.text


def test_a_faulty_file_is_named_with_its_line_and_nothing_is_written(parsing_run, tmp_path, capsys):
    (tmp_path / "a.conllu").write_text(CONLLU.replace("2\tn't", "9\tn't"))
    said = refusal(capsys, "--input", tmp_path / "a.conllu", "--output", tmp_path / "out.conllu")
    assert "a.conllu:6: expected token 2, found 9" in said
    assert not (tmp_path / "out.conllu").exists()
