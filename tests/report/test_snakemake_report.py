"""`snakemake --report` of the small study, opened in a browser."""

import pytest

from conftest import CHROMIUM


@pytest.mark.chromium
def test_the_report_opens_without_errors_and_requests_nothing_from_a_network(finished):
    from playwright.sync_api import sync_playwright

    path = finished.folder / "report.html"
    finished.run("--report", str(path))
    text = path.read_text()
    for words in ("Completions", "Paper", "explorer of completions", "what are the gains made of"):
        assert words in text
    messages, addresses = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on(
            "console",
            lambda message: messages.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "request",
            lambda request: (
                addresses.append(request.url) if request.url.startswith(("http", "ws")) else None
            ),
        )
        page.goto(path.as_uri())
        page.get_by_text("Tables", exact=True).first.click()
        page.get_by_text("parts", exact=True).first.wait_for()
        assert page.get_by_text("claims", exact=True).count() == 1
        browser.close()
    assert messages == [] and addresses == []
