"""Settings of corpora in terms of files, a format and steps, from those of one class a corpus and one a wrapper.

`renamed` takes settings as YAML has them, or resolved values that differ from defaults, and gives the same of the new
classes: arguments that equal their defaults are left out.
"""

from typing import Any

DATA = "depgen.data."
KEPT = ("ptb", "wikinews")
WITHOUT_HELD_OUT = {"class_path": DATA + "steps.WithoutHeldOut", "init_args": {}}
"""What the readers of text did by default, but for these folders."""
EWT = {"train": "en_ewt-ud-train.conllu", "valid": "en_ewt-ud-dev.conllu", "test": "en_ewt-ud-test.conllu"}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    path = values.get("class_path")
    if isinstance(path, str) and path.startswith(DATA) and path.removeprefix(DATA) in {**READERS, **WRAPPERS}:
        moved = _Corpus.of(values).settings()
        return moved if moved["init_args"] or "init_args" in values else {"class_path": moved["class_path"]}
    if path == DATA + "sampled_training.SampledTraining":
        return {"class_path": DATA + "corpora.SampledTraining", "init_args": renamed(values.get("init_args") or {})}
    return {name: renamed(value) for name, value in values.items()}


def step(name: str, **arguments: Any) -> dict[str, Any]:
    """A step with the arguments that differ from their defaults."""
    defaults = STEPS.get(name, {})
    chosen = {key: value for key, value in arguments.items() if key not in defaults or value != defaults[key]}
    return {"class_path": f"{DATA}steps.{name}", "init_args": chosen}


STEPS = {
    "Lowercase": {"but_placeholders": False},
    "BareWords": {"orphans": "roots", "lowercase": True},
    "Retokenized": {"apart": False},
    "WithoutSentences": {"splits": ["train", "valid"]},
    "SingleSentences": {"min_words": 1, "max_words": None},
    "FirstDocuments": {"most": None, "skip": 0, "split": "train"},
    "WithTreesOnly": {"of": "heads"},
    "SeededSplits": {"of": "train", "valid": 50, "test": 50, "seed": 0},
    "MoreTraining": {"most": None},
}


class _Corpus:
    """A corpus under way: the new class with its arguments, the steps so far, and a name that was given."""

    def __init__(self, path: str, default_name: str, arguments: dict[str, Any], default_steps: list[Any]) -> None:
        self.path, self.default_name, self.arguments, self.default_steps = path, default_name, arguments, default_steps
        self.steps: list[Any] = []
        self.name: str | None = None

    @classmethod
    def of(cls, values: dict[str, Any]) -> "_Corpus":
        name = values["class_path"].removeprefix(DATA)
        given = dict(values.get("init_args") or {})
        if name in READERS:
            made = READERS[name](given)
            made.name = given.get("name")
            return made
        inner = given.pop("treebank" if name == "normalized.NormalizedTreebank" else "corpus")
        if inner["class_path"].removeprefix(DATA) in {**READERS, **WRAPPERS}:
            made = cls.of(inner)
        else:
            made = cls(DATA + "corpus.WithSteps", "", {"corpus": renamed(inner)}, [])
        WRAPPERS[name](made, given)
        if given.get("name"):
            made.name = given["name"]
        return made

    def called(self, suffix: str) -> None:
        """The wrapper adds this to the name by default."""
        self.default_name += suffix
        if self.name is not None:
            self.name += suffix

    def settings(self) -> dict[str, Any]:
        arguments = {name: value for name, value in self.arguments.items() if value is not None}
        if self.steps != self.default_steps:
            arguments["steps"] = self.steps
        if self.name not in (None, self.default_name):
            arguments["name"] = self.name
        return {"class_path": self.path, "init_args": arguments}


def form(name: str, default: dict[str, Any], **arguments: Any) -> dict[str, Any] | None:
    """The format with its chosen arguments; None where it is as the new class has it."""
    chosen = {key: value for key, value in arguments.items() if value is not None}
    if {**FORMATS[name], **default} == {**FORMATS[name], **default, **chosen}:
        return None
    chosen = {key: value for key, value in {**default, **chosen}.items() if value != FORMATS[name].get(key)}
    return {"class_path": f"{DATA}formats.{name}", "init_args": chosen}


