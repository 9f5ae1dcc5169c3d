"""What the records of benches and of GPU tests say of a run: the command, and the commit."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def output_of(*command: str) -> str | None:
    """What a command prints, or None where there is no such command or it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def without_options(words: Sequence[str], names: Sequence[str] = ("output", "commit")) -> str:
    """A command without these options, which have a value each: of no use to who reads its record are the
    path that it was written to, which may be private, and the commit, which stands beside."""
    kept: list[str] = []
    is_value = False
    for word in words:
        option, equals, _ = word.partition("=")
        if is_value:
            is_value = False
        # argparse takes a beginning of an option's name for it.
        elif len(option) > 2 and any(f"--{name}".startswith(option) for name in names):
            is_value = not equals
        else:
            kept.append(word)
    return " ".join(kept)


def commit_named(name: str) -> str:
    """The type of `--commit`: a commit's hash. In a checkout it may be any name that the commit has there; a
    name that is no hash, where nothing tells what it stands for, would tell nobody later."""
    found = output_of("git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found:
        return found
    if not re.fullmatch("[0-9a-fA-F]{7,40}", name):
        raise argparse.ArgumentTypeError(f"{name} is no commit here, nor 7 to 40 hex digits")
    return name
