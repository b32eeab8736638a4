"""What a user of systems and of files of texts can get wrong, and what the message must name."""

import re

import pytest
from pandas import DataFrame

from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import read_documents, read_file_texts
from depgen.evaluation.verbs import score
from tests.evaluation.test_system import MODELS, TEXTS, in_form, system_of
from tests.shape_checks import unchecked

FILES = [
    (read_documents, "t.csv", b"item,words\n1,a\n", r"t\.csv:2: .*text or sentence, found item, words"),
    (read_documents, "t.csv", b"item,text\n1,\n", r"t\.csv:2: expected a sentence, found an empty cell"),
    (read_documents, "t.tsv", b"item\ttext\n", r"t\.tsv: expected at least one sentence"),
    (read_documents, "t.txt", None, "No file at"),
    (read_documents, "t.txt", b"", "is empty"),
    (read_documents, "t.txt", b"\n \n\n", r"t\.txt: expected at least one sentence"),
    (read_documents, "t.txt", b"fine\n\xff\n", r"t\.txt:2: expected UTF-8"),
    (read_documents, "t.conllu", b"# nothing\n", "expected sentences in CoNLL-U, found none"),
    (read_documents, "t.conllu", b"1\tAda\n", r"t\.conllu:1: expected 10 columns"),
    (read_documents, "t.jsonl", b"Ada ran .\n", r"t\.jsonl:1: expected JSON"),
    (read_documents, "t.jsonl", b'\n{"words": 3}\n', r"t\.jsonl:2: .*sentences or text or sentence, found words"),
    (read_documents, "t.jsonl", b'{"text": "a"}\n{"words": 3}\n', r"t\.jsonl:2: expected the column 'text'"),
    (read_file_texts, "a.jsonl", b'{"story": "b"}\n', r"a\.jsonl:1: .*text or sentence, found story"),
    (read_file_texts, "a.jsonl", b'{"text": "b"}\n[]\n', r"a\.jsonl:2: expected a JSON object, found a list"),
    (read_file_texts, "a.jsonl", b'{"text": 3}\n', r"a\.jsonl:1: expected a text or a list of sentences, found 3"),
    (read_file_texts, "a.csv", b"item;sentence\n1;b\n", r"a\.csv:2: .*text or sentence, found item;sentence"),
    (read_file_texts, "a.json", b"[]", r"\.json: convert"),
]
CALLS = [
    ("masked", lambda system: system.score(TEXTS, next_words=True), "MaskedTransformer.*leave out next_words"),
    ("masked", lambda system: system.score(TEXTS, given="the"), "MaskedTransformer.*--reads document.*contexts"),
    ("masked", lambda system: system.score(["a"], by="letter"), "by: .*word, sentence, document, all, found letter"),
    ("masked", lambda system: system.score(["a"], unit="dits"), "unit: expected one of nats, bits, found dits"),
    ("masked", lambda system: system.score(["a"], reads="word"), "reads: .*sentence, document, found word"),
    ("masked", lambda system: system.score(["a"], tokens="spacy"), "tokens: .*whitespace, rules, found spacy"),
    ("masked", lambda system: system.score(["a"], tokens_per_batch=0), "tokens_per_batch: .*at least 1, found 0"),
    ("masked", lambda system: system.score(["a", None]), "text-2: expected a string, found None of type NoneType"),
    ("masked", lambda system: system.score([b"a"]), "text-1: expected a string, found b'a' of type bytes"),
    ("masked", lambda system: system.score([{"words": "a"}]), "text-1: .*text or sentence, found words"),
    ("masked", lambda system: system.score(DataFrame({"text": ["a"]})), "texts: .*DataFrame.*give one column"),
    ("masked", lambda system: system.generate(TEXTS), "MaskedTransformer.*not write texts"),
    ("masked", lambda system: in_form(system, None).parse(TEXTS), "form its text is: .*`form`"),
    ("masked", lambda system: system.states(["a"], pooling="max"), "pooling: .*last, first, mean, found max"),
    ("masked", lambda system: system.states(["a"], tokens_per_batch=0), "tokens_per_batch: expected at least 1"),
    ("masked", lambda system: system.attention("a", kind="cross"), "kind: .*dependency, self, found cross"),
    ("masked", lambda system: system.attention(["a"]), r"text-1: expected a string, found \['a'\] of type list"),
    ("masked", lambda system: load("udgn", form="upper"), "form: .*bare, ptb, stories, lower, as_is, found upper"),
    ("causal", lambda system: system.score(TEXTS, given=["the"]), "context .*3 texts.*found 1"),
    ("causal", lambda system: system.score(["a"], given=[1]), "text-1: expected a string, found 1 of type int"),
    ("causal", lambda system: system.score(TEXTS, given="the", reads="sentence"), "leave out reads='sentence'"),
    ("causal", lambda system: system.score(["a"], beam_size=3), "beam_size .*CausalLM"),
    ("causal", lambda system: system.score_over_trees(["a"], trees="gold"), "trees.*not of CausalLM"),
    ("causal", lambda system: system.parse(TEXTS), "CausalLM, which does not parse"),
    ("causal", lambda system: system.states(TEXTS, 3), "layer: .*CausalLM from 0 .*2, .*-3 to -1"),
    ("causal", lambda system: system.states(["a " * 40]), "text-1:1: .*sentence .*39 tokens"),
    ("causal", lambda system: system.score("a a\n" * 30, reads="document"), "text-1:1: .*document .*39 tokens.*60"),
    ("causal", lambda system: system.generate(TEXTS, sentences=2), "CausalLM has no option .*'sentences'"),
    ("causal", lambda system: system.generate(TEXTS, number=0), "number: expected at least 1, found 0"),
    ("causal", lambda system: system.attention("the cat", kind="dependency"), "CausalLM has no dependency attention"),
    ("causal", lambda system: system.attention("the cat", layer=2), "layer: CausalLM .*0 to 1, found 2"),
    ("causal", lambda system: system.attention("the cat\nran"), "one sentence in one line, found 2"),
    ("mixture", lambda system: system.attention("the cat", kind="dependency", layer=0), "or take kind='self'"),
    ("documents", lambda system: system.attention("the cat"), "DCLM has no attention"),
    ("documents", lambda system: system.states("the cat", 0), "layer: expected -1 for a DCLM"),
    ("documents", lambda system: system.generate(TEXTS, beamsize=2), "DCLM has no option .*'beamsize'"),
    ("documents", lambda system: system.generate(TEXTS, sentences=0), "sentences: expected at least 1, found 0"),
]
VERB = [
    ({"output": "a.csv", "json": True}, r"a\.csv is to hold .* ending such as \.jsonl"),
    ({"output": "a.jsonl"}, r"a\.jsonl is to hold .* ending such as \.tsv"),
    ({"output": "."}, "is a folder: name a file"),
    ({"number_of_trees": 3}, "number_of_trees: expected with sampled trees"),
]


@pytest.mark.parametrize(("read", "name", "content", "message"), FILES)
def test_files_without_texts(tmp_path, read, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(("name", "call", "message"), CALLS)
@unchecked()  # the type checks of these tests come first
def test_systems(name, call, message):
    with pytest.raises(UserError, match=re.compile(message, re.DOTALL)):
        call(system_of(MODELS[name]))


@pytest.mark.parametrize(("options", "message"), VERB)
def test_the_verb(tmp_path, options, message):
    output = tmp_path / options.pop("output") if "output" in options else None
    with pytest.raises(UserError, match=message):
        score(tmp_path / "t.txt", output=output, **options)
