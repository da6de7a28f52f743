"""Trees that describe programs: image, command, args, environment.

ContainerReader turns parts of such a tree into commands; compose files, Kubernetes objects and
llama-swap's configuration say where they stand. In other YAML and JSON (Helm values, CI steps …)
lists of arguments are told by their names, and under any key a text or a list that is an engine's
command is read as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from draftcheck.deploy import leftovers
from draftcheck.deploy.deployment import (
    TOO_MUCH,
    Contents,
    DocumentTree,
    at_spaces,
    flag_words,
    split,
)
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.options import programs
from draftcheck.deploy.options.programs import hinted
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.syntax.variables import Variables, filled, interpolated
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.values.findings import FilePlace

MAX_COMMAND = 20_000
"""Characters of a command that goes over several lines without a shell."""
Fill = Callable[[TextView], TextView]
_LINES_OF_OPTIONS = re.compile(
    r"[^\n#\\&|;]+(?=\n[ \t]*-)(?:\n[ \t]*(?:-[^\n]*[^\n\\&|;]|#[^\n]*|(?=\n)))+"
)
_TAGS = ("version", "tag", "imageTag", "image_tag")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


@dataclass(slots=True)
class ContainerReader:
    """Turns parts of a tree into commands; fill says how variables are filled in."""

    contents: Contents
    fill: Fill = field(default=lambda view: view)

    def word(self, tree: DocumentTree | None) -> Word | None:
        """A scalar as a word, with variables filled in."""
        if tree is None or tree.word is None:
            return None
        text = self.fill(tree.word.view)
        return tree.word if text is tree.word.view else text.word(tree.place, None)

    def args(self, tree: DocumentTree | None) -> list[Word]:
        """A list of words, or a string that is split into words."""
        if tree is None:
            return []
        if tree.items is not None:
            return [arg for item in tree.items if (arg := self.word(item)) is not None]
        if tree.word is None or tree.word.kind == "null":
            return []
        return split(self.fill(tree.word.view), self.contents)

    def image(self, tree: DocumentTree | None) -> Word | None:
        """An image: a text, or a mapping of repository and tag."""
        if tree is None or tree.entries is None:
            return self.word(tree)
        repository = self.word(tree.get("repository") or tree.get("name"))
        if repository is None:
            return None
        registry = self.word(tree.get("registry"))
        tag = self.word(tree.get("tag")) or self.word(tree.get("digest"))
        text = repository.text if not tag or not tag.text else f"{repository.text}:{tag.text}"
        if registry and registry.text:
            text = f"{registry.text.rstrip('/')}/{text}"
        unknown = repository.unknown or (tag.unknown if tag else None)
        stands = tag or repository
        return Word(text, stands.place, stands.view.vague(text, 0, 0), unknown)

    def image_in(self, mapping: DocumentTree) -> Word | None:
        """The image that a mapping names; its tag may stand under a key of its own."""
        image = self.image(mapping.get("image"))
        names = (found for name in _TAGS if (found := self.word(mapping.get(name))) is not None)
        tag = next(names, None)
        if image is None or tag is None or not tag.text or ":" in image.text.rpartition("/")[2]:
            return image
        text = f"{image.text}:{tag.text}"
        return Word(text, tag.place, tag.view.vague(text, 0, 0), image.unknown or tag.unknown)

    def environment(self, tree: DocumentTree | None) -> dict[str, Word]:
        """Variables: a mapping, a list of NAME=value, or of mappings with name and value."""
        found = dict[str, Word]()
        for name, value in (tree.entries or ()) if tree is not None else ():
            word = self.word(value)
            if word is not None and word.kind != "null":
                found[name.text] = word
        for item in (tree.items or ()) if tree is not None else ():
            view = item.view
            name_, value_ = self.word(item.get("name")), self.word(item.get("value"))
            if name_ is not None and value_ is not None:
                found[name_.text] = value_
            elif view is not None and "=" in view.text:
                text = self.fill(view)
                key = text.text.partition("=")[0]
                found[key] = text.slice(len(key) + 1, len(text.text)).word()
        for word in found.values():
            if programs.is_options(word.view.text):  # for the entry point, or a script
                self.contents.loose_options(word.view)
        return found

    def emit(
        self,
        args: list[Word],
        image: Word | None = None,
        env: dict[str, Word] | None = None,
        place: FilePlace | None = None,
    ) -> None:
        """Add a command without its wrappers."""
        shell.Unwrapping(self.contents, Variables(), place, image, env or {}).emit(args)

    def script(
        self, tree: DocumentTree, image: Word | None = None, env: dict[str, Word] | None = None
    ) -> None:
        """Read a scalar, or a list of scalars, as shell text."""
        for item in tree.items if tree.items is not None else (tree,):
            view = item.view
            if view is None or not hinted(view.text):
                continue
            # One command, as llama-swap has it.
            short = len(view.text) < MAX_COMMAND
            if short and _LINES_OF_OPTIONS.fullmatch(view.text.strip()):
                words = split(_filled(self.fill(view), {}), self.contents)
                self.emit(words, image, env, item.place)
            else:
                shell.inside(self.fill(view), self.contents, None, image, env)

    def file(self, tree: DocumentTree, name: str) -> None:
        """Read a scalar as a file of its own."""
        view = tree.view
        if view is not None:
            shell.file_inside(view, name, self.contents)


def started(runtime: DocumentTree | None, model: DocumentTree | None) -> list[Word]:
    """The program that a runtime's name stands for, with the model that is handed to it."""
    view = runtime.view if runtime is not None else None
    known = programs.table().runtimes
    words = known.get(view.text.lower(), ()) if view is not None else ()
    if view is None or not words:
        return []
    place = view.place()
    found = [Word(word, place, view.instead(word, 0, 0)) for word in words]
    where = model.view if model is not None else None
    if where is not None and where.text.startswith("hf://"):
        found.append(where.slice(len("hf://"), len(where.text)).word())
    return found


