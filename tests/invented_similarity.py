"""Files of semantic textual similarity made on the spot, laid out like the real ones, about dogs and numbers."""

from pathlib import Path

SUBJECTS = ("A dog", "The old man", "Nobody", "My sister", "Ada Lovelace")
VERBS = ("runs", "sings", "doesn't sleep", "ate 3.5 pies", "left at 7:30")
PLACES = ("at home .", "in Rome!", "on 30-day trips", "\"there\"", "for 8 % of it")  # fmt: skip


def invented_pairs(count: int, *, seed: int = 0) -> list[tuple[str, str, float]]:
    """Sentences of a subject, a verb and a place, scored by how many of these they share: 0 to 5."""
    pairs = []
    for number in range(seed * 1000, seed * 1000 + count):
        first = (number % 5, number // 5 % 5, number // 7 % 5)
        second = tuple(part if (number * 7 + k * 3) % 4 else (part + 1) % 5 for k, part in enumerate(first))
        shared = sum(a == b for a, b in zip(first, second, strict=True))
        texts = (" ".join((SUBJECTS[a], VERBS[b], PLACES[c])) for a, b, c in (first, second))
        pairs.append((*texts, 5 * shared / 3))
    return pairs


def benchmark_lines(pairs) -> str:
    """As a file of the STS Benchmark."""
    rows = (f"main\tMSRvid\t2012\t{k:04}\t{score:.3f}\t{a}\t{b}\n" for k, (a, b, score) in enumerate(pairs))
    return "".join(rows)


def sick_lines(pairs) -> str:
    """As a file of SICK."""
    rows = (f"{k}\t{a}\t{b}\t{max(1.0, score)}\tNEUTRAL\n" for k, (a, b, score) in enumerate(pairs, start=1))
    return "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n" + "".join(rows)


def write_similarity(folder: Path, *, train: int = 24, test: int = 6) -> None:
    """Write `STSBenchmark`, `SICK` and the tasks of 2012 to 2016, of two parts each; one pair of each is not judged."""
    for name in ("STSBenchmark", "SICK"):
        (folder / name).mkdir(parents=True)
    sizes = {"train": train, "dev": test, "test": test}
    for number, (part, size) in enumerate(sizes.items(), start=1):
        text = benchmark_lines(invented_pairs(size, seed=number))
        (folder / "STSBenchmark" / f"sts-{part}.csv").write_text(text, encoding="utf-8")
    for number, (part, size) in enumerate({"train": train, "test_annotated": test}.items(), start=4):
        text = sick_lines(invented_pairs(size, seed=number))
        (folder / "SICK" / f"SICK_{part}.txt").write_text(text, encoding="utf-8")
    for year in range(12, 17):
        task = folder / f"STS{year}-en-test"
        task.mkdir()
        for number, part in enumerate(("headlines", "images")):
            pairs = invented_pairs(test, seed=year + 10 * number)
            inputs = "".join(f"{a}\t{b}\n" for a, b, _ in pairs)
            gold = "".join(f"{score if k != 1 else ''}\n" for k, (*_, score) in enumerate(pairs))
            (task / f"STS.input.{part}.txt").write_text(inputs, encoding="utf-8")
            (task / f"STS.gs.{part}.txt").write_text(gold, encoding="utf-8")
