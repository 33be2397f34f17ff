"""What a page must be: well formed, complete in itself, without a character that no screen may get.

    html_check.py PAGE [TEXT]…          each TEXT stands somewhere in what the page shows, as it is
    html_check.py --ground PICTURE      the colour of a PNG's first pixel, rrggbb, and its size

What is wrong goes to stderr, a line each; exit status 1."""
import re
import struct
import sys
import unicodedata
import zlib
from html.parser import HTMLParser

VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
FORBIDDEN = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "audio", "video", "use", "image"}
LOADS = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.ids, self.text, self.titles = [], [], set(), [], []
        self.policy = None
        self.columns = self.cells = 0

    def say(self, what):
        self.wrong.append("line %d: %s" % (self.getpos()[0], what))

    def handle_starttag(self, tag, attrs):
        self.begin(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.begin(tag, attrs)
        if "svg" not in self.open:
            self.say("<%s/> closes itself outside of a picture" % tag)

    def begin(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.say("<%s> says something twice" % tag)
        if tag in FORBIDDEN:
            self.say("<%s> does not belong here" % tag)
        for name, value in attrs:
            within = tag == "a" and name == "href" and value.startswith("#")
            if (name in LOADS and not within) or name.startswith("on"):
                self.say("<%s %s> loads or runs something" % (tag, name))
            if name == "style" and ("url" in value or "@" in value):
                self.say("<%s style> loads something" % tag)
            if name == "id" and value in self.ids:
                self.say("two things are called %s" % value)
            if name == "id":
                self.ids.add(value)
            if name in ("title", "aria-label"):
                self.text.append(value)
        got = dict(attrs)
        if tag == "meta" and got.get("http-equiv") == "Content-Security-Policy":
            self.policy = got["content"]
        if tag == "table":
            self.columns = 0
        if tag == "tr":
            self.cells = 0
        if tag in ("td", "th"):
            self.cells += int(got.get("colspan", "1"))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.say("</%s> where %s is open" % (tag, self.open[-1] if self.open else "nothing"))
            return
        self.open.pop()
        if tag == "tr":
            self.columns = self.columns or self.cells
            if self.cells != self.columns:
                self.say("a row of %d cells in a table of %d" % (self.cells, self.columns))

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            if re.search(r"url\(|@import|https?:|expression", data):
                self.say("the style loads something")
        elif self.open and self.open[-1] in ("html", "head", "table", "tr", "ul", "ol", "dl") and data.strip():
            self.say("text in <%s>: %r" % (self.open[-1], data.strip()[:40]))
        self.text.append(data)

    def unknown_decl(self, data):
        self.say("a declaration: %r" % data[:40])

    def handle_pi(self, data):
        self.say("an instruction: %r" % data[:40])

    def handle_comment(self, data):
        self.say("a comment: %r" % data[:40])


def check(path, wanted):
    raw = open(path, "rb").read()
    text = raw.decode("utf-8")
    page = Page()
    if not text.startswith("<!doctype html>\n"):
        page.say("no doctype")
    for c in sorted(set(text)):
        if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cn") and c not in "\n\t":
            page.say("character U+%04X" % ord(c))
    page.feed(text)
    page.close()
    for tag in page.open:
        page.say("<%s> stays open" % tag)
    if page.policy != "default-src 'none'; style-src 'unsafe-inline'":
        page.say("its policy is %r" % page.policy)
    shown = " ".join("".join(page.text).split())
    for one in wanted:
        if " ".join(one.split()) not in shown:
            page.wrong.append("it does not show %r" % one)
    return page.wrong


def ground(path):
    raw = open(path, "rb").read()
    if raw[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    at, data = 8, b""
    while at < len(raw):
        n, kind = struct.unpack(">I4s", raw[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", raw[at + 8:at + 16])
        if kind == b"IDAT":
            data += raw[at + 8:at + 8 + n]
        at += 12 + n
    # Whatever the first line's filter is: nothing stands left of its first pixel, nor above it.
    return "%s %dx%d" % (zlib.decompress(data)[1:4].hex(), width, height)


if sys.argv[1] == "--ground":
    print(ground(sys.argv[2]))
else:
    found = check(sys.argv[1], sys.argv[2:])
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)
