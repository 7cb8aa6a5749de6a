"""What the site needs beyond Sphinx: API blocks, docstrings in Markdown, and links from code.

- A fenced block `{api}` lists public names, one a line. Each becomes the `auto...` directive of its
  kind, after a table of all of them.
- Docstrings are written in Markdown. They are put into reStructuredtext before autodoc reads them.
- Inline code that is a public name, such as `eq.solve` or `equipoise.games.read`, links to it.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import SphinxPostTransform

API_BLOCK = re.compile(r"^```\{api\}\n(.*?)^```$", re.M | re.S)


def resolve(name: str) -> Any:
    """The object that a dotted name stands for.

    >>> resolve("math.pi") > 3
    True
    """
    parent, _, attribute = name.rpartition(".")
    if not parent:
        return import_module(name)
    try:
        return getattr(resolve(parent), attribute)
    except AttributeError:
        return import_module(name)


def directive(name: str) -> list[str]:
    """The lines of the directive that shows one name."""
    found = resolve(name)
    if inspect.ismodule(found):
        return [f".. automodule:: {name}", "   :no-members:", ""]
    if inspect.isclass(found):
        kind = "autoexception" if issubclass(found, BaseException) else "autoclass"
        return [f".. {kind}:: {name}", "   :members:", ""]
    if callable(found):
        return [f".. autofunction:: {name}", ""]
    comment = [f"   {line}" for line in as_rst(comment_of(name, found))]
    return [f".. py:data:: {name}", "", *comment, ""]


def comment_of(name: str, found: Any) -> list[str]:
    """The `#:` comment above the value that a name stands for, wherever it is defined."""
    package, _, attribute = name.rpartition(".")
    for module in [m for m in list(sys.modules) if m.startswith(package)]:
        if vars(sys.modules[module]).get(attribute) is found:
            comments = ModuleAnalyzer.for_module(module).find_attr_docs()
            if ("", attribute) in comments:
                return comments["", attribute]
    return []


def expand_api_blocks(app: Sphinx, page: str, source: list[str]) -> None:
    """Put directives in the place of the lists of names of a page."""
    known: set[str] = set()

    def expanded(match: re.Match[str]) -> str:
        names = match[1].split()
        lines: list[str] = []
        listed = [name for name in names if callable(resolve(name))]
        if len(listed) > 1:
            lines += [".. py:currentmodule:: None", ""]
            lines += [".. autosummary::", "   :nosignatures:", ""]
            lines += [*(f"   ~{name}" for name in listed), ""]
        for name in names:
            module = name.rpartition(".")[0]
            if not inspect.ismodule(resolve(name)):
                first = module not in known and page in ("api/" + module.rpartition(".")[2],)
                lines += [f".. py:{'' if first else 'current'}module:: {module}", ""]
                known.add(module)
            lines += directive(name)
        return "\n".join(["```{eval-rst}", *lines, "```"])

    source[0] = API_BLOCK.sub(expanded, source[0])


#: Inline code, emphasis, formulas, links; and what only reStructuredText takes for markup.
INLINE = re.compile(
    r"(?<!`)(?P<ticks>`+)(?P<code>[^`]+)(?P=ticks)(?!`)"
    r"|(?P<emphasis>(?<![\w*])(?P<stars>\*\*?)(?=\S)[^*]+(?<=\S)(?P=stars)(?![\w*]))"
    r"|\$(?P<math>[^$\n]+)\$"
    r"|\[(?P<title>[^]\n]+)\]\((?P<url>https?://[^)\s]+)\)"
    r"|(?P<special>[|*]|(?<=\w)_(?!\w))"
)


def as_rst(lines: list[str]) -> list[str]:
    """A docstring in Markdown as lines of reStructuredText.

    >>> as_rst(["Of `x` in |R|.", "", "**Arguments**", "", ">>> `x`"])
    ['Of ``x`` in \\\\|R\\\\|.', '', '.. rubric:: Arguments', '', '>>> `x`']
    """
    return [line for block in _blocks(lines) for line in _block_as_rst(block)]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines between empty ones; the empty ones are blocks of their own."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
            continue
        if block:
            yield block
            block = []
        yield [""]
    if block:
        yield block


def _block_as_rst(block: list[str]) -> list[str]:
    if any(line.lstrip().startswith(">>>") for line in block):
        first = next(i for i, line in enumerate(block) if line.lstrip().startswith(">>>"))
        return [*_block_as_rst(block[:first]), *([""] if first else []), *block[first:]]
    if not block:
        return []
    heading = re.fullmatch(r"\*\*([^*]+)\*\*", block[0].strip())
    if heading and len(block) == 1:
        return [f".. rubric:: {heading[1]}"]
    text = INLINE.sub(_inline, "\n".join(block))
    return text.split("\n")


def _inline(match: re.Match[str]) -> str:
    if match["code"]:
        after = match.string[match.end() : match.end() + 1]
        return f"``{match['code'].strip()}``" + ("\\ " if after.isalnum() else "")
    if match["math"]:
        return f":math:`{match['math']}`"
    if match["url"]:
        return f"`{match['title']} <{match['url']}>`__"
    return match["emphasis"] or "\\" + match["special"]


def docstring_as_rst(app: Any, what: Any, name: str, obj: Any, options: Any, lines: list) -> None:
    """Called by autodoc for every docstring; reads `Args:` sections of all but attributes.

    Napoleon's own handler would take the text before the first colon of an attribute's docstring
    for its type. Types are in the signatures here.
    """
    lines[:] = as_rst(lines)
    if what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, None, None, what, name, obj, options).lines()


class LinkCode(SphinxPostTransform):
    """Makes links of inline code that names something of the API pages."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Look at every inline literal outside of titles, links and signatures."""
        domain = self.env.domains.python_domain
        for literal in list(self.document.findall(nodes.literal)):
            if self._is_inside(literal, nodes.reference, addnodes.pending_xref, nodes.title):
                continue
            text = literal.astext().removesuffix("()")
            if not re.fullmatch(r"[A-Za-z][\w.]*", text):
                continue
            target = next((t for t in self._candidates(literal, text) if t in domain.objects), None)
            if target is None or target in self._described(literal):
                continue
            entry = domain.objects[target]
            node = nodes.reference("", "", internal=True, reftitle=target)
            builder = self.app.builder
            uri = builder.get_relative_uri(self.env.docname, entry.docname)
            same = entry.docname == self.env.docname
            node["refuri"] = f"#{entry.node_id}" if same else f"{uri}#{entry.node_id}"
            literal.replace_self(node)
            node += literal

    @staticmethod
    def _is_inside(node: nodes.Node, *kinds: type) -> bool:
        while node.parent is not None:
            node = node.parent
            if isinstance(node, kinds):
                return True
        return False

    @staticmethod
    def _described(node: nodes.Node) -> list[str]:
        """The names of the objects whose descriptions a node is in, innermost first."""
        names = []
        while node.parent is not None:
            node = node.parent
            if isinstance(node, addnodes.desc):
                names += [i for s in node.findall(addnodes.desc_signature) for i in s["ids"]][:1]
        return names

    def _candidates(self, literal: nodes.Node, text: str) -> Iterator[str]:
        if "." in text:
            yield "equipoise." + text.removeprefix("eq.").removeprefix("equipoise.")
            yield text
        for name in self._described(literal):
            yield f"{name}.{text}"
            module = name.rpartition(".")[0]
            yield f"{module}.{text}"


class PlainShapes(SphinxPostTransform):
    """Takes words of array shapes, as in `Float[ndarray, 'agents actions']`, for words.

    Sphinx takes them for names of classes. Those that autodoc writes are dotted.
    """

    default_priority = 4

    def run(self, **kwargs: Any) -> None:
        """Put the text in the place of every reference to a class without a dot."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            if reference.get("reftype") == "class" and "." not in reference["reftarget"]:
                reference.replace_self(nodes.Text(reference["reftarget"]))


class TrimCode(SphinxPostTransform):
    """Leaves out the empty line that ends a block of examples with `>>>` in a page."""

    default_priority = 3

    def run(self, **kwargs: Any) -> None:
        """Strip every block of code."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.rawsource == block.astext():
                block.rawsource = block.rawsource.rstrip("\n")
                block[:] = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", expand_api_blocks)
    app.connect("autodoc-process-docstring", docstring_as_rst, priority=100)
    app.add_post_transform(TrimCode)
    app.add_post_transform(PlainShapes)
    app.add_post_transform(LinkCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
