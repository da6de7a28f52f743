"""What --help looks like: options in sections, examples, and the next best name for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NEGATIVE = re.compile(r"-\d[\d.]*")
OPTIONS = "Options"
SECTIONS: Mapping[str, Sequence[str]] = {
    "Engine": ("engine", "engines", "method"),
    "Deployment": (
        "gpu", "context", "sequences", "dtype", "kv_dtype", "tensor_parallel", "pipeline_parallel",
        "memory_fraction", "draft_gpu", "draft_tensor_parallel", "draft_tokens",
    ),
    "Measuring": (
        "measure", "trial_from", "prompts", "tokens", "temperature", "budget", "backend", "device",
        "precision", "seed", "costs", "verify", "thinking", "records",
    ),
    "Report": ("form", "output", "plot", "profile", "strict", "quiet", "verbose", "help"),
}  # fmt: skip
"""Where an option stands, by its name in the request; all others come first."""
EXAMPLES: Mapping[str, Sequence[str]] = {
    "cache": ("draftcheck cache", "draftcheck cache --clear"),
    "doctor": (
        "draftcheck doctor",
        "draftcheck doctor --model my-org/my-model",
        "draftcheck doctor --format json",
    ),
    "explain": ("draftcheck explain LCP003",),
    "gate": (
        "draftcheck gate",
        "draftcheck gate compose.yaml --engine vllm@0.32.0",
        "draftcheck gate --fix --diff",
        "draftcheck gate --watch --format concise",
        "draftcheck gate --format sarif --output draftcheck.sarif",
    ),
    "inspect": ("draftcheck inspect Qwen/Qwen3-0.6B", "draftcheck inspect model-Q4_K_M.gguf"),
    "known": (
        "draftcheck known Qwen/Qwen3-32B",
        "draftcheck known meta-llama/Llama-3.3-70B-Instruct --for code --engine vllm",
    ),
    "lock": ("draftcheck lock", "draftcheck lock --check"),
    "pair": (
        "draftcheck pair Qwen/Qwen3-32B Qwen/Qwen3-0.6B",
        "draftcheck pair big.gguf small.gguf --engine llama.cpp --gpu 24GiB",
        'draftcheck pair Qwen/Qwen3-32B Qwen/Qwen3-0.6B --engine vllm@0.32.0 --gpu "2x h100"',
        "draftcheck pair Qwen/Qwen3.5-27B --engine vllm",
    ),
    "probe": (
        "draftcheck probe 127.0.0.1:8000",
        "draftcheck probe http://127.0.0.1:8080 --interval 30",
        "draftcheck probe 127.0.0.1:8000 --watch",
    ),
    "publish": ("draftcheck publish my-eagle3-head", "draftcheck publish my-org/my-eagle3-head"),
    "recommend": (
        "draftcheck recommend Qwen/Qwen3-32B --engine vllm",
        "draftcheck recommend big.gguf --local models",
    ),
    "report": ("draftcheck report --store nightly.db --output site",),
    "rules": ("draftcheck rules --engine vllm", "draftcheck rules LCP003"),
    "scan": ("draftcheck scan manifest.toml", "draftcheck scan manifest.toml --max-time 3600"),
    "schema": ("draftcheck schema", "draftcheck schema pair --output pair.schema.json"),
    "trial": (
        "draftcheck trial Qwen/Qwen3-8B Qwen/Qwen3-0.6B --engine vllm",
        "draftcheck trial big.gguf small.gguf --budget 300",
    ),
    "watch": ("draftcheck watch vllm 0.32.0", "draftcheck watch transformers --installed"),
    "web": ("draftcheck web site",),
    "why": ("draftcheck why server.log", 'draftcheck why "draft model vocab type must match"'),
}


class HelpCommand(click.Command):
    """A command whose help has its options in sections, and examples at the end."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A negative number behind an option whose value may be left out is no option."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            for option, value in pairwise([word for arg in given for word in arg.split("=", 1)]):
                if option.startswith("--") and NEGATIVE.fullmatch(value):
                    text = f"Invalid value for '{option}': {value} is not a number above 0."
                    raise click.UsageError(text, ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in (OPTIONS, *SECTIONS)}
        places = {name: title for title, names in SECTIONS.items() for name in names}
        options = (one for one in self.get_params(ctx) if isinstance(one, click.Option))
        for option in options:
            if (row := option.get_help_record(ctx)) is not None:
                found[places.get(option.name or "", OPTIONS)].append(row)
        for title, rows in found.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Say which values are those of draftcheck.toml: nobody sees them on the command line."""
        source = click.core.ParameterSource.DEFAULT_MAP
        told = [
            f"{option.opts[0]} {' '.join(value) if isinstance(value, tuple) else value}"
            for option in self.get_params(ctx)
            if option.name and ctx.get_parameter_source(option.name) is source
            for value in [ctx.params[option.name]]
        ]
        if told and not ctx.params.get("quiet"):
            click.echo(f"  {', '.join(told)} (draftcheck.toml)", err=True)
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if lines := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for line in lines:
                    formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class WholeNumber(click.IntRange):
    """A range whose help names no bounds: nobody comes near them."""

    name = "whole number"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        return "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(click.INT.convert(value, param, ctx))
        within(self, number, param, ctx)
        return number

    def _describe_range(self) -> str:
        return ""


def within(
    bounds: click.IntRange | click.FloatRange,
    number: float,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> None:
    """Say which bound a number is beyond: help names none that nobody comes near."""
    shown = f"{number:g}" if abs(number) < 1e15 else "the number"
    if bounds.min is not None and number < bounds.min:
        bounds.fail(f"{shown} is less than {bounds.min:g}.", param, ctx)
    if bounds.min_open and number == bounds.min:
        bounds.fail(f"{shown} is not more than {bounds.min:g}.", param, ctx)
    if bounds.max is not None and number > bounds.max:
        bounds.fail(f"{shown} is more than {bounds.max:,}.", param, ctx)


class EngineName(click.ParamType[str]):
    """An engine, perhaps with a version; shells complete its name."""

    name = "engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from draftcheck.rulebook import book

        return offered(["auto", *book.engine_files()], incomplete)


ENGINE = EngineName()


def rule_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For shells: the rules."""
    from draftcheck.report import rules

    found = dict.fromkeys(rule.id for _, rule in rules.select(None, None))
    return offered(list(found), incomplete.upper())


def cached_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """For shells: models that were read before, and files."""
    from click.shell_completion import CompletionItem

    from draftcheck import settings
    from draftcheck.models.sources.hub.cache import HubCache

    store = HubCache(settings.cache(), settings.cache_limit())
    names = sorted({str(body.get("repo")) for body in store.listings()})
    return [*offered(names, incomplete), CompletionItem(incomplete, type="file")]


def offered(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