def references(args: list[Word], env: dict[str, Word]) -> list[Word]:
    """Fill in $(NAME) from the container's own environment."""

    def value(match: re.Match[str]) -> TextView | None:
        known = env.get(match[1])
        return known.view if known is not None and not known.unknown else None

    return [
        filled(arg.view, _REFERENCE, value).word(arg.place, None) if "$(" in arg.view.text else arg
        for arg in args
    ]


def mappings(tree: DocumentTree) -> Iterator[DocumentTree]:
    """Every mapping of a tree, outer ones first; shared parts once."""
    seen, waiting = set[int](), [tree]
    while waiting:
        at = waiting.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if at.entries is not None:
            yield at
            waiting.extend(value for _, value in reversed(at.entries))
        waiting.extend(reversed(at.items or ()))


def is_compose(name: str, text: str) -> bool:
    return "compose" in name or ("\nservices:" in f"\n{text}" and "image:" in text)


def read_compose(view: TextView, contents: Contents) -> None:
    """Services with image, entrypoint, command and environment."""
    reader = ContainerReader(contents, lambda text: interpolated(text, None, contents.outside))
    for tree in parse(view, contents):
        for key, service in tree.pairs("services"):
            env = reader.environment(service.get("environment"))
            args = reader.args(service.get("entrypoint")) + reader.args(service.get("command"))
            # Built here: what its entry point hands on is told by the options.
            image = reader.image(service.get("image")) or key.view.slice(0, 0).word()
            reader.emit(args, image, env)
            inline = service.get("build", "dockerfile_inline")
            if inline is not None:
                reader.file(inline, "Dockerfile")
        for key, config in tree.pairs("configs"):
            content = config.get("content")
            if content is not None:
                reader.file(content, key.text)


def read_kubernetes(view: TextView, contents: Contents) -> None:
    """Containers wherever they stand, and files inside ConfigMaps."""
    objects(ContainerReader(contents), parse(view, contents))


