"""The class's page: who signs in, what each role sees and may press, and what another site cannot do."""

from __future__ import annotations

import pytest

from lab.daemons.gateway.page.sessions import COOKIE, SESSION_SECONDS, Sessions
from lab.people.registry import FILE, SERVER, Registry
from lab.store.base import Store
from tests.unit.daemons.gateway.browser import Browser, Room
from tests.unit.daemons.gateway.classes import Class


@pytest.fixture
def room(school: Class) -> Room:
    return Room(school)


def test_signing_in_gives_a_cookie_that_no_script_and_no_other_site_has(room: Room) -> None:
    async def story(browser: Browser) -> None:
        page = await browser()
        assert (page.status, "<h1>Sign in</h1>" in page.text) == (200, True)
        page = await browser("sign-in", {"name": "Ann ", "token": f" {room.tokens['ann']} "})
        assert (page.status, page.headers["Location"]) == (303, "/class/")
        assert all(part in browser.set_cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/class"))
        assert "Secure" not in browser.set_cookie
        assert room.tokens["ann"] not in browser.set_cookie
        assert "<h1>The class now</h1>" in (await browser()).text
        await browser("sign-in", {"name": "ann", "token": room.tokens["ann"]}, X_Forwarded_Proto="https")
        assert "Secure" in browser.set_cookie

    room.visit(story, "")


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("ann", "wrong"), ("ben", "ann's"), ("", "ann's"), ("ann", ""), ("nobody", "wrong"),
        ("ann", "her server's"),
    ],
)  # fmt: skip
def test_a_wrong_name_or_token_waits_and_is_logged(room: Room, name: str, token: str) -> None:
    registry = Registry(room.school.registry.path.parent)
    known = {"ann's": room.tokens["ann"], "her server's": registry.grant(SERVER, ["ann"])["ann"]}

    async def story(browser: Browser) -> None:
        form = {"name": name, "token": known.get(token, token)}
        for _ in range(3):
            page = await browser("sign-in", form)
            assert (page.status, COOKIE in browser.cookies) == (403, False)
            assert "Nobody in this class has that name and token" in page.text

    room.visit(story, "")
    assert room.paused == sorted(room.paused)
    assert (len(room.paused), room.paused[0]) == (3, 0.1)
    assert room.log[0].startswith("a wrong token")


def test_nobody_sees_anything_without_a_session(room: Room) -> None:
    async def story(browser: Browser) -> None:
        for cookie in ("", "x", "ann.1.x.y", f"ann.9999999999.{'a' * 16}.{'0' * 64}"):
            browser.cookies = {COOKIE: cookie}
            for path in ("now", "ask?act=stop&on=ann/ann-digits", "receipt/ann-digits-1", "other"):
                page = await browser(path)
                assert (page.status, "ann-digits" in page.text) == (401, False)
        assert (await browser("style.css")).status == 200

    room.visit(story, "")


@pytest.mark.parametrize("end", ["reset", "remove", "time", "sign-out"])
def test_a_session_ends(room: Room, end: str) -> None:
    registry = Registry(room.school.registry.path.parent)

    async def story(browser: Browser, other: Browser) -> None:
        kept = dict(browser.cookies)
        assert (await browser("now")).status == 200
        if end == "reset":
            registry.reset("ann")
        elif end == "remove":
            registry.close("ann")
        elif end == "time":
            room.clock.now += SESSION_SECONDS
        else:
            assert (await browser("sign-out", {"key": (await browser()).key})).status == 303
            assert browser.cookies[COOKIE] == ""
            browser.cookies = kept
        assert (await browser("now")).status == 401
        assert (await browser("do", {"key": "", "act": "stop", "on": "ann/ann-digits"})).status == 401
        if end != "time":
            assert (await other("now")).status == 200

    room.visit(story, "ann", "tom")


