"""The command line: `depgen <verb> ...`. Thin: it finds the verb, lets it parse and call, prints what it returns."""

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from depgen.cli.verbs import GROUPS, TRAINING_VERBS, VERBS
from depgen.errors import UserError, nearest

_TRAINING = ("fit", "train-union", "train-oracle")
OTHER_WORDS = {"train": _TRAINING, "training": _TRAINING, "evaluate": ("test", "validate", "evaluate-text")}
"""Words that other programs have for our verbs."""
MODULES = "--modules"
OUT_OF_MEMORY = (
    "Out of memory. Lower data.init_args.tokens_per_batch (and eval_tokens_per_batch), or the option "
    "--tokens_per_batch or --batch_size of a verb that has it."
)
USAGE_ERROR = 2
"""The exit code of what a user can mend."""


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of a command: 0, 2 for a mistake of the user's or a file's, 130 after Ctrl-C; others are raised.

    Args:
        args: what follows `depgen` on the command line; None = as the process was called.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    show_traceback = "--traceback" in arguments
    arguments = [each for each in arguments if each != "--traceback"]
    try:
        _print(_dispatch(_without_modules(arguments)))
    except UserError as error:
        return _fail(str(error), show_traceback)
    except UnicodeEncodeError as error:
        said = f"{error.object[error.start : error.end]!r} in what is to be printed"
        return _fail(f"{said} can't be written in {error.encoding}: write it into a file, by --output.", show_traceback)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return _fail(OUT_OF_MEMORY, show_traceback)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _fail(OUT_OF_MEMORY, show_traceback)
        if error.filename is None:
            raise
        said = f"{error.filename}: {error.strerror}. Choose another place, or free that one."
        return _fail(said, show_traceback)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _fail(str(stop.code), False)
    except KeyboardInterrupt:
        return _fail("Stopped.", show_traceback, code=130)
    return 0 if arguments else USAGE_ERROR


def _dispatch(arguments: list[str]) -> str | Iterator[str] | None:
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return usage()
    if arguments[0] == "--version":
        from importlib.metadata import version

        return f"depgen {version('depgen')}"
    if arguments[0] == "predict" and any(each.partition("=")[0] == "--input" for each in arguments):
        arguments = ["parse", *arguments[1:]]
    words = 2 if " ".join(arguments[:2]) in VERBS else 1
    verb, rest = " ".join(arguments[:words]), arguments[words:]
    if verb in TRAINING_VERBS or verb in VERBS:
        from depgen.cli.log_lines import log_to_stderr
        from depgen.cli.slips import check_slips

        log_to_stderr()
        check_slips(rest)
    if verb in TRAINING_VERBS:
        from depgen.cli.training import run_training

        return run_training(verb, rest)
    if verb in VERBS:
        from depgen.cli.verb_functions import run_function

        return run_function(verb, VERBS[verb], rest)
    if longer := [name for name in VERBS if name.startswith(f"{verb} ")]:
        raise UserError(f"Expected one of `{'`, `'.join(longer)}`; each lists its options with --help.")
    near = nearest(verb, [*TRAINING_VERBS, *VERBS, *OTHER_WORDS])
    meant = f" Did you mean {_either(OTHER_WORDS.get(near, (near,)))}?" if near else ""
    raise UserError(f"There is no verb {verb!r}.{meant} `depgen --help` lists all.")


def _either(names: Sequence[str]) -> str:
    """The names as alternatives."""
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


def usage() -> str:
    """The verbs, grouped by what a user wants to do, one line each."""
    table = {**TRAINING_VERBS, **{name: verb.help for name, verb in VERBS.items()}}
    width = max(map(len, table))
    lines = []
    for title, verbs in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<{width}}  {table[name]}" for name in verbs), ""]
    return "\n".join(
        [
            "usage: depgen <verb> [options]",
            "",
            "Language models with dependency syntax: train, test, compare and use published systems.",
            "",
            *lines,
            "`depgen help <verb>` lists a verb's options. `--traceback` shows where an error comes from.",
            f"`{MODULES} NAME,NAME` imports modules of your own, whose classes runs may then name.",
        ]
    )


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the memory of the machine or of a GPU was too small; torch has no class for the former."""
    return isinstance(error, MemoryError) or any(
        text in str(error) for text in ("out of memory", "can't allocate memory", "DefaultCPUAllocator")
    )


def _without_modules(arguments: list[str]) -> list[str]:
    """The arguments without `--modules`, whose modules are imported; they may lie in the working directory.

    Raises:
        UserError: there is no such module.
    """
    others, names = list[str](), list[str]()
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if before == MODULES or argument.startswith(f"{MODULES}="):
            names += argument.removeprefix(f"{MODULES}=").split(",")
        elif argument != MODULES:
            others.append(argument)
    if names and "" not in sys.path:
        sys.path.insert(0, "")
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise UserError(f"{MODULES} {name}: {error}.") from error
    return others


def _print(text: str | Iterator[str] | None) -> None:
    """Print a text, or the parts of a long one as they are made."""
    try:
        for part in [text] if isinstance(text, str) else text or ():
            sys.stdout.write(part if part.endswith("\n") or not part else f"{part}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `depgen ... | head`: point stdout elsewhere, so that Python's own flush at exit is silent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, show_traceback: bool, *, code: int = USAGE_ERROR) -> int:
    if show_traceback:
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"depgen: {message}\n")
    return code
