"""`snakemake --report` of the small study, opened in a browser."""

import pytest

from conftest import CHROMIUM


@pytest.fixture(scope="module")
def report_file(finished_world):
    path = finished_world.folder / "report.html"
    done = finished_world.snakemake("--report", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def test_the_report_holds_figures_tables_and_paper_with_captions(report_file):
    text = report_file.read_text()
    for words in (
        "Completions",
        "Tables",
        "Paper",
        "explorer of completions",
        "for new problems and new seeds",
    ):
        assert words in text
    assert "what are the gains made of" in text


@pytest.mark.chromium
def test_the_report_opens_without_errors_and_requests_nothing_from_a_network(report_file):
    from playwright.sync_api import sync_playwright

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
        page.goto(report_file.as_uri())
        page.get_by_text("Tables", exact=True).first.click()
        page.get_by_text("parts", exact=True).first.wait_for()
        assert page.get_by_text("claims", exact=True).count() == 1
        browser.close()
    assert messages == [] and addresses == []