def test_a_session_outlives_a_restart_of_the_gateway(school: Class) -> None:
    room = Room(school)
    kept: dict[str, str] = {}

    async def before(browser: Browser) -> None:
        kept.update(browser.cookies)

    room.visit(before, "ann")
    room.site.open(room.site._page._access, "of ray")

    async def after(browser: Browser) -> None:
        browser.cookies = kept
        assert (await browser("now")).status == 200

    room.visit(after, "")
    room.site.open(room.site._page._access, "of another ray")

    async def elsewhere(browser: Browser) -> None:
        browser.cookies = kept
        assert (await browser("now")).status == 401

    room.visit(elsewhere, "")


SEES = {
    # what is on the page: ann, ben, eva (assistant), tom (teacher)
    "ann-digits": "ann ben eva tom",
    "ben-food": "ann ben eva tom",
    "ann holds both": "ben eva tom",
    "receipt/ann-digits-": "ann eva tom",
    "receipt/ben-digits-": "ben eva tom",
    "act=stop&amp;on=ann/ann-digits": "ann tom",
    "act=stop&amp;on=ben/ben-food": "ben tom",
    "act=hold&amp;on=ClusterQueue//class": "tom",
    "act=hold&amp;on=LocalQueue/ann/default": "tom",
    "act=end&amp;on=JupyterLab/ann": "ann tom",
    "act=end&amp;on=JupyterLab/ben": "",
    "ecc: 4 uncorrectable errors": "ann ben eva tom",
    "python train.py": "",
    "log of": "",
}
"""Words on the page -> who has them there."""


@pytest.mark.parametrize(("words", "who"), SEES.items())
def test_what_is_on_whose_page(room: Room, words: str, who: str) -> None:
    async def story(*browsers: Browser) -> None:
        pages = [(await browser()).text for browser in browsers]
        named = [
            name for name, text in zip(("ann", "ben", "eva", "tom"), pages, strict=True) if words in text
        ]
        assert named == who.split()

    room.visit(story, "ann", "ben", "eva", "tom")


def test_keys_tokens_and_environments_are_on_nobodys_page(room: Room) -> None:
    async def story(*browsers: Browser) -> None:
        for browser in browsers:
            text = (await browser()).text
            for person in room.school.registry.people().values():
                secrets = (person.token_sha256, person.key.access_key, person.key.secret_key, "WORK")
                assert not any(secret in text for secret in secrets)

    room.visit(story, "ann", "tom")


MAY = {
    # act and what it is done to: who may
    ("stop", "ann/ann-digits"): "ann tom",
    ("stop", "ben/ben-food"): "ben tom",
    ("hold", "ClusterQueue//class"): "tom",
    ("hold", "LocalQueue/ann/default"): "tom",
    ("resume", "LocalQueue/ann/default"): "tom",
    ("end", "JupyterLab/ann"): "ann tom",
}


@pytest.mark.parametrize(("button", "who"), MAY.items())
@pytest.mark.parametrize("name", ["ann", "ben", "eva", "tom"])
def test_who_may_press_what(room: Room, button: tuple[str, str], who: str, name: str) -> None:
    async def story(browser: Browser) -> None:
        page = await browser.press(*button)
        assert page.status == (303 if name in who.split() else 403), page.text

    room.visit(story, name)


def test_a_button_asks_first_and_does_what_it_says(room: Room) -> None:
    async def story(browser: Browser) -> None:
        asked = await browser("ask?act=stop&on=ann/ann-digits")
        assert "Stop the job ann-digits? It ends for good." in asked.text
        assert room.runs("ann/ann-digits")
        assert (await browser.press("stop", "ann/ann-digits")).status == 303
        room.school.world.run(20)
        assert not room.runs("ann/ann-digits")
        room.school.world.run(20)
        assert "ben-food ben runs" in (await browser()).section("Jobs")
        page = await browser.press("stop", "ann/ann-digits")
        assert (page.status, "ann-digits" in page.text) == (409, True)

    room.visit(story, "tom")


