"""What iterative expansion writes: growing texts, control, limits and given trees."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.models.itexp import ExpansionOptions, ExpansionTable, LevelWriter, Texts, expanded
from depgen.trees.binarization import written_tree
from depgen.trees.conllu import format_conllu
from depgen.trees.sentence import Sentence, check_tree
from tests import oracles_of_itexp as oracle
from tests.invented_levels import (
    BINARY,
    FULL,
    RELATIONS,
    ROWS,
    built,
    network_scores,
    small,
    trees,
)
from tests.trees.trees import head_lists

CPU = torch.device("cpu")
LEAF = ((), ())


def table_of(vocabulary=BINARY, **options):
    return ExpansionTable.of(vocabulary, ExpansionOptions(**options), CPU)


def writer_of(tokens=100, **options):
    return LevelWriter(BINARY, ExpansionOptions(**options), table_of(**options), tokens)


def of_rows(rows, labels):
    return Vocabulary.of_words("ab", tables={"expansions": rows, "placeholders": labels})


def begun(number):
    """Texts of one placeholder, whose tokens may be set."""
    texts = Texts.begun(range(number), range(number), CPU)
    texts.tokens = texts.tokens.clone()
    return texts


def written(model, number, most=30, vocabulary=FULL, prompts=((),), **options):
    return model.generate(
        prompts, vocabulary=vocabulary, options=ExpansionOptions(**options), seeds=range(number), max_new_tokens=most,
        number=number,
    )  # fmt: skip


# -- growing ----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_expansions_grow_texts_as_lists_do(data):
    """Also those that no sentence has, in texts of other lengths, over three levels."""
    rows = [["<pad>"], ["HEAD"], ["a", "b", "HEAD"], ["HEAD", "a"], ["b", "HEAD", "a", "a", "b"]]
    labels = ["ROOT", "a", "b"]
    table, texts = table_of(of_rows(rows, labels)), begun(3)
    inputs, heads = [["[ROOT]"]] * 3, [[-1]] * 3
    for level in range(3):
        chosen = torch.full_like(texts.tokens, data.draw(st.integers(0, 4)))  # ignored at words and padding
        for text in range(3):
            gold = []
            for place, name in enumerate(inputs[text]):
                number = data.draw(st.integers(1, 4)) if name[0] == "[" else None
                row = None if number is None else rows[number]
                gold.append(row and (tuple(row[: row.index("HEAD")]), tuple(row[row.index("HEAD") + 1 :])))
                if number is not None:
                    chosen[text, place], texts.tokens[text, place] = number, 10 * level + text
            words = [f"{10 * level + text}" for _ in gold]
            inputs[text], heads[text] = oracle.expanded(inputs[text], heads[text], words, gold)
        texts = expanded(texts, chosen, table)
        for text in range(3):
            length = int(texts.lengths[text])
            columns = (each[text, :length].tolist() for each in (texts.tokens, texts.labels, texts.is_open))
            shown = [f"[{labels[k]}]" if opened else str(token) for token, k, opened in zip(*columns, strict=True)]
            assert (shown, texts.heads[text, :length].tolist()) == (inputs[text], heads[text])
            assert not texts.is_open[text, length:].any()


# -- control ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"boost": {"left": 50.0}, "top_p": 0.6},
        {"boost": {"left": 50.0, "right": 0.5}, "top_p": 0.7, "temperature": 2.0},
        {"forbid": ("right",)},
        {},
    ],
    ids=str,
)
def test_expansions_follow_the_stated_distribution(options):
    probabilities = [0.3, 0.2, 0.2, 0.05, 0.15, 0.1]
    number = 6000
    texts = begun(number)
    found, _ = writer_of(**options).expansions(torch.tensor(probabilities).log().expand(number, 1, 6), texts, 3)
    share = found[:, 0].bincount(minlength=6) / number
    forbidden = {4, 5} if "forbid" in options else set()
    allowed = [0 if k < 2 or k in forbidden else p for k, p in enumerate(probabilities)]
    temperature = options.get("temperature", 1.0)
    powers = oracle.renormalised([p ** (1 / temperature) if p else 0.0 for p in allowed])
    factors = [math.prod(factor for name, factor in options.get("boost", {}).items() if name in row) for row in ROWS]
    expected = oracle.styled(powers, factors, options.get("top_p", 1.0))
    torch.testing.assert_close(share, torch.tensor(expected), atol=0.02, rtol=0)
    assert not share[torch.tensor(expected) == 0].any()


def opened(number, length):
    """Texts whose first word is written, the others placeholders; lengths differ."""
    texts = begun(number)
    lengths = torch.tensor([1 + max(1, length - row % 3) for row in range(number)])
    columns = torch.arange(length + 1)
    texts.tokens, texts.heads, texts.labels = (torch.zeros(number, length + 1, dtype=torch.int64) for _ in range(3))
    texts.is_open = (columns > 0) & (columns < lengths[:, None])
    texts.lengths, texts.sizes = lengths, torch.stack((lengths, lengths - 1))
    return texts


def test_what_is_drawn_depends_on_seed_level_and_place_alone():
    texts, writer = opened(6, 4), writer_of()
    scores = torch.zeros(6, 5, 6).log_softmax(-1)
    whole, _ = writer.expansions(scores, texts, 2)
    assert (whole[~texts.is_open] == 2).all()
    for row in range(6):
        alone = texts.select(torch.tensor([row]))
        length = alone.tokens.shape[1]
        found, _ = writer.expansions(scores[:1, :length], alone, 2)
        assert torch.equal(found[0], whole[row, :length])
    assert not torch.equal(writer.expansions(scores, texts, 3)[0], whole)


# -- limits -----------------------------------------------------------------------------------------------------------


def test_texts_are_cut_at_the_limits():
    texts, scores = opened(6, 4), torch.zeros(6, 5, 6).log_softmax(-1)
    chosen, _ = writer_of().expansions(scores, texts, 2)
    grown = [
        int(length) + sum(len(ROWS[k]) - 1 for k in row)
        for length, row in zip(texts.lengths, chosen.tolist(), strict=True)
    ]
    most = sorted(grown)[2]
    found, cut = writer_of(most).expansions(scores, texts, 2)
    assert cut.tolist() == [length > most for length in grown]
    assert 0 < int(cut.sum()) < 6
    assert (found[cut] == 2).all()
    assert torch.equal(found[~cut], chosen[~cut])
    found, cut = writer_of(levels=2).expansions(scores, texts, 2)
    assert (found == 2).all()
    assert cut.tolist() == [length > own for length, own in zip(grown, texts.lengths.tolist(), strict=True)]


@torch.no_grad()
def test_a_text_says_that_it_was_cut(caplog):
    model = small(FULL)
    model.expansion_output.bias[2] += 8  # leaves
    texts = written(model, 40, 3)
    assert max(len(text.ids) for text in texts) <= 3
    assert {text.structure.get("cut", False) for text in texts} == {True, False}
    assert f"{sum('cut' in text.structure for text in texts)} of 40 texts were cut at 3 tokens" in caplog.text
    assert all(len(text.ids) == 1 for text in written(small(FULL), 5, levels=1))


# -- the likeliest text -----------------------------------------------------------------------------------------------


def greedy_by_hand(model, levels):
    """Words, heads and log-probability of the text whose choices are the likeliest; slowly."""
    patterns_of, words_of = network_scores(model, FULL)
    inputs, heads, total = ["[ROOT]"], [-1], 0.0
    for level in range(1, levels + 1):
        scores = patterns_of(inputs, heads)
        is_open = [each[0] == "[" for each in inputs]
        chosen = [(LEAF if level == levels else max(each, key=each.get)) if opened else None
                  for each, opened in zip(scores, is_open, strict=True)]  # fmt: skip
        of_words = words_of(inputs, heads, chosen)
        words = [max(each, key=lambda word, each=each: (word != "<unk>", each[word])) for each in of_words]
        total += sum(scores[k][chosen[k]] + of_words[k][words[k]] for k in range(len(inputs)) if is_open[k])
        inputs, heads = oracle.expanded(inputs, heads, words, chosen)
        if not any(each[0] == "[" for each in inputs):
            break
    return inputs, [head + 1 for head in heads], total


@torch.no_grad()
def test_greedy_texts_follow_from_their_expansions():
    deep = 0
    for seed in range(4):
        model = small(FULL, expansion_layer=0)
        torch.manual_seed(seed)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
        model.expansion_embedding.weight[0] = 0
        words, heads, total = greedy_by_hand(model, 4)
        (text,) = written(model, 1, greedy=True, levels=4)
        assert [FULL.types[token] for token in text.ids] == words
        assert list(text.structure["heads"]) == heads
        assert text.log_prob == pytest.approx(total, abs=1e-9)
        deep += len(words) > 1
    assert deep >= 2


# -- given trees ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def skeletons(tmp_path_factory):
    """A file of sentences with their trees."""
    folder = tmp_path_factory.mktemp("skeletons")

    def of(*sentences):
        path = folder / "trees.conllu"
        path.write_text("".join(f"{format_conllu(each)}\n" for each in sentences))
        return str(path)

    return of


@st.composite
def any_trees(draw):
    """A sentence with a tree, which may have crossing arcs, and now and then several roots; some words are `_`."""
    heads = draw(head_lists(max_size=6))
    relations = ["root" if head == 0 else draw(st.sampled_from(RELATIONS)) for head in heads]
    return Sentence(tuple(draw(st.sampled_from("abc_")) for _ in heads), tuple(heads), tuple(relations))


@settings(deadline=None, max_examples=10)
@given(st.lists(any_trees(), min_size=1, max_size=3), st.sampled_from(["left-right", "none"]))
@torch.no_grad()
def test_given_trees_come_back_with_their_words(skeletons, sentences, scheme):
    vocabulary = built(sentences, binarization=scheme)
    model = small(vocabulary)
    texts = written(model, 5, vocabulary=vocabulary, skeletons=skeletons(*sentences), trace=True)
    for number, text in enumerate(texts):
        tree = sentences[number % len(sentences)]
        assert (text.structure["heads"], text.structure["relations"]) == (tree.heads, tree.relations)
        words = [vocabulary.types[token] for token in text.ids]
        assert all(word in (own, word if own == "_" else own) for word, own in zip(words, tree.words, strict=True))
        heads = written_tree(tree.heads, tree.relations, scheme)[0].tolist()
        deepest = max(oracle.depth(heads, word) for word in range(1, len(heads) + 1))
        assert len(text.structure["levels"]) == deepest, "the steps are those of the tree that is written"
        ((score,),) = model.sentence_log_probs([[text.ids]], vocabulary=vocabulary, structure=[[text.structure]])
        assert score.sum() == pytest.approx(text.log_prob, abs=1e-9)


@settings(deadline=None, max_examples=5)
@given(st.lists(trees(max_size=6), min_size=2, max_size=4), st.sampled_from(["left-right", "none"]))
@torch.no_grad()
def test_trees_of_texts_have_their_probability(sentences, scheme):
    vocabulary = built(sentences, binarization=scheme)
    model = small(vocabulary)
    for text in written(model, 4, 9, vocabulary=vocabulary):
        check_tree(text.structure["heads"], "text", single_root=True)
        ((score,),) = model.sentence_log_probs([[text.ids]], vocabulary=vocabulary, structure=[[text.structure]])
        assert score.sum() == pytest.approx(text.log_prob, abs=1e-9)


@pytest.mark.parametrize(
    ("sentence", "options", "message"),
    [
        (Sentence(("a", "b"), (0, 1), ("root", "amodd")), {}, "sentence 1: .*'HEAD amodd'"),
        (Sentence(("a", "zz"), (0, 1), ("root", "right")), {}, "lacks 'zz'"),
        (Sentence(("a", "b"), (0, 1), ("root", "right")), {"levels": 1}, "has 2 tokens and 2 levels"),
        (Sentence(("a",) * 4, (0, 1, 2, 3), ("root", *["right"] * 3)), {"most": 3}, "has 4 tokens"),
        (Sentence(("a",), (0,), ("root",)), {"forbid": ("right",)}, "skeletons fix the trees"),
        (None, {"boost": {"lefd": 2.0}}, "'lefd'.*left"),
        (None, {"forbid": ("<pad>",)}, "'<pad>'"),
        (None, {"boost": {"left": math.nan}}, "boost of left"),
        (None, {"prompts": [[2]]}, "continues none"),
    ],
)
def test_what_cannot_be_written_is_refused(skeletons, sentence, options, message):
    given_tree = {} if sentence is None else {"skeletons": skeletons(sentence)}
    with pytest.raises(UserError, match=message):
        written(small(FULL), 1, **given_tree, **options)