def objects(reader: ContainerReader, trees: list[DocumentTree]) -> None:
    """Every mapping that names an image, a command or its arguments, and every file."""
    described = (tree for tree in trees if tree.said("kind") != "CustomResourceDefinition")
    found = [mapping for tree in described for mapping in mappings(tree)]
    settings = {  # what the ConfigMaps of the same file hold, by their names
        mapping.said("metadata", "name"): reader.environment(mapping.get("data"))
        for mapping in found
        if mapping.said("kind") == "ConfigMap"
    }
    files = set[int]()
    for mapping in found:
        if mapping.said("kind") in ("ConfigMap", "Secret"):
            for key, value in (*mapping.pairs("data"), *mapping.pairs("stringData")):
                reader.file(value, key.text)
            files |= {id(mapping.get("data")), id(mapping.get("stringData"))}
        elif id(mapping) not in files:
            _container(reader, mapping, settings)
            for key, value in mapping.entries or ():
                if key.text not in ("command", "args"):
                    _engine_command(reader, key.text, value, reader.image(mapping.get("image")), {})
            for inner in (mapping.get("helm", "values"), mapping.get("serveConfigV2")):
                if inner is not None and inner.word is not None:  # Argo CD, KubeRay
                    reader.file(inner, "values.yaml")


def _container(
    reader: ContainerReader, mapping: DocumentTree, settings: dict[str, dict[str, Word]]
) -> None:
    """One container; settings: variables of the ConfigMaps of the same file, by their names."""
    command, args = mapping.get("command"), mapping.get("args")
    lists = [tree for tree in (command, args) if tree is not None and tree.items is not None]
    image = mapping.get("image")
    if not lists and (image is None or image.word is None):
        return
    env = dict[str, Word]()
    for item in mapping.listed("envFrom"):
        env.update(settings.get(item.said("configMapRef", "name"), {}))
    env.update(reader.environment(mapping.get("env")))
    for item in mapping.listed("env"):
        reference = item.get("valueFrom", "configMapKeyRef")
        data = settings.get(reference.said("name"), {}) if reference is not None else {}
        if reference is not None and (value := data.get(reference.said("key"))) is not None:
            env[item.said("name")] = value
    words = [arg for tree in lists for arg in reader.args(tree)]
    if command is None and image is None:
        runtime = mapping.get("modelFormat", "name") or mapping.get("engine")
        model = mapping.get("storageUri") or mapping.get("url")
        words[:0] = started(runtime, model)
    reader.emit(references(words, env), reader.image_in(mapping), env)


_BARE_JSON = re.compile(r"^[^\n\\]* \{\"[^\n\\]*$")
"""In a text that no shell reads: a shell would take the quotes away."""
_MACRO = re.compile(r"^[ \t]*#.*$|\$\{([\w.-]+)\}", re.MULTILINE)


def read_llama_swap(view: TextView, contents: Contents) -> None:
    """A command per model, with macros."""
    for tree in parse(view, contents):
        shared = _macros(tree)
        # A macro that no model uses starts nothing.
        contents.replaced += [value.word for _, value in tree.pairs("macros") if value.word]
        for key, model in tree.pairs("models"):
            macros = {**shared, **_macros(model)}
            macros["MODEL_ID"] = view.instead(key.text, 0, 0)
            reader = ContainerReader(contents, partial(_filled, macros=macros))
            command = model.get("cmd")
            if command is not None:
                env = reader.environment(model.get("env"))
                reader.emit(reader.args(command), None, env, command.place)


def _macros(tree: DocumentTree) -> dict[str, TextView]:
    found = dict[str, TextView]()
    for name, value in tree.pairs("macros"):
        if (text := value.view) is not None:
            # A macro may use those before it.
            found[name.text] = _filled(text, found)
    return found


def _filled(view: TextView, macros: dict[str, TextView]) -> TextView:
    """The text with macros filled in and without comment lines."""

    def value(match: re.Match[str]) -> TextView | None:
        return macros.get(match[1]) if match[1] else view.slice(match.start(), match.start())

    return filled(view, _MACRO, value)


_FIELD = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?=(?:\}\})*(?:[^}]|$))")


def _formatted(view: TextView, told: Mapping[str, DocumentTree]) -> TextView:
    """The text with {name} filled in; a name that is not told stays as it is."""

    def value(match: re.Match[str]) -> TextView | None:
        known = told.get(match[1])
        return known.view if known is not None and known.says else view.slice(*match.span())

    return filled(view, _FIELD, value)


# ---- any other YAML or JSON ----

