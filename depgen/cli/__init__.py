"""The command line: `depgen <verb> ...`. Thin: it finds the verb, lets it parse and call, prints what it returns."""

import argparse
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from depgen.cli.verbs import GROUPS, VERBS
from depgen.errors import UserError, did_you_mean

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
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--traceback", action="store_true")
    parser.add_argument("--modules", action="append", default=[])
    own, arguments = parser.parse_known_args(None if args is None else list(args))
    try:
        _import([name for names in own.modules for name in names.split(",")])
        _print(_dispatch(arguments))
    except UserError as error:
        return _fail(str(error), own.traceback)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return _fail(OUT_OF_MEMORY, own.traceback)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _fail(OUT_OF_MEMORY, own.traceback)
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: {error.strerror}. Choose another place, or free that one.", own.traceback)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _fail(str(stop.code), False)
    except KeyboardInterrupt:
        return _fail("Stopped.", own.traceback, code=130)
    return 0 if arguments else USAGE_ERROR


def _dispatch(arguments: list[str]) -> str | Iterator[str] | None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return usage()
    if arguments[0] == "--version":
        from importlib.metadata import version

        return f"depgen {version('depgen')}"
    words = 2 if " ".join(arguments[:2]) in VERBS else 1
    verb, rest = " ".join(arguments[:words]), arguments[words:]
    if verb not in VERBS:
        if longer := [name for name in VERBS if name.startswith(f"{verb} ")]:
            raise UserError(f"Expected one of `{'`, `'.join(longer)}`; each lists its options with --help.")
        raise UserError(f"There is no verb {verb!r}.{did_you_mean(verb, VERBS)} `depgen --help` lists all.")
    from depgen.cli.log_lines import log_to_stderr  # takes a tenth of the time of help

    log_to_stderr()
    if not VERBS[verb].target:
        from depgen.cli.run_cli import run_training

        return run_training(verb, rest)
    from depgen.cli.verb_functions import run_function

    return run_function(verb, VERBS[verb], rest)


def usage() -> str:
    """The verbs, grouped by what a user wants to do, one line each."""
    width = max(map(len, VERBS))
    lines = []
    for title, verbs in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<{width}}  {verb.help}" for name, verb in verbs.items()), ""]
    return "\n".join(
        [
            "usage: depgen <verb> [options]",
            "",
            "Language models with dependency syntax: train, test, compare and use published systems.",
            "",
            *lines,
            "`depgen <verb> --help` lists a verb's options. `--traceback` shows where an error comes from.",
            "`--modules NAME,NAME` imports modules of your own, whose classes runs may then name.",
        ]
    )


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the memory of the machine or of a GPU was too small; torch has no class for the former."""
    return isinstance(error, MemoryError) or any(
        text in str(error) for text in ("out of memory", "can't allocate memory", "DefaultCPUAllocator")
    )


def _import(names: Sequence[str]) -> None:
    """Import the user's own modules, which may lie in the working directory."""
    if names and "" not in sys.path:
        sys.path.insert(0, "")
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise UserError(f"--modules {name}: {error}.") from error


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
