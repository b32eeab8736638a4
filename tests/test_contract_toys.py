"""Each check of the contract fails once, on a toy that breaks it in one point; a sound toy passes them all."""

from functools import partial

import pytest

import tests.contract
from depgen.language_models.base import LanguageModel
from tests.contract import checks, networks, toys
from tests.contract.runs import assert_same_weights, crash, fit, train
from tests.contract.systems import LSTM, ONE_LAYER, PARSER, STREAM, WRITER, System, abilities, built, of_levels
from tests.fixtures.kinds import EXPERIMENTS
from tests.test_contract import leaves_of
from tests.toys.graph_lm import all_graphs

SOUND = {
    "bigrams": System(toys.Bigrams, WRITER),
    "words": System(toys.Words, PARSER),
    "LSTM": System(partial(toys.CausalLM, LSTM), STREAM),
}
BROKEN = [
    (checks.padding_and_the_batch_change_nothing, toys.TakesPadding),
    (checks.padding_and_the_batch_change_nothing, toys.TakesTheBatch),
    (checks.a_checkpoint_holds_it, toys.IsNotSaved),
    (checks.a_later_token_moves_no_earlier_score, toys.LooksAhead),
    (checks.a_later_token_moves_no_earlier_score, toys.LooksNowhere),
    (checks.every_token_has_a_distribution, toys.IsNoDistribution),
    (checks.every_token_has_a_distribution, toys.IsNoDistributionInTraining),
    (checks.texts_score_as_batches_do, toys.ScoresTextsOtherwise),
    (checks.texts_score_as_batches_do, toys.CountsOtherwise),
    (checks.it_writes_by_its_scores, toys.WritesOtherwise),
    (checks.texts_are_written_alike_in_every_batch, toys.WritesByTheBatch),
    (checks.a_greedy_text_takes_the_likeliest_tokens, toys.WritesTheUnlikely),
    (checks.texts_have_the_log_probs_of_their_tokens, toys.SumsOtherwise),
    (checks.texts_have_the_log_probs_of_their_tokens, partial(toys.LosesItsStructure, ONE_LAYER)),
    (checks.bounds_stay_below_the_exact_score, partial(toys.BoundsTooHigh, ONE_LAYER)),
    (checks.bounds_stay_below_the_exact_score, partial(toys.LeavesStructuresOut, ONE_LAYER)),
    (checks.bounds_stay_below_the_exact_score, partial(toys.ScoresStructuresOtherwise, ONE_LAYER)),
    (checks.tokens_have_at_most_a_distribution, partial(toys.BoundsTooHigh, ONE_LAYER)),
    (checks.tokens_have_at_most_a_distribution, partial(toys.LeavesStructuresOut, ONE_LAYER)),
    (checks.texts_have_the_log_probs_of_their_tokens, partial(of_levels, toys.WritesOtherTrees)),
    (checks.what_is_written_later_moves_no_earlier_score, partial(of_levels, toys.SeesItsLevel)),
    (checks.what_is_written_later_moves_no_earlier_score, partial(of_levels, toys.SeesTheLength)),
    (checks.every_placeholder_has_a_distribution, partial(of_levels, toys.SeesItsLevel)),
    (checks.texts_score_as_their_levels_do, partial(of_levels, toys.SeesTheLength)),
    (checks.segments_score_as_the_whole_stream, partial(toys.ForgetsItsState, LSTM)),
    (checks.segments_score_as_the_whole_stream, partial(toys.SharesItsState, LSTM)),
    (checks.every_other_word_moves_a_score, toys.ReadsOneSide),
    (checks.every_hidden_word_has_a_distribution, toys.SeesItself),
    (checks.sentences_score_as_batches_do, toys.ScoresSentencesOtherwise),
    (checks.attention_depends_on_its_own_words, toys.AttendsToPadding),
    (checks.trees_depend_on_their_own_words, toys.HeadsInPadding),
    (checks.trees_depend_on_their_own_words, toys.HeadsOfTheBatch),
    (checks.trees_depend_on_their_own_words, toys.TooManyHeads),
]
BROKEN_NETWORKS = [
    (networks.a_later_token_moves_no_earlier_state, "AWD-LSTM", toys.MeanOfTheText),
    (networks.padding_and_the_batch_change_nothing, "AWD-LSTM", toys.MeanOfTheBatch),
    (networks.padding_and_the_batch_change_nothing, "AWD-LSTM", toys.MeanOfTheText),
    (networks.a_state_continues_the_text, "AWD-LSTM", toys.BeginsAfresh),
    (networks.a_state_is_made_of_its_tensors, "AWD-LSTM", toys.MakesAnotherState),
    (networks.attention_is_a_distribution, "Transformer", toys.HalfAttention),
    (networks.distances_depend_on_their_own_words, "ON-LSTM", toys.DistancesFromTheEnd),
]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_toy_passes(name, tmp_path):
    assert abilities(built(SOUND[name])) == SOUND[name].claims
    for check in checks.checks_of(SOUND[name].claims):
        check(built(SOUND[name]), tmp_path)