_ARGUMENTS = re.compile(r"(?:\w*_?args|\w*Args|arguments|\w*[fF]lags|extra_?opts)")
_SCRIPTS = {
    "run", "cmds", "script", "before_script", "after_script", "shell", "runcmd",
    "ansible.builtin.shell", "ansible.builtin.command",
}  # fmt: skip
_ENVIRONMENT = ("env", "envs", "environment", "variables", "extraEnv", "extraEnvVars")
# A chart's own names for what it passes on as options.
_MODELS = ("modelURL", "modelUrl")
_OPTIONS = re.compile(r"vllmConfig|sglangConfig|llamaConfig")
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHELLS = {
    "pwsh": "step.ps1", "powershell": "step.ps1", "cmd": "step.bat", "python": "step.py",
}  # fmt: skip
MAX_VISITS = 200_000


@dataclass(frozen=True, slots=True)
class _Above:
    """What the mappings around a mapping say."""

    image: Word | None = None
    model: DocumentTree | None = None
    windows: bool = False
    """Steps are PowerShell unless they say otherwise."""
    env: Mapping[str, Word] = field(default_factory=dict)


def read_yaml(view: TextView, contents: Contents) -> None:
    reader = ContainerReader(contents)
    for tree in parse(view, contents):
        if tree.get("model", "model_id") is not None and tree.get("features") is not None:
            _recipe(reader, tree)
        else:
            walk(reader, tree)


def _recipe(reader: ContainerReader, tree: DocumentTree) -> None:
    """vLLM's recipes: a model, its arguments, features and overrides that add some, and a guide."""
    model = reader.word(tree.get("model", "model_id"))
    base = reader.args(tree.get("model", "base_args"))
    lists = [(key, value) for each in mappings(tree) for key, value in each.entries or ()]
    for key, value in lists:
        words = reader.args(value) if value.items and key.text != "base_args" else []
        if model is not None and any(programs.is_sign(word.text) for word in words):
            told = programs.table().runtimes["vllm"]
            program = [Word(word, model.place, model.view.vague(word, 0, 0)) for word in told]
            reader.emit([*program, model, *base, *words], place=value.place)
    if (guide := tree.get("guide")) is not None:
        reader.file(guide, "guide.md")


def walk(reader: ContainerReader, tree: DocumentTree) -> None:
    """Visit every mapping, images of outer ones in mind."""
    waiting = [(tree, _Above(), "")]
    seen = set[int]()
    visits = 0
    while waiting and visits < MAX_VISITS:
        at, above, under = waiting.pop()
        visits += 1
        if id(at) in seen:
            continue
        seen.add(id(at))
        waiting.extend((item, above, under) for item in reversed(at.items or ()))
        if at.entries is None:
            continue
        above = _around(reader, at, above)
        if under != "engine_kwargs":
            _engine_options(reader, at)
        _local_ai(reader, at)
        if under != "with":  # the inputs of an action have names of their own
            _mapping(reader, at, above, seen)
        waiting.extend((value, above, key.text) for key, value in reversed(at.entries))
    if waiting:
        reader.contents.cut_at(tree.place, TOO_MUCH)


def _around(reader: ContainerReader, mapping: DocumentTree, above: _Above) -> _Above:
    container = mapping.get("container")
    inner = container.get("image") if container is not None else None
    base = mapping.get("base_image", "image")
    image = reader.image_in(mapping) or reader.image(inner or container or base)
    if image is None and mapping.get("repository") is not None and mapping.get("tag") is not None:
        image = reader.image(mapping)
    if image is not None:
        above = replace(above, image=image)
    for name in _ENVIRONMENT:
        if (given := mapping.get(name)) is not None:
            above = replace(above, env={**above.env, **reader.environment(given)})
    runs_on = mapping.get("runs-on")
    if runs_on is not None and runs_on.word is not None:
        above = replace(above, windows="windows" in runs_on.word.text.lower())
    names = (found for name in _MODELS if (found := mapping.get(name)) is not None)
    model = next(names, mapping.get("modelArtifacts", "uri"))
    return replace(above, model=model) if model is not None else above


