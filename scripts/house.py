"""Measures of the source, read from its syntax trees: size, entries, floors, arrows, cycles, switches, plain English.

python scripts/house.py [--check] [SOURCE]

Prints one line a measure: of `equipoise`, and the size of the other distributions. With `--check`, two things are
listed and end the program with exit code 1: import cycles between files, `if TYPE_CHECKING` and imports within
functions included, and docstrings of any distribution that begin with a question word.
"""

import ast
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
SOURCE = PACKAGES / "equipoise" / "src" / "equipoise"
OTHERS = (
    PACKAGES / "equipoise-service" / "src" / "equipoise_service",
    PACKAGES / "equipoise-paper" / "src" / "equipoise_paper",
)
QUESTIONS = ("What", "Whether", "How", "Where", "Who", "Whose", "Which", "Why")
EMPTY_NAMES = ("found", "one", "place")  # say that a variable holds something, not what
MODEL_ROOMS = ("models", "inference/models")  # where a kind of model may be asked for
SETTLEMENT_OPTIONS = frozenset(
    "seed rho mechanism teams estimator method rule draws chains precision tolerance budget noise_secret".split()  # noqa: SIM905
)
RELEASE_OPTIONS = frozenset("epsilon zcdp approx key again cap_zcdp family cohort allow_clipping".split())  # noqa: SIM905
KIND = "poisson"  # stands for all kinds of models


@dataclass(frozen=True)
class Import:
    """A file that is imported, and whether a function does it."""

    target: str
    within_function: bool


@dataclass(frozen=True)
class File:
    """One module of the package."""

    path: Path
    name: str  # dotted
    tree: ast.Module
    text: str

    @property
    def room(self) -> str:
        """The entry of the package that it is, or is in."""
        return self.name.split(".")[1] if "." in self.name else "__init__"

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All its functions and methods."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


