"""What a search holds at the end of each text."""


def hypotheses(model, batch, *, beam_size):
    """The last beam of each text, or the first of equal ones: structure, (state, row), score of each hypothesis."""
    found, with_target = {}, model.with_target

    def recorded(beam, of_batch, k, **options):
        beam = with_target(beam, of_batch, k, **options)
        for row, (item, score) in enumerate(zip(beam.items.tolist(), beam.scores.tolist(), strict=True)):
            if of_batch.lengths[item] == k + 1:
                place = int(of_batch.items[item])
                found.setdefault(place, []).append((model.structure_of(beam.state, row), (beam.state, row), score))
        return beam

    model.with_target = recorded
    try:
        model.search(batch, beam_size=beam_size)
    finally:
        del model.with_target
    return found