def _mapping(reader: ContainerReader, mapping: DocumentTree, above: _Above, seen: set[int]) -> None:
    if mapping.pairs("defaults"):  # a text that a program formats: {port}, {{"key": 1}}
        told = {key.text: value for key, value in mapping.pairs("defaults")}
        reader = replace(reader, fill=partial(_formatted, told=told))
    env, words = dict(above.env), list[Word]()
    for key, value in mapping.entries or ():
        if key.text in _SCRIPTS:
            # A step's text, in the language that it names.
            named = mapping.said("shell").split() or ["pwsh" if above.windows else "sh"]
            if named[0] in _SHELLS:
                reader.file(value, _SHELLS[named[0]])
            elif value is not mapping.get("shell"):
                reader.script(value, above.image, env)
        elif key.text in ("command", "cmd", "entrypoint"):
            if value.word is None or value.word.text.lstrip().startswith("-"):
                words[:0] = _listed(reader, value)
            else:
                reader.script(value, above.image, env)
        elif _ARGUMENTS.fullmatch(key.text) and not _texts_of_options(value):
            words.extend(_listed(reader, value))
        elif _OPTIONS.fullmatch(key.text):
            _options(reader, value, above, env)
            seen.add(id(value))
        else:
            _engine_command(reader, key.text, value, above.image, env)
    if mapping.get("engine_kwargs") is not None and mapping.get("model_loading_config") is not None:
        reader.contents.document("ray-llm", mapping)
    words[:0] = started(mapping.get("modelCommand"), above.model)
    if words:
        reader.emit(references(words, env), above.image, env)


def _engine_options(reader: ContainerReader, mapping: DocumentTree) -> None:
    """A mapping that holds keys which one engine alone has: that engine's options, by name."""
    keys = {key.text.replace("_", "-") for key, _ in mapping.entries or ()}
    if not keys & programs.sign_keys():
        return
    if any(mapping.said(key).lower() == "false" for key in ("enable", "enabled")):
        reader.contents.spoken |= leftovers.lines([mapping.place])
    else:
        inner = mapping.get("speculative_config", "decoding_type")
        if inner is not None or mapping.get("decoding_type") is None:
            kind = "trtllm" if inner is not None else "options-inside"
            reader.contents.document(kind, mapping)


_LOCAL_AI_METHOD = re.compile(r"spec_type[:=](?!none\b)")


def _local_ai(reader: ContainerReader, mapping: DocumentTree) -> None:
    """LocalAI's model: its backend is a library, which has no command line of its own."""
    model, draft = mapping.get("parameters", "model"), mapping.get("draft_model")
    given = (reader.word(item) for item in mapping.listed("options"))
    method = next((word for word in given if word and _LOCAL_AI_METHOD.match(word.text)), None)
    if model is None or (method is None and "llama" not in mapping.said("backend")):
        return
    sides = {"-m": reader.word(model), "-md": reader.word(draft) if draft is not None else None}
    sides["--spec-type"] = method.tail(len("spec_type:")) if method is not None else None
    as_command(reader, "local-ai", sides)


def as_command(reader: ContainerReader, program: str, sides: Mapping[str, Word | None]) -> None:
    """Keys of a program's own file as the command that means the same."""
    given = {option: word for option, word in sides.items() if word is not None and word.text}
    if "-m" not in given or len(given) == 1:
        return
    last = [*given.values()][-1]
    words = [Word(program, last.place, last.view.vague(program, 0, 0))]
    for option, word in given.items():
        words += [Word(option, word.place, word.view.vague(option, 0, 0)), word]
    reader.emit(words, place=given.get("-md", last).place)