@pytest.mark.parametrize(("check", "make"), BROKEN)
def test_a_check_of_systems_sees_a_broken_toy(check, make, tmp_path):
    with pytest.raises(AssertionError):
        check(built(System(make, structures=lambda model, ids: all_graphs(len(ids)))), tmp_path)


@pytest.mark.parametrize(("check", "base", "kind"), BROKEN_NETWORKS)
def test_a_check_of_backbones_sees_a_broken_toy(check, base, kind):
    options = networks.NETWORKS[base].keywords
    with pytest.raises(AssertionError):
        check(networks.made(partial(kind, **options)))


def test_every_check_is_seen_to_fail():
    of_claims = (check for each in checks.CHECKS.values() for check in each)
    assert {check for check, *_ in BROKEN} == {*checks.OF_ALL, *checks.OF_EXACT_WRITERS, *of_claims}
    assert {check for check, *_ in BROKEN_NETWORKS} == {*networks.CHECKS}


def test_a_claim_without_a_check_fails():
    with pytest.raises(AssertionError, match="backwards"):
        checks.checks_of(frozenset({"backwards", "exact"}))


def test_a_class_that_is_on_no_list_is_found():
    assert {toys.LooksAhead, toys.SeesItself} <= leaves_of(tests.contract, LanguageModel)
    assert toys.Bigrams not in leaves_of(tests.contract, LanguageModel)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for root in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    monkeypatch.setenv("PL_GLOBAL_SEED", "0")
    content = EXPERIMENTS["transformer"]
    short = {"max_epochs": 1, "accelerator": "cpu"}

    def of(kind):
        model = {**content["model"], "class_path": f"tests.contract.toys.{kind.__name__}"}
        return {**content, "model": model, "trainer": short}

    return of


def test_a_system_that_learns_by_its_trainer_is_not_that_of_depgen_fit(settings, tmp_path):
    content = settings(toys.LearnsByItsLogger)
    run = fit(tmp_path, content)
    train(tmp_path / "plain", content)
    with pytest.raises(AssertionError, match="differ"):
        assert_same_weights(tmp_path / "plain" / "checkpoints" / "best.ckpt", run / "checkpoints" / "best.ckpt")


@pytest.mark.slow
def test_a_system_that_forgets_its_past_does_not_resume(settings, tmp_path):
    content = settings(toys.LearnsByACount)
    whole = fit(tmp_path, content)
    crash(tmp_path, content, 2)
    (resumed,) = set((tmp_path / "runs").glob("*/*")) - {whole}
    assert fit(tmp_path, content, "--resume") == resumed
    with pytest.raises(AssertionError, match="differ"):
        assert_same_weights(resumed / "checkpoints" / "best.ckpt", whole / "checkpoints" / "best.ckpt")
