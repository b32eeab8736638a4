"""What benchmarks share: timing in pairs, and the files that the README's table is made from."""

import json
import statistics
import time
from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from depgen.locations import results_root, write_atomically

Figure = dict[str, object]


def seconds(action: Callable[[], object]) -> float:
    """Wall time of an action; waits for the GPU, if there is one."""
    start = time.perf_counter()
    action()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def operation_seconds(action: Callable[[], object]) -> dict[str, float]:
    """Seconds of each operation of an action by itself, Python's own among them; a busy machine slows all alike.

    On a GPU, of the kernels that an operation starts: the profiler lists these once more by themselves.
    """
    on_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as recorded, record_function("between operations"):
        action()
    return {
        each.key: (each.self_device_time_total if on_gpu else each.self_cpu_time_total) / 1e6
        for each in recorded.key_averages()
        if each.device_type == DeviceType.CPU
    }


def peak_memory(action: Callable[[], object]) -> int:
    """Bytes on the CPU at the peak of an action, beyond what is held before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        action()
    held = peak = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda each: each.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def step_memory(step: Callable[[], object]) -> int:
    """Bytes allocated at the peak of a step; on a GPU, what is held before it counts too."""
    step()
    if not torch.cuda.is_available():
        return peak_memory(step)
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated()


def paired_ratio(first: Callable[[], object], second: Callable[[], object], *, pairs: int) -> float:
    """The median of second / first over runs in turn, so that a busy machine slows both alike."""
    first(), second()
    return statistics.median(seconds(second) / seconds(first) for _ in range(pairs))


def figure(value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None) -> Figure:
    """One entry of a benchmark's file."""
    entry: Figure = {"value": round(value, 3), "unit": unit}
    if at_most is not None:
        entry |= {"target": at_most, "met": value <= at_most}
    if at_least is not None:
        entry |= {"target": at_least, "met": value >= at_least}
    return entry


def write_figures(name: str, figures: dict[str, Figure]) -> None:
    """Write `results/bench/<name>.json` and print it, a line a figure."""
    write_atomically(results_root() / "bench" / f"{name}.json", json.dumps(figures, indent=2) + "\n")
    print("", *(f"{name}: {in_words(each, entry)}" for each, entry in figures.items()), sep="\n")


def in_words(name: str, entry: Figure) -> str:
    """A figure and whether it meets its goal, where it has one."""
    words = f"{name} {entry['value']} {entry['unit']}"
    if "met" not in entry:
        return words
    return f"{words} (goal {entry['target']} {entry['unit']}: {'met' if entry['met'] else 'NOT met'})"