def _engine_command(
    reader: ContainerReader,
    key: str,
    value: DocumentTree,
    image: Word | None,
    env: dict[str, Word],
) -> None:
    """A text or a list of words that is an engine's command, whatever the key is called."""
    if leftovers.PROSE.fullmatch(key):
        return
    texts = [item.word.text for item in value.items or (value,) if item.word is not None]
    if value.word is not None and "```" in value.word.text:
        reader.file(value, "text.md")
    elif value.word is not None and programs.holds_key(value.word.text):
        reader.file(value, "values.yaml")
    elif value.items is not None and len(texts) == len(value.items) and _words_of_command(texts):
        reader.emit(references(reader.args(value), env), image, env, value.place)
    elif any(programs.starts_engine(text) for text in texts if " " in text or "\n" in text):
        if value.view is not None and _BARE_JSON.search(value.view.text):
            reader.emit(at_spaces(reader.fill(value.view)), image, env, value.place)
        else:
            reader.script(value, image, env)
    else:
        views = (item.view for item in value.items or (value,))
        rows = [view for view in views if view is not None and programs.is_options(view.text)]
        for row in _together(rows):  # texts of options, among names of others
            reader.contents.loose_options(row, image)


def _together(rows: list[TextView]) -> list[TextView]:
    """Rows of options as one, unless they give the same one: then each is a way of its own."""
    words = (word.partition("=")[0] for row in rows for word in row.text.split())
    signs = [word for word in words if programs.is_sign(word)]
    if len(rows) < 2 or len(set(signs)) < len(signs):
        return rows
    return [joined([part for row in rows for part in (row, row.blank(len(row.text) - 1))])]


def _texts_of_options(value: DocumentTree) -> bool:
    """Whether items are rows of options, which another program joins."""
    views = [item.view for item in value.items or () if item.view is not None]
    return any(programs.is_options(view.text) and "=" not in view.text for view in views)


def _words_of_command(texts: list[str]) -> bool:
    """Whether these are the words of one command: no word is a command by itself."""
    if len(texts) > 2 and all(text.startswith("-") and "=" not in text for text in texts):
        return False  # names of options
    started = programs.starts_engine(" ".join(texts[:8]))
    return (started or any(map(programs.is_sign, texts))) and not any(
        programs.starts_engine(text) and " " in text for text in texts
    )


def _listed(reader: ContainerReader, value: DocumentTree) -> list[Word]:
    """Arguments: a list, a mapping of options, or a text that begins with an option."""
    if value.items is not None:
        return reader.args(value)
    if any(programs.is_sign(key.text) for key, _ in value.entries or ()):
        return flag_words(value)
    text = value.word.text.lstrip() if value.word is not None else ""
    return reader.args(value) if text.startswith("-") else []


def _options(
    reader: ContainerReader, mapping: DocumentTree, above: _Above, env: dict[str, Word]
) -> None:
    """Options by name (maxModelLen: 4096), as the chart spells them on the command line."""
    words = list[Word]()
    if above.model is not None and (model := reader.word(above.model)) is not None:
        words += [Word("--model", model.place, model.view.vague("--model", 0, 0)), model]
    for key, value in mapping.entries or ():
        if _ARGUMENTS.fullmatch(key.text):
            words.extend(_listed(reader, value))
            continue
        arg = reader.word(value)
        if arg is not None and arg.kind in ("int", "float", "str"):
            option = "--" + _UPPER.sub("-", key.text).lower()
            words += [Word(option, key.place, arg.view.vague(option, 0, 0)), arg]
    reader.emit(words, above.image, env)


_WORTH = re.compile(r"\"(?:image|command|\w*[aA]rgs|cmd|entry[pP]oint|run|scripts?)\"\s*:")
_NOT_WORTH = re.compile(r"tokenizer.*\.json|vocab\.json|.*\.index\.json|added_tokens\.json")


def read_json(view: TextView, contents: Contents) -> None:
    """A document of engine arguments, or the commands that it describes."""
    worth = _WORTH.search(view.text) or programs.starts_engine(view.text)
    worth = worth or programs.signed(view.text.encode(errors="replace"))
    if _NOT_WORTH.fullmatch(view.name) or (view.name != "model.json" and not worth):
        return
    if leftovers.is_record(view.text):
        return
    tree = json_places.parse_view(view, contents, "JSON")
    if tree is None or tree.word is not None:
        return
    reader = ContainerReader(contents)
    if view.name == "model.json" and tree.get("model") is not None:
        contents.document("triton-model", tree)
    elif tree.get("apiVersion") is not None:
        objects(reader, [tree])
    else:
        walk(reader, tree)
        for _, script in tree.pairs("scripts"):
            reader.script(script)
