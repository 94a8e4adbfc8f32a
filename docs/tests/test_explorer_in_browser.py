"""The page one explores, in a real browser: Chromium without a window, driven by Selenium.

Skipped, with the reason, where Selenium or a Chromium with its driver is not installed.
"""

import csv
import json
import math
import re
import shutil
from xml.etree import ElementTree

import explored
import numpy as np
import pytest

import gibbs_dp as gdp

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")

from selenium.common.exceptions import WebDriverException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
if BROWSER is None or DRIVER is None:
    pytest.skip(
        "no Chromium with its driver on PATH (Debian: apt-get install chromium chromium-driver)",
        allow_module_level=True,
    )

# What a browser does by itself, and what it would ask for.
QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
EVIL = (
    '=1,"'
    + "</script><script>document.title='ran'</script><img src=x onerror=document.title='ran'>"
)


class Browser:
    """A browser with what it was asked to load and what it complained of."""

    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for word in (*QUIET, f"--user-data-dir={folder / 'profile'}", "--window-size=1280,900"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.files = folder / "files"
        self.files.mkdir()
        self.tell("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.files))
        self.driver.get("about:blank")  # away from the browser's own first page
        self.requests()

    def tell(self, command, **settings):
        return self.driver.execute_cdp_cmd(command, settings)

    def open(self, path):
        self.driver.get(path.as_uri())
        return self

    def look(self, name):
        return self.driver.find_element(By.ID, f"explorer-{name}")

    def text(self, name):
        return self.look(name).text

    def run(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def requests(self):
        """Return every address that pages asked for since the last look."""
        told = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in told
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self):
        return self.driver.get_log("browser")

    def limit(self, kind, value):
        Select(self.look("kind")).select_by_value(kind)
        self.look("most").send_keys(Keys.CONTROL, "a")
        self.look("most").send_keys(str(value))
        return self.text("answer")

    def downloaded(self, name):
        path = self.files / name
        WebDriverWait(self.driver, 10).until(lambda _: path.exists())
        text = path.read_bytes().decode("utf-8")
        path.unlink()
        return text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        found = Browser(tmp_path_factory.mktemp("browser"))
    except WebDriverException as error:
        pytest.skip(f"{BROWSER} does not start here: {(error.msg or '').splitlines()[:1]}")
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    explored.make_report().explore(folder / "one.html")
    other = explored.make_report(explored.GAMMAS[1:], scale=0.05, warnings=())
    both = {"mine": explored.make_report(exposes=True), EVIL: other}
    gdp.compare(both).explore(folder / "both.html")
    return folder


@pytest.fixture
def page(browser, pages):
    """Opens the page of one report; at the end nothing was asked for, and nothing went wrong."""
    address = pages / "one.html"
    browser.open(address)
    yield browser
    assert set(browser.requests()) <= {address.as_uri()}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []


def points_of(browser, figure):
    """Places of the marks of a picture's first curve, from left to right."""
    code = """return [...document.querySelectorAll(arguments[0] + ' circle')]
        .map((c) => [+c.getAttribute('cx'), +c.getAttribute('cy')])"""
    return np.array(browser.run(code, f"#explorer-{figure}"))


def test_the_slider_moves_by_keyboard_from_gamma_to_gamma(page):
    slider = page.look("gamma")
    report = explored.make_report()
    slider.send_keys(Keys.HOME)
    for i, gamma in enumerate(explored.GAMMAS):
        assert page.text("now") == slider.get_attribute("aria-valuetext") == f"gamma = {gamma:g}"
        assert page.text("told").startswith(f"gamma = {gamma:g}: one draw gives away ")
        right = 50 + 50 * explored.advantage(gamma)
        told = float(re.search(r"guesses right ([\d.]+) times in 100", page.text("told"))[1])
        assert told == pytest.approx(right, abs=0.6 * report["on_average_tv_se"][i] * 50 + 0.01)
        assert f"{4 * gamma:.4g} nats (DP epsilon)" in page.text("reports")
        is_warned = gamma == 3.0
        assert page.text("told").endswith("1 warning below.") == is_warned
        assert ("only {} of {} did" in page.text("reports")) == is_warned
        current = page.driver.find_elements(By.CSS_SELECTOR, "#explorer-table tr[aria-current]")
        assert [row.get_attribute("textContent")[: len(f"{gamma:g}")] for row in current] == [
            f"{gamma:g}"
        ]
        assert f"loc[{gamma!r}]" in page.look("code").get_attribute("textContent")
        assert f"at gamma = {gamma:g}" in page.text("roc")
        slider.send_keys(Keys.ARROW_RIGHT)
    slider.send_keys(Keys.ARROW_RIGHT)
    assert page.text("now") == "gamma = 30"
    # Only by a live region are changes told.
    for name in ("told", "answer", "done"):
        assert page.look(name).get_attribute("role") == "status"


def passing(gammas, values, errors, most, is_log):
    """Where a straight line passes a limit, and the error of that if both ends' go together."""
    values, most = (np.log(values), math.log(most)) if is_log else (values, most)
    share = (most - values[0]) / (values[1] - values[0])
    width = math.log(gammas[1] / gammas[0])
    gamma = gammas[0] * math.exp(share * width)
    slope = abs(values[1] - values[0]) / width
    return gamma, gamma * ((1 - share) * errors[0] + share * errors[1]) / slope


def told_gamma(text):
    found = re.search(r"at ([\d.e-]+) ± ([\d.e-]+), which is interpolated", text)
    return float(found[1]), float(found[2])


def test_a_limit_of_privacy_has_the_largest_gamma_and_its_error(page):
    report = explored.make_report()
    # Advantages 0.0138, 0.0437, 0.1375, 0.4176 with errors of 1.2%: 14% is above 13.75%, but
    # not above the end of its interval, 14.07%.
    text = page.limit("advantage", 14)
    assert "gamma = 0.3 meets it: the largest audited gamma" in text
    assert f"risk on fresh examples {explored.risk(0.3):.4f} ± 0.0014" in text
    assert "Estimates pass the limit between gamma = 3 and 30" in text
    best = explored.advantage(np.array([3.0, 30.0]))
    truth, error = passing((3, 30), best, (0.012, 0.012), 0.14, is_log=True)
    assert told_gamma(text) == (pytest.approx(truth, rel=0.01), pytest.approx(error, rel=0.05))
    assert "gdp.calibrate(posterior, attack_advantage=0.14, ...)" in text
    # The largest gamma whose interval is below, by NumPy.
    for most in (1e-5, 0.001, 0.05, 0.0612, 0.0614, 5.0):
        text = page.limit("on_average_kl", most)
        meets = report["gamma"][report["on_average_kl_high"] <= most]
        if meets.size:
            assert text.startswith(f"gamma = {meets.max():g} meets it")
        else:
            assert text.startswith("No audited gamma meets it with its 95% interval: the least is")
        assert ("Larger gammas were not audited." in text) == (meets.size == 4)
    text = page.limit("epsilon", 1)
    assert "gamma = 0.03 meets it" in text
    # It is proportional to gamma, so that the line is the truth: 4 * 0.25.
    assert re.search(r"at 0\.25(00)?, which is interpolated", text)


def test_a_limit_of_risk_has_the_smallest_gamma_and_costs_privacy(page):
    text = page.limit("population_risk", 0.2)
    assert "gamma = 3 meets it: the smallest audited gamma" in text
    assert text.split("\n")[0].endswith(" 1 warning of it: read first.")
    assert "on-average KL 0.0600 ± 0.0006 nats, right guesses 56.88 ± 0.08 in 100" in text
    assert "worst case (DP epsilon) 12 nats" in text
    ends = explored.risk(np.array([0.3, 3.0]))
    truth, error = passing((0.3, 3), ends, (0.0014, 0.0014), 0.2, is_log=False)
    assert told_gamma(text) == (pytest.approx(truth, rel=0.01), pytest.approx(error, rel=0.05))
    page.look("gamma").send_keys(Keys.HOME)
    button = page.look("go")
    assert button.text == "Move to gamma = 3"
    button.send_keys(Keys.ENTER)
    assert page.text("now") == "gamma = 3"
    page.look("most").send_keys(Keys.CONTROL, "a", Keys.DELETE)
    assert "Give a number" in page.text("answer")
    assert not button.is_enabled()


def test_axes_are_linear_and_logarithmic_and_show_the_limit(page):
    gamma = np.array(explored.GAMMAS)
    kl = 0.02 * gamma

    def is_straight(x, y):
        return np.polyfit(x, y, 1, full=True)[1].item() < 0.1

    found = points_of(page, "gives")
    assert len(found) == 8
    assert is_straight(np.log(gamma), found[:4, 0])
    assert is_straight(np.log(kl), found[:4, 1])
    assert is_straight(np.log(4 * gamma), found[4:, 1])
    for name in ("log-gamma", "log-gives", "log-risk"):
        page.look(name).send_keys(Keys.SPACE)
    found = points_of(page, "gives")
    assert is_straight(gamma, found[:4, 0])
    assert is_straight(kl, found[:4, 1])
    assert is_straight(np.log(explored.risk(gamma)), points_of(page, "risk")[:, 1])
    Select(page.look("gives-choice")).select_by_value("right guesses in 100")
    assert is_straight(explored.advantage(gamma), points_of(page, "gives")[:4, 1])
    limits = "return document.querySelectorAll('#explorer-gives line.limit').length"
    assert page.run(limits) == 0
    page.limit("advantage", 5)
    assert page.run(limits) == 1
    # 5% of advantage are 52.5 right guesses.
    right, places = 50 + 50 * explored.advantage(gamma), points_of(page, "gives")[:4, 1]
    level = page.run(
        "return +document.querySelector('#explorer-gives line.limit').getAttribute('y1')"
    )
    assert level == pytest.approx(np.interp(52.5, right, places), abs=0.1)
    assert page.run(limits.replace("gives", "risk")) == 0
    # And a click moves to the nearest gamma.
    page.run("document.querySelector('#explorer-gives svg').scrollIntoView({block: 'center'})")
    mark = page.driver.find_elements(By.CSS_SELECTOR, "#explorer-gives circle")[3]
    mark.click()
    assert page.text("now") == "gamma = 30"


def test_the_roc_has_its_rates_where_the_closed_form_has_them(page):
    page.look("gamma").send_keys(Keys.END)
    code = """const svg = document.querySelector('#explorer-roc svg');
        const frame = svg.querySelector('.frame').getBBox();
        return [svg.querySelector('.line').getAttribute('d'), frame]"""
    for axes in ("linear", "logarithmic"):
        d, box = page.run(code)
        xy = np.array([list(map(float, p.split())) for p in re.split("[ML]", d)[1:]])
        x = (xy[:, 0] - box["x"]) / box["width"]
        y = 1 - (xy[:, 1] - box["y"]) / box["height"]
        if axes == "logarithmic":
            x, y = 10.0 ** (3 * x - 3), 10.0 ** (3 * y - 3)
        np.testing.assert_allclose(y, explored.tpr(np.clip(x, 0, 1), 30.0), atol=0.01)
        page.look("log-roc").send_keys(Keys.SPACE)


def test_the_table_opens_and_has_all_numbers(page):
    assert not page.driver.find_elements(By.CSS_SELECTOR, "#explorer-table[open]")
    page.driver.find_element(By.CSS_SELECTOR, "#explorer-table summary").send_keys(Keys.ENTER)
    lines = page.text("table").splitlines()
    assert lines[1].split("  ")[0].startswith("gamma on-average KL")
    assert lines[4].startswith("3 0.0600(6)")
    cells = page.driver.find_elements(By.CSS_SELECTOR, "#explorer-table th[scope=col]")
    assert len(cells) > 5


def test_downloads_are_a_csv_of_all_columns_and_pictures_that_stand_alone(page):
    page.look("csv").click()
    rows = list(csv.DictReader(page.downloaded("gibbs-dp-audit.csv").splitlines()))
    report = explored.make_report()
    assert set(report.columns) < set(rows[0])
    for name in ("gamma", "on_average_kl", "on_average_kl_low", "dp_epsilon", "population_risk_se"):
        assert [float(row[name]) for row in rows] == report[name].tolist()
    assert page.text("done") == "Saved gibbs-dp-audit.csv."
    count = "return document.querySelector(`#explorer-${arguments[0]} svg`).childElementCount"
    for name in ("gives", "risk", "roc"):
        before = page.run(count, name)
        page.driver.find_element(By.CSS_SELECTOR, f"#explorer-{name} button").click()
        root = ElementTree.fromstring(page.downloaded(f"gibbs-dp-{name}.svg"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        drawn = [e for e in root.iter() if e.tag.endswith("}path")]
        # Looks are in the elements: no class, no variable, and paper is white.
        assert not any("class" in e.attrib or "var(" in str(e.attrib) for e in root.iter())
        assert any(e.attrib["stroke"] == "rgb(0, 114, 178)" for e in drawn)
        paper = next(e for e in root.iter() if e.tag.endswith("}rect"))
        assert paper.attrib["fill"] == "rgb(255, 255, 255)"
        assert paper.attrib["height"] == root.attrib["height"]
        # It says what its lines are, and the page's own picture is as it was.
        told = {e.text for e in root.iter() if e.tag.endswith("}text")}
        keys = page.driver.find_elements(By.CSS_SELECTOR, f"#explorer-{name} li")
        assert {key.text for key in keys} <= told
        assert page.run(count, name) == before


def test_the_python_is_copied(page):
    page.tell(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    page.driver.find_element(By.CSS_SELECTOR, "#explorer-python summary").click()
    page.look("copy").click()
    WebDriverWait(page.driver, 5).until(lambda _: page.text("copy") == "Copied")
    code = (
        "const [done] = arguments; navigator.clipboard.readText().then(done, (e) => done(`${e}`))"
    )
    copied = page.driver.execute_async_script(code)
    assert copied == page.text("code")
    assert len(copied.splitlines()) == 4


def test_reports_are_beside_each_other_and_a_strangers_name_is_text(browser, pages):
    browser.open(pages / "both.html")
    browser.look("gamma").send_keys(Keys.HOME)
    assert "It was not audited at gamma = 0.03." in browser.text("reports")
    assert "were not both audited" in browser.text("differences")
    browser.look("gamma").send_keys(Keys.END)
    assert "<script>document.title=" in browser.text("reports")
    assert browser.driver.title != "ran"
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "#explorer img, #explorer script")
    assert "on_average_kl" in browser.text("differences")
    # The most exposed row costs 0.9 * 2 * 0.02 * 30 nats.
    exposed = browser.text("reports")
    assert "most exposed rows at gamma = 30 (10 of 12)" in exposed
    assert re.search(r"^100 1 1\.2 1\.08\(12\) ", exposed, re.MULTILINE)
    answers = browser.limit("advantage", 10)
    assert answers.count(" meets it: ") == 2
    code = "return [...document.querySelectorAll('#explorer-gives circle')].length"
    assert browser.run(code) == 8 + 6
    browser.look("csv").click()
    rows = list(csv.DictReader(browser.downloaded("gibbs-dp-audit.csv").splitlines()))
    assert [row["report"][:8] for row in rows] == ["mine"] * 4 + ["'=1,\"</s"] * 3
    assert set(browser.requests()) <= {(pages / "both.html").as_uri()}
    assert browser.complaints() == []


CONTRAST = """
const luminance = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (node) => {
  const colour = getComputedStyle(node).backgroundColor;
  return /, 0\\)$|transparent/.test(colour) ? behind(node.parentElement) : colour;
};
const found = [];
for (const node of document.querySelectorAll('#explorer *')) {
  const isText = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!isText || node.closest('[hidden], details:not([open]) > :not(summary)')) continue;
  if (node.disabled || node.tagName === 'title') continue;
  const isDrawn = node.namespaceURI.endsWith('svg');
  const [ink, paper] = [getComputedStyle(node)[isDrawn ? 'fill' : 'color'],
    behind(isDrawn ? node.ownerSVGElement.parentElement : node)].map(luminance);
  found.push([(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), node.textContent]);
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_is_read_in_light_and_dark(page, pages, scheme):
    page.tell(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    page.tell("Emulation.setDeviceMetricsOverride", **PHONE)
    try:
        page.open(pages / "one.html")
        page.limit("advantage", 5)
        assert page.run("return document.documentElement.scrollWidth") == PHONE["width"]
        colour = page.run("return getComputedStyle(document.body).backgroundColor")
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 27)"}[scheme]
        # AA of WCAG 2: 4.5 to 1 for texts.
        found = page.run(CONTRAST)
        assert len(found) > 60
        assert [told for told in found if told[0] < 4.5] == []
        # No picture is wider than the page, and no control is too small for a finger.
        sizes = """return [...document.querySelectorAll(`#explorer svg, #explorer button,
            #explorer select, #explorer input:not([type=checkbox])`)]
            .filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect())
            .map((r) => [r.left, r.right, r.height])"""
        for left, right, height in page.run(sizes):
            assert left >= 0
            assert right <= PHONE["width"]
            assert height >= 40
    finally:
        page.tell("Emulation.clearDeviceMetricsOverride")
        page.tell("Emulation.setEmulatedMedia", features=[])


def test_every_control_has_a_name_and_every_picture_a_text(page):
    tree = page.tell("Accessibility.getFullAXTree")["nodes"]
    roles = {
        "slider",
        "spinbutton",
        "combobox",
        "button",
        "checkbox",
        "image",
        "DisclosureTriangle",
    }
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node.get("role", {}).get("value") in roles
    ]
    assert all(name for _, name in found), found
    names = {role: [n for r, n in found if r == role] for role, _ in found}
    assert names["slider"] == ["gamma (inverse temperature)"]
    assert names["spinbutton"] == ["At most"]
    assert names["checkbox"] == ["gamma", "privacy", "risk", "attacker"]
    assert len(names["combobox"]) == 3
    assert sum("on-average KL" in name for name in names["image"]) >= 1
    # TAB reaches all of them in the order of the page.
    page.run("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    reached = []
    for _ in range(14):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            page.run("return document.activeElement.id || document.activeElement.tagName")
        )
    order = ["gamma", "most", "kind", "gives-choice", "risk-choice", "log-gamma", "log-gives"]
    assert [name for name in reached if name.startswith("explorer-")][:7] == [
        f"explorer-{name}" for name in order
    ]


def test_on_paper_it_is_the_page_of_the_report(page):
    page.tell("Emulation.setEmulatedMedia", media="print")
    assert not page.driver.find_element(By.ID, "explorer").is_displayed()
    assert page.driver.find_element(By.CLASS_NAME, "verdict").is_displayed()
    page.tell("Emulation.setEmulatedMedia", media="")
    assert page.driver.find_element(By.ID, "explorer").is_displayed()


def test_without_scripts_it_is_the_page_of_the_report(browser, pages):
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "one.html")
        heading = browser.driver.find_element(By.TAG_NAME, "h1")
        assert heading.text == "Privacy and generalization of a Gibbs posterior"
        assert not browser.driver.find_element(By.ID, "explorer").is_displayed()
        assert "What it does not promise" in browser.driver.find_element(By.TAG_NAME, "body").text
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert set(browser.requests()) <= {(pages / "one.html").as_uri()}


def test_a_strangers_script_would_not_run(browser, pages, tmp_path):
    """What the policy forbids, were a text to become an element after all."""
    text = (pages / "one.html").read_text(encoding="utf-8")
    for name, added in {
        "script": "<script>document.title = 'ran'</script>",
        "handler": "<img src='data:,' onerror=\"document.title = 'ran'\">",
        "picture": "<img src='http://127.0.0.1:9/x.png'>",
        "style": "<style>h1 { color: rgb(1, 2, 3) }</style>",
    }.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text.replace("<footer>", f"{added}<footer>"), encoding="utf-8")
        browser.complaints()
        browser.open(path)
        assert browser.driver.title != "ran"
        colour = browser.run("return getComputedStyle(document.querySelector('h1')).color")
        assert colour != "rgb(1, 2, 3)"
        assert "Content Security Policy" in str(browser.complaints())
        assert not browser.run("return document.getElementById('explorer').hidden")
    with pytest.raises(Exception, match="TrustedHTML"):
        browser.run("document.body.innerHTML = '<b>'")