def test_ending_a_server_takes_its_token_and_leaves_the_jobs(room: Room) -> None:
    registry = room.school.registry

    async def story(browser: Browser) -> None:
        asked = await browser("ask?act=end&on=JupyterLab/ann")
        assert "End the JupyterLab of ann?" in asked.text
        assert registry.get("ann").has_server
        assert "ann student here 1 open Hold runs End" in (await browser()).section("People")
        assert (await browser.press("end", "JupyterLab/ann")).status == 303
        assert not registry.get("ann").has_server
        assert "JupyterLab" not in (await browser()).section("People")
        for name, status in (("ann", 409), ("zoe", 404)):
            assert (await browser.press("end", f"JupyterLab/{name}")).status == status
        assert room.runs("ann/ann-digits")

    room.visit(story, "tom")


def test_a_queue_is_put_on_hold_and_resumed_and_stays_as_it_was(room: Room) -> None:
    before = room.school.world.controller.setup

    async def story(browser: Browser) -> None:
        for kind in ("ClusterQueue//class", "LocalQueue/ben/default"):
            assert (await browser.press("hold", kind)).status == 303
        page = await browser()
        assert "class on hold" in page.section("Queues")
        assert "act=resume&amp;on=LocalQueue/ben/default" in page.text
        assert room.runs("ann/ann-digits")
        for kind in ("ClusterQueue//class", "LocalQueue/ben/default"):
            assert (await browser.press("resume", kind)).status == 303
        assert (await browser.press("hold", "ClusterQueue//never")).status == 404

    room.visit(story, "tom")
    assert room.school.world.controller.setup == before


@pytest.mark.parametrize("key", ["", "0" * 64, "of another"])
def test_a_form_without_the_key_of_the_session_is_refused(room: Room, key: str) -> None:
    async def story(browser: Browser, other: Browser) -> None:
        sent = (await other()).key if key == "of another" else key
        for path in ("do", "sign-out"):
            page = await browser(path, {"key": sent, "act": "stop", "on": "ann/ann-digits"})
            assert (page.status, "does not belong to your session" in page.text) == (403, True)
        assert room.runs("ann/ann-digits")

    room.visit(story, "ann", "tom")


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_a_form_of_another_site_is_refused(room: Room, headers: dict[str, str]) -> None:
    async def story(browser: Browser) -> None:
        form = {"key": (await browser()).key, "act": "stop", "on": "ann/ann-digits"}
        for path in ("do", "sign-in"):
            assert (await browser(path, form, **headers)).status == 403
        assert room.runs("ann/ann-digits")

    room.visit(story, "ann")


def test_an_origin_that_is_no_address(room: Room) -> None:
    async def story(browser: Browser) -> None:
        assert (await browser("sign-in", {}, Origin="http://[")).status == 403

    room.visit(story, "")


def test_a_cookie_that_is_no_text(room: Room) -> None:
    kept: dict[str, str] = {}

    async def story(browser: Browser) -> None:
        kept.update(browser.cookies)

    room.visit(story, "ann")
    sessions = Sessions(room.school.registry, "of ray", room.clock)
    assert sessions.of(kept) is not None
    assert sessions.of({COOKIE: f"{kept[COOKIE]}\udcff"}) is None


@pytest.mark.parametrize("query", ["act=stop", "act=burn&on=ann/x", "act=hold&on=ann/x", "act=stop&on=a/b/c"])
def test_a_button_that_is_none(room: Room, query: str) -> None:
    async def story(browser: Browser) -> None:
        assert (await browser(f"ask?{query}")).status == 400

    room.visit(story, "tom")


def test_what_people_write_is_shown_and_not_run(room: Room) -> None:
    evil = "<script>alert(1)</script>"
    room.school.queue.more["/health"] = {
        "devices": [{"node": evil, "device": '"><img src=x onerror=1>', "state": "EVICT", "message": evil}]
    }
    room.school.ray.more["x"] = {
        "submission_id": evil, "status": "RUNNING", "start_time": 1, "metadata": {}, "runtime_env": {},
    }  # fmt: skip

    async def story(browser: Browser) -> None:
        for path in ("", "ask?act=stop&on=/<script>alert(1)<\\/script>"):
            page = await browser(path)
            assert page.text.count("<script") == (1 if not path else 0)
            assert "<img" not in page.text
            assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert "unsafe" not in page.headers["Content-Security-Policy"]
        assert "&lt;script&gt;" in (await browser()).text

    room.visit(story, "tom")


