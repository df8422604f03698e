"""Tables of the report, opened in a browser: a click on a header sorts by its column."""

import pytest

from conftest import CHROMIUM
from hardgrpo.report import web
from hardgrpo.report.table_columns import Column, numbers


@pytest.mark.chromium
def test_a_click_on_a_header_sorts_numbers_as_numbers_and_names_as_names(tmp_path):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "table.html"
    gains = ["+10.2 [1.0, 20.0]", "−3.5 [−9.0, 2.0]", "–", "+9.1 [1.0, 20.0]"]
    columns = [Column("arm", ["b", "a", "d", "c"]), numbers("gain", gains)]
    path.write_text(web.page("t", columns, "Gain, percentage points."), encoding="utf-8")
    console_messages = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: console_messages.append(message.text))
        page.goto(path.as_uri())
        order = lambda: [
            row.locator("td").first.inner_text() for row in page.locator("tbody tr").all()
        ]
        assert order() == ["b", "a", "d", "c"], "the rows were sorted before the first click"
        page.get_by_role("button", name="gain").click()
        assert order() == ["a", "c", "b", "d"], (
            "rows are not in ascending order with unknown values last"
        )
        page.get_by_role("button", name="gain").click()
        assert order() == ["b", "c", "a", "d"], (
            "rows are not in descending order with unknown values last"
        )
        page.get_by_role("button", name="arm").click()
        assert order() == ["a", "b", "c", "d"]
        browser.close()
    assert console_messages == []