class House:
    """All files of a package, and who imports whom."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.files = {file.name: file for file in map(self._read, sorted(source.rglob("*.py")))}
        self.imports = {name: list(self._imports(file)) for name, file in self.files.items()}

    def _read(self, path: Path) -> File:
        parts = [self.source.name, *path.relative_to(self.source).with_suffix("").parts]
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return File(path, name, ast.parse(text, str(path)), text)

    def _imports(self, file: File) -> Iterator[Import]:
        inside = {id(node) for function in file.functions for node in ast.walk(function) if isinstance(node, ast.stmt)}
        for node in ast.walk(file.tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                target = name if name in self.files else name.rpartition(".")[0]
                if target in self.files and target != file.name:
                    yield Import(target, id(node) in inside)

    @property
    def entries(self) -> int:
        """Files and folders of the package itself."""
        return sum(not path.name.startswith("__pycache__") for path in self.source.iterdir())

    @cached_property
    def arrows(self) -> set[tuple[str, str]]:
        """Rooms that import one another, without the façade `__init__`."""
        found = {
            (self.files[name].room, self.files[one.target].room)
            for name, imports in self.imports.items()
            for one in imports
        }
        return {(here, there) for here, there in found if here != there and "__init__" not in (here, there)}

    @property
    def floors(self) -> int:
        """The longest chain of rooms; rooms that import one another are one."""
        rooms = sorted({room for arrow in self.arrows for room in arrow})
        graph = {room: {there for here, there in self.arrows if here == room} for room in rooms}
        group = {room: index for index, members in enumerate(components(graph)) for room in members}
        above: dict[int, set[int]] = {index: set() for index in group.values()}
        for here, there in self.arrows:
            if group[here] != group[there]:
                above[group[here]].add(group[there])
        heights: dict[int, int] = {}

        def height(index: int) -> int:
            if index not in heights:
                heights[index] = 1 + max(map(height, above[index]), default=0)
            return heights[index]

        return max(map(height, above), default=0)

    @cached_property
    def cycles(self) -> list[list[str]]:
        """Files that import one another, wherever in the file."""
        graph = {name: {one.target for one in imports} for name, imports in self.imports.items()}
        return [sorted(members) for members in components(graph) if len(members) > 1]

    @property
    def function_level_imports(self) -> int:
        """Import statements within functions, of this package and of others."""
        return sum(
            isinstance(node, ast.Import | ast.ImportFrom)
            for file in self.files.values()
            for function in _outermost(file.tree)
            for node in ast.walk(function)
        )

    @property
    def spelling_a_kind(self) -> list[str]:
        """Files that name one particular kind of model."""
        return [file.name for file in self.files.values() if KIND in file.text.lower()]

    @property
    def switches(self) -> list[str]:
        """Places outside the models' own rooms that ask which kind a model is."""
        return [
            f"{file.name}:{node.lineno}"
            for file in self.files.values()
            if not file.path.relative_to(self.source).as_posix().startswith(tuple(f"{room}/" for room in MODEL_ROOMS))
            for node in ast.walk(file.tree)
            if isinstance(node, ast.expr) and _asks_for_kind(node)
        ]

    def repeated(self, options: frozenset[str]) -> list[str]:
        """Signatures, of functions and of classes of fields, with four or more of these options."""
        found = []
        for file in self.files.values():
            for node in ast.walk(file.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names = {one.arg for one in [*node.args.args, *node.args.kwonlyargs]}
                elif isinstance(node, ast.ClassDef):
                    names = {
                        one.target.id
                        for one in node.body
                        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                    }
                else:
                    continue
                if len(names & options) >= 4:
                    found.append(f"{file.name}:{node.name}")
        return found

    @property
    def lines_of_code(self) -> int:
        """Lines that hold a statement, without imports and docstrings."""
        return sum(len(_lines_of_code(file.tree)) for file in self.files.values())

    @property
    def questions(self) -> list[str]:
        """Docstrings that begin with a question word, where a description should stand."""
        return [
            f"{file.path}:{node.body[0].lineno}: {text.splitlines()[0]}"
            for file in self.files.values()
            for node in ast.walk(file.tree)
            if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)) and text.startswith(QUESTIONS)
        ]

    @property
    def empty_names(self) -> int:
        """Variables and arguments whose names say nothing, each counted once a function."""
        count = 0
        for file in self.files.values():
            for scope in [file.tree, *file.functions]:
                nodes = list(_of_scope(scope))
                names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
                names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
                count += len(names & set(EMPTY_NAMES))
        return count

    @property
    def largest_class(self) -> tuple[int, str]:
        """Most methods of a class, its own and not private, and where it is."""
        return max(
            (sum(isinstance(part, ast.FunctionDef) for part in node.body), f"{file.name}:{node.name}")
            for file in self.files.values()
            for node in ast.walk(file.tree)
            if isinstance(node, ast.ClassDef)
        )

    def measures(self) -> Iterable[tuple[str, str]]:
        """Yield names and figures to show."""
        lines = [len(file.text.splitlines()) for file in self.files.values()]
        yield "entries of the package", str(self.entries)
        yield "import floors", str(self.floors)
        yield "arrows between rooms", str(len(self.arrows))
        yield "import cycles between files", str(len(self.cycles))
        yield "files, median lines", f"{len(lines)}, {statistics.median(lines):.0f}"
        yield f'files that spell "{KIND}"', str(len(self.spelling_a_kind))
        yield "switches on a model's kind", str(len(self.switches))
        yield "signatures with 4 or more settlement options", str(len(self.repeated(SETTLEMENT_OPTIONS)))
        yield "signatures with 4 or more release options", str(len(self.repeated(RELEASE_OPTIONS)))
        yield "imports within functions", str(self.function_level_imports)
        yield "lines, and of code", f"{sum(lines):,}, {self.lines_of_code:,}"
        yield "most methods of a class", "{}, {}".format(*self.largest_class)
        yield "docstrings that begin with a question word", str(len(self.questions))
        yield f"variables called {', '.join(EMPTY_NAMES)}", str(self.empty_names)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _lines_of_code(tree: ast.Module) -> set[int]:
    """Line numbers that statements cover, but for imports and docstrings."""
    docstrings = {
        id(node.body[0]) for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node)
    }
    skipped: set[int] = set()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            unwanted = isinstance(node, ast.Import | ast.ImportFrom) or id(node) in docstrings
            (skipped if unwanted else lines).update(span)
    return lines - skipped


def _of_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function or module, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_scope(node)


def _outermost(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _outermost(node)


def _asks_for_kind(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args:
        asked = ast.unparse(node.args[0])
        return asked.split(".")[-1] in ("model", "_model", "spec")
    if isinstance(node, ast.Attribute) and node.attr == "kind":
        return ast.unparse(node.value).split(".")[-1] in ("model", "_model", "spec")
    return False


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of a graph (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            found.append(stack[stack.index(node) :])
            del stack[stack.index(node) :]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def main(arguments: list[str]) -> int:
    """Print the measures, or check them."""
    check = "--check" in arguments
    sources = [Path(one) for one in arguments if one != "--check"]
    house, others = House((sources or [SOURCE])[0]), [House(path) for path in ([] if sources else OTHERS)]
    if check:
        wrong = [f"import cycle: {' ↔ '.join(cycle)}" for each in (house, *others) for cycle in each.cycles]
        wrong += [f"a question word begins {line}" for each in (house, *others) for line in each.questions]
        print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
        return bool(wrong)
    for name, figure in house.measures():
        print(f"{name:46} {figure}")
    for each in others:
        lines = sum(len(file.text.splitlines()) for file in each.files.values())
        measure = f"{each.source.name}: files, lines, and of code"
        print(f"{measure:46} {len(each.files)}, {lines:,}, {each.lines_of_code:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
