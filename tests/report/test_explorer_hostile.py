"""The explorer shows texts of models and datasets, and never runs them."""

import http.server
import threading
from urllib.parse import quote

import pytest

from explorer_pages import TITLE, HandMadeStudy

pytestmark = pytest.mark.chromium


HOSTILE = [  # (text in the file, text that the page shows; None: the same text)
    ("<script>window.hacked = 1</script>", None),
    ("</script><script>window.hacked = 1</script>", None),
    ("<!-- <script> </body> ]]> <![CDATA[", None),
    ("<img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>", None),
    ("<img src='http://127.0.0.1:9/x.png'><link rel=stylesheet href='//127.0.0.1:9/x.css'><iframe src='http://127.0.0.1:9/'></iframe>", None),
    ("{{ 7 * 7 }} {% raw %} ${window.hacked = 1} &lt;b&gt; &amp; \\u003cb\\u003e", None),
    ("javascript:window.hacked=1 \"'`", None),
    ("<style>* { display: none }</style><base href='http://127.0.0.1:9/'><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>", None),
    ("safe \u202etxt.exe\u202c \u2066x\u2069 \u200fr\u061cl", "safe ‹U+202E›txt.exe‹U+202C› ‹U+2066›x‹U+2069› ‹U+200F›r‹U+061C›l"),
    ("a\u200bb\u200dc\ufeffd\u00ade\u2060f\u3164g", "a‹U+200B›b‹U+200D›c‹U+FEFF›d‹U+00AD›e‹U+2060›f‹U+3164›g"),
    ("\u200b" * 5000 + "end\U000e0041", "‹U+200B ×5,000›end‹U+E0041›"),
    ("nul\x00bell\x07esc\x1b[31m\x85\r\nnext\u2028line\ttab", "nul‹U+0000›bell‹U+0007›esc‹U+001B›[31m‹U+0085›‹U+000D›\nnext‹U+2028›line\ttab"),
    ("half \ud83d of \ude00 and whole \U0001f600", "half ‹U+D83D› of ‹U+DE00› and whole \U0001f600"),
    ("byte \udcff here", "byte ‹byte FF› here"),
    ("replaced \ufffd, private \ue000, no character \uffff", "replaced \ufffd, private ‹U+E000›, no character ‹U+FFFF›"),
    ("z" + "\u0301\u0489" * 200, None),
    ("\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d", None),
    ("", "The completion is empty."),
    ("####", None),
    (" \n\n  spaces  \n", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A study with hostile texts: completions, questions, ids, answers, tiers, the title."""
    explorer = HandMadeStudy(
        tmp_path_factory.mktemp("hostile"), seeds=[0], policies=["hard"], tests=["t"]
    )
    texts = [text.replace("\udcff", "") for text, _ in HOSTILE]
    problem_id = lambda i: f"{i} <script>window.hacked = 1</script>/\u202e#&=%{{{{"
    explorer.write_problems(
        "t",
        [
            {"id": problem_id(i), "question": "Q " + text, "answer": "A " + text, "tier": "<b>\u200b"}
            for i, text in enumerate(texts)
        ],
    )  # fmt: skip
    for model_path in explorer.model_paths:
        explorer.write_evaluation(
            model_path,
            "t",
            [
                {"step": 0, "id": problem_id(i), "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0, "completion": text}
                for i, (text, _) in enumerate(HOSTILE)
            ],
        )  # fmt: skip
    done = explorer.write()
    assert done.returncode == 0, done.stderr
    explorer.problem_id = problem_id
    return explorer


def test_hostile_text_is_shown_and_never_run(hostile, watched):
    watched.open(hostile.url)
    assert watched.text("h1") == TITLE and watched.page.title() == "Completions: " + TITLE
    marked = hostile.problem_id(3).replace("\u202e", "‹U+202E›")
    assert watched.page.locator("#problems a").nth(3).inner_text() == marked
    watched.press("j")
    for i, (written, expected_text) in enumerate(HOSTILE):
        boxes = watched.page.locator("[data-side] .text")
        expected_text = written if expected_text is None else expected_text
        if written:
            assert [boxes.nth(k).text_content() for k in range(boxes.count())] == [
                expected_text
            ] * 2, i
        else:
            assert watched.text("[data-side=base]").rstrip().endswith(expected_text)
        assert watched.text("#detail h2") == hostile.problem_id(i).replace("\u202e", "‹U+202E›")
        alive = watched.page.evaluate(
            "[window.hacked, document.querySelectorAll('main :is(script, img, iframe, svg, style, link)').length]"
        )
        assert alive == [None, 0]
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        address = watched.page.url
        watched.open(address)
        assert watched.text("#detail h2").startswith(f"{i} "), "the link leads to another problem"
        watched.press("j")
    watched.page.locator("#filter-search").fill("<IMG SRC=X")
    watched.page.keyboard.press("Enter")
    watched.page.locator("html[data-ready*=search]").wait_for(state="attached")
    assert watched.text("#pager b") == "1 problem"


def test_a_right_to_left_override_does_not_affect_the_next_text(hostile, watched):
    """Each text is isolated from its neighbours (CSS unicode-bidi), and override characters are
    escaped."""
    watched.open(hostile.url + "#open=" + quote("m/t/" + hostile.problem_id(8), safe=""))
    styles = watched.page.evaluate(
        "[...document.querySelectorAll('.text, bdi, .mark')].map(e => getComputedStyle(e).unicodeBidi)"
        ".filter(s => !['isolate', 'plaintext'].includes(s)).length"
    )
    assert styles == 0
    raw = watched.page.evaluate(
        r"/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u0000]/.test(document.body.innerText)"
    )
    assert raw is False, "a hostile character reached the page unescaped"


def test_very_long_lines_wrap(tmp_path, watched):
    explorer = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    explorer.write_problems("t", [{"id": "p", "question": "long?", "answer": "x", "tier": 1}])
    row = {"step": 0, "id": "p", "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0}
    for model_path in explorer.model_paths:
        explorer.write_evaluation(model_path, "t", [row | {"completion": "W" * 200_000}])
    assert explorer.write().returncode == 0
    watched.open(explorer.url + "#open=m/t/p")
    assert len(watched.page.locator("[data-side=base] .text").text_content()) == 200_000
    assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture
def listener():
    """(address of a server on this machine, list of the paths that were requested from it)."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def test_the_content_security_policy_forbids_scripts_and_requests(study, chromium, listener):
    """Even if a text became markup, the browser would not run the text or load an address in it."""
    address, requests = listener
    directives = [
        "connect-src",
        "frame-src",
        "img-src",
        "script-src-elem",
        "script-src-attr",
        "style-src-attr",
    ]
    page = chromium.new_page()
    page.goto(study.url)
    page.locator("html[data-ready]").wait_for(state="attached")
    hacked, refused = page.evaluate(
        """async ([address, directives]) => {
          const refused = [];
          addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", `<img src="${address}/image"><iframe src="${address}/frame"></iframe>
            <p style="color: red"></p><p id="trap" onclick="window.hacked = 1">x</p>`);
          document.getElementById("trap").click();
          await fetch(address + "/fetch").catch(() => 0);
          const end = performance.now() + 20000; // the browser reports each violation when it has time
          while (directives.some((name) => !refused.includes(name)) && performance.now() < end)
            await new Promise((done) => setTimeout(done, 50));
          return [window.hacked ?? null, refused];
        }""",
        [address, directives],
    )
    assert hacked is None and requests == []
    assert set(refused) >= set(directives)
    page.close()