def test_a_service_that_does_not_answer_leaves_the_rest_in_its_place(room: Room) -> None:
    room.school.queue.away, room.school.ray.ill, room.store.away = 99, True, True

    async def story(browser: Browser) -> None:
        page = await browser()
        assert page.status == 200
        for title in ("Jobs", "Queues", "Nodes and GPUs"):
            assert "Not all of it is known now" in page.section(title)
            assert "the queues are away" in page.section(title)
        assert "the store does not answer" in page.section("Recoveries")
        assert "ann student" in page.section("People")
        assert "2 of 14" not in page.section("Lessons")
        assert "1 of 14" in page.section("Lessons")
        assert (await browser.press("stop", "ann/ann-digits")).status == 502

    room.visit(story, "tom")


def test_many_who_look_ask_the_lab_once(room: Room) -> None:
    async def story(*browsers: Browser) -> None:
        room.school.ray.asked.clear()
        for browser in browsers:
            await browser("now")
        assert len(room.school.ray.asked) == 2

    room.visit(story, "ann", "ben", "eva", "tom")


def test_people_are_here_while_they_ask(room: Room) -> None:
    async def story(browser: Browser) -> None:
        assert "tom teacher here" in (people := (await browser()).section("People").replace("you ", ""))
        assert "ben student away not seen since the gateway started" in people

    room.visit(story, "tom")

    async def later(ben: Browser, tom: Browser) -> None:
        await ben()
        room.clock.now += 600
        people = (await tom()).section("People")
        assert "ben student away 10 min ago" in people
        assert "ann student here" in people, "her JupyterLab runs"
        assert "tom you teacher here" in people
        assert "10 min ago" not in (await ben()).section("People")

    room.visit(later, "ben", "tom")


def test_a_class_without_workers_says_so_before_all_else(room: Room) -> None:
    async def story(browser: Browser) -> None:
        assert "No worker is alive" not in (await browser()).text
        for node in room.school.ray.lists["/api/v0/nodes"]["data"]["result"]["result"]:
            node["state"] = "DEAD" if "worker" in node["node_name"] else "ALIVE"
        room.clock.now += 60
        page = (await browser()).text
        assert page.index("No worker is alive") < page.index("jobs that run")

    room.visit(story, "ann")


def test_a_receipt_is_read_by_those_who_may(room: Room) -> None:
    name = f"receipt/ann-digits-{int(room.clock() - 10)}"

    async def story(ann: Browser, ben: Browser, tom: Browser) -> None:
        for browser in (ann, tom):
            page = await browser(name)
            assert (page.status, "right checkpoint" in page.text) == (200, True)
        assert (await ben(name)).status == 404
        for other in ("receipt/never-1", "receipt/..%2F..%2Fx-1", "receipt/"):
            assert (await tom(other)).status == 404

    room.visit(story, "ann", "ben", "tom")


def test_lessons_are_ones_own(room: Room) -> None:
    async def story(ann: Browser, tom: Browser) -> None:
        own = (await ann()).section("Lessons")
        assert "ann 1 of 14 claimed passed" in own
        assert "ben" not in own
        assert "ben 0 of 14 claimed" in (await tom()).section("Lessons")

    room.visit(story, "ann", "tom")


def test_a_damaged_list_of_people_is_said_and_not_shown(room: Room) -> None:
    async def story(browser: Browser) -> None:
        (room.school.registry.path.parent / FILE).write_text("{")
        page = await browser()
        assert (page.status, str(room.school.registry.path) in page.text) == (503, False)

    room.visit(story, "tom")


def test_a_form_is_small(room: Room) -> None:
    async def story(browser: Browser) -> None:
        assert (await browser("sign-in", {"name": "x" * 5000})).status == 413

    room.visit(story, "")


def test_without_a_store_the_page_says_so(school: Class) -> None:
    room = Room(school)
    room.site.open(room.site._page._access, "of ray")

    async def story(browser: Browser) -> None:
        assert "not given the address of the store" in (await browser()).section("Recoveries")

    room.visit(story, "tom")
    assert isinstance(room.store, Store)