FORMATS: dict[str, dict[str, Any]] = {
    "Lines": {"splitter": "lines", "tokens": "whitespace"},
    "Paragraphs": {},
    "JsonLines": {
        "text": "text", "sentences": None, "identifier": "id", "splitter": "rules", "tokens": "whitespace",
    },
    "WikiText": {"splitter": "rules", "headings": False, "tokens": "whitespace"},
    "Conllu": {"tags": "xpos", "documents_by": "newdoc", "graphs": False, "empty_nodes": "contract"},
    "Sdp": {"documents_by": "sentence"},
}  # fmt: skip


def files(given: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The arguments that say where files lie, where they differ from defaults; lists of one are names."""
    chosen = {}
    for name, default in defaults.items():
        value = given.get(name, default)
        value = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
        value = list(value) if isinstance(value, tuple) else value
        if value != default:
            chosen[name] = value
    return chosen


def text_steps(made: _Corpus, given: dict[str, Any], *, keeps: bool) -> _Corpus:
    """Lower case and what is held out, as all readers of text had them."""
    if given.get("lowercase"):
        made.steps.append(step("Lowercase"))
    folder = str(given.get("folder", "")).rstrip("/").rpartition("/")[2]
    overlap = given.get("overlap") or ("keep" if keeps or folder in KEPT else "drop")
    if overlap == "drop":
        made.steps.append(WITHOUT_HELD_OUT)
    return made


def text_lines(given: dict[str, Any]) -> _Corpus:
    """Lines of text, those of the papers by their names."""
    named = {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
    lines = form("Lines", {}, splitter=given.get("sentence_splitter"))
    published = given.get("published")
    if published == "ptb" or given.get("train") == "ptb.train.txt":
        own = {"folder": "ptb", "train": "ptb.train.txt", "valid": "ptb.valid.txt", "test": "ptb.test.txt"}
        given = {**named, **given}
        made = _Corpus(DATA + "corpora.Ptb", "PTB", {"format": lines, **files(given, **own)}, [])
    elif published == "emnlp_news":
        default = [step("Lowercase"), WITHOUT_HELD_OUT]
        arguments = {"format": lines, **files(given, folder="emnlp_news", **named)}
        made = _Corpus(DATA + "corpora.EmnlpNews", "EMNLP 2017 news", arguments, default)
    else:
        arguments = {"format": lines, **files(given, folder=None, **named)}
        made = _Corpus(DATA + "corpora.TextLines", _last(given), arguments, [WITHOUT_HELD_OUT])
    return text_steps(made, given, keeps=published == "ptb")


def _last(given: dict[str, Any]) -> str:
    return str(given.get("folder", "")).rstrip("/").rpartition("/")[2]


def document_lines(given: dict[str, Any]) -> _Corpus:
    """Sentences a line, documents by blank lines."""
    arguments = files(given, folder=None, train="train.txt", valid="valid.txt", test="test.txt")
    made = _Corpus(DATA + "corpora.DocumentLines", _last(given), arguments, [WITHOUT_HELD_OUT])
    return text_steps(made, given, keeps=False)


def json_documents(given: dict[str, Any]) -> _Corpus:
    """JSON lines; the folder wikinews is Wikinews."""
    options = {
        "text": given.get("text_field"), "sentences": given.get("sentences_field"),
        "identifier": given.get("identifier_field"), "splitter": given.get("sentence_splitter"),
    }  # fmt: skip
    tokens = given.get("tokens", "whitespace")
    given = {"folder": "wikinews", **given}
    named = {"train": "train.jsonl.gz", "valid": "valid.jsonl.gz", "test": "test.jsonl.gz"}
    if given["folder"] == "wikinews":
        arguments = {"format": form("JsonLines", {"tokens": "rules"}, tokens=tokens, **options), **files(given, **named)}
        made = _Corpus(DATA + "corpora.Wikinews", "Wikinews", arguments, [])
    else:
        given = {**named, **given}
        plain = {"train": "train.jsonl", "valid": "valid.jsonl", "test": "test.jsonl"}
        arguments = {"format": form("JsonLines", {}, tokens=tokens, **options), **files(given, folder=None, **plain)}
        made = _Corpus(DATA + "corpora.JsonDocuments", _last(given), arguments, [WITHOUT_HELD_OUT])
    return text_steps(made, given, keeps=False)


def wikitext(given: dict[str, Any]) -> _Corpus:
    """WikiText-2."""
    named = {"folder": "wikitext2"} | {split: f"wiki.{split}.tokens" for split in ("train", "valid", "test")}
    options = form("WikiText", {}, splitter=given.get("sentence_splitter"), headings=given.get("headings"))
    arguments = {"format": options, **files(given, **named)}
    made = _Corpus(DATA + "corpora.WikiText2", "WikiText-2", arguments, [WITHOUT_HELD_OUT])
    return text_steps(made, {"folder": "wikitext2", **given}, keeps=False)


def rocstories(given: dict[str, Any]) -> _Corpus:
    """ROCStories; further files of training stand after its own."""
    train = ["train.csv", *(given.get("additional_train") or ())]
    given = {"folder": "rocstories", **given, "train": train}
    lowered = step("Lowercase", but_placeholders=True)
    named = files(given, folder="rocstories", train="train.csv")
    made = _Corpus(DATA + "corpora.RocStories", "ROCStories", named, [lowered, WITHOUT_HELD_OUT])
    made.steps = [lowered] if given.get("lowercase", True) else []
    return text_steps(made, {**given, "lowercase": False}, keeps=False)


def draw(given: dict[str, Any], pattern: str, size: int) -> dict[str, Any]:
    """The options of the seeded draw of files that differ from the new class's."""
    default = {"drawn": pattern, "drawn_valid": size, "drawn_test": size, "seed": 0}
    old = {"drawn": "files", "drawn_valid": "valid_documents", "drawn_test": "test_documents", "seed": "seed"}
    drawn = {name: given.get(former, default[name]) for name, former in old.items()}
    return {name: value for name, value in drawn.items() if value != default[name]}


def tagged(given: dict[str, Any]) -> _Corpus:
    """The Brown corpus."""
    arguments = {**draw(given, "c[a-r][0-9][0-9]", 50), **files(given, folder="brown")}
    return text_steps(_Corpus(DATA + "corpora.Brown", "Brown", arguments, []), given, keeps=True)


def columns(given: dict[str, Any]) -> _Corpus:
    """The dependency trees of the WSJ sample, drawn or by lists of files."""
    arguments = {**draw({**given, "files": "*.dp"}, "*.dp", 20), **files(given, folder="wsj_sample/dependency")}
    path = DATA + "corpora.WsjSample"
    if given.get("train") is not None:
        path = DATA + "corpus.FileCorpus"
        arguments = {"format": {"class_path": DATA + "formats.DependencyColumns", "init_args": {}}}
        arguments |= files({"folder": "wsj_sample/dependency", **given}, folder=None, train=[], valid=[], test=[])
    return text_steps(_Corpus(path, "WSJ sample", arguments, []), given, keeps=True)


def bracketed(given: dict[str, Any]) -> _Corpus:
    """The Penn Treebank in brackets."""
    named = {
        "folder": "wsj", "train": ["0?/*.mrg", "1?/*.mrg", "20/*.mrg"], "valid": ["21/*.mrg", "22/*.mrg"],
        "test": ["23/*.mrg", "24/*.mrg"],
    }  # fmt: skip
    made = _Corpus(DATA + "corpora.PennTreebank", "Penn Treebank", files(given, **named), [])
    return text_steps(made, given, keeps=True)


def conllu(given: dict[str, Any]) -> _Corpus:
    """A treebank in CoNLL-U."""
    options = {name: given.get(name) for name in FORMATS["Conllu"]}
    ewt = {"folder": "ud_english_ewt", **EWT}
    if given.get("folder", "ud_english_ewt") == "ud_english_ewt":
        arguments = {"format": form("Conllu", {}, **options), **files(given, **ewt)}
        made = _Corpus(DATA + "corpora.Ewt", "UD English-EWT", arguments, [])
    else:
        named = files({**EWT, **given}, folder=None, train=[], valid=[], test=[])
        made = _Corpus(DATA + "corpora.ConlluTreebank", _last(given), {"format": form("Conllu", {}, **options), **named}, [])
    text_steps(made, given, keeps=True)
    if given.get("with_trees_only"):
        made.steps.append(step("WithTreesOnly", of="edges" if given.get("graphs") else "heads"))
    if given.get("without"):
        made.steps.append(step("WithoutRelations", relations=list(given["without"])))
    return made


def sdp(given: dict[str, Any]) -> _Corpus:
    """A treebank in SDP files."""
    arguments = {"format": form("Sdp", {}, documents_by=given.get("documents_by"))}
    arguments |= files(given, folder=None, train=[], valid=[], test=[])
    return text_steps(_Corpus(DATA + "corpora.SdpTreebank", _last(given), arguments, []), given, keeps=True)


def hub(given: dict[str, Any]) -> _Corpus:
    """A dataset."""
    arguments = {"splitter" if name == "sentence_splitter" else name: value for name, value in given.items()}
    for name in ("lowercase", "name", "overlap", "with_trees_only"):
        arguments.pop(name, None)
    title = " ".join(filter(None, (_last({"folder": given["dataset"]}), given.get("configuration"))))
    made = text_steps(_Corpus(DATA + "hub.HubCorpus", title, arguments, []), given, keeps=True)
    if given.get("with_trees_only"):
        made.steps.append(step("WithTreesOnly"))
    return made


READERS = {
    "text_lines.TextLines": text_lines, "document_lines.DocumentLines": document_lines,
    "json_documents.JsonDocuments": json_documents, "wikitext.WikiText": wikitext,
    "rocstories.RocStories": rocstories, "tagged.TaggedDocuments": tagged, "treebank.ConlluTreebank": conllu,
    "treebank.SdpTreebank": sdp, "treebank.DependencyColumns": columns, "bracketed.BracketedTreebank": bracketed,
    "hub_corpus.HubCorpus": hub,
}  # fmt: skip


def single_sentences(made: _Corpus, given: dict[str, Any]) -> None:
    """Limits on documents before and on test sentences after it are steps of their own."""
    most, skip, test = (given.get(name) for name in ("max_documents", "skipped_documents", "test_sentences"))
    if most is not None or skip:
        made.steps.append(step("FirstDocuments", most=most, skip=skip or 0))
    made.steps.append(step("SingleSentences", **{k: v for k, v in given.items() if k in ("min_words", "max_words")}))
    if test is not None:
        made.steps.append(step("FirstDocuments", most=test, split="test"))


def bare_words(made: _Corpus, given: dict[str, Any]) -> None:
    """It cut documents into sentences too."""
    options = {name: given[name] for name in ("orphans", "lowercase") if name in given}
    made.steps += [step("SingleSentences"), step("BareWords", **options)]
    made.called(" (bare words)")


def normalized(made: _Corpus, given: dict[str, Any]) -> None:
    """Names the other corpus."""
    words = _Corpus.of(given["words_of"])
    made.steps.append(step("Normalized", words_of=words.settings()))
    made.called(f" (normalised as {words.name or words.default_name})")


def retokenized(made: _Corpus, given: dict[str, Any]) -> None:
    """The same option."""
    made.steps.append(step("Retokenized", apart=given.get("apart", False)))


def without_sentences(made: _Corpus, given: dict[str, Any]) -> None:
    """Names the other corpus."""
    excluded = _Corpus.of(given["excluded"])
    splits = list(given.get("splits") or ("train", "valid"))
    made.steps.append(step("WithoutSentences", excluded=excluded.settings(), splits=splits))
    made.called(f" without {excluded.name or excluded.default_name}")


def more_training(made: _Corpus, given: dict[str, Any]) -> None:
    """Names the other corpora."""
    more = [_Corpus.of(each) for each in given["more"]]
    settings = [each.settings() for each in more]
    made.steps.append(step("MoreTraining", corpora=settings, most=given.get("max_more")))
    made.called("".join(f" and {each.name or each.default_name}" for each in more))


def seeded(made: _Corpus, given: dict[str, Any]) -> None:
    """Draws, then leaves out what is held out."""
    former = {"valid": "valid_documents", "test": "test_documents"}
    options = {name: given.get(former.get(name, name), default) for name, default in STEPS["SeededSplits"].items()}
    made.steps.append(step("SeededSplits", **options))
    if given.get("overlap", "drop") == "drop":
        made.steps.append(WITHOUT_HELD_OUT)


WRAPPERS = {
    "sentences.SingleSentences": single_sentences, "bare_words.BareWords": bare_words,
    "normalized.NormalizedTreebank": normalized, "mixed.Retokenized": retokenized,
    "mixed.WithMoreTraining": more_training, "exclusion.WithoutSentences": without_sentences,
    "seeded.SeededSplits": seeded,
}  # fmt: skip
