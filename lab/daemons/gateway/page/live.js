// Shows the class as it is now: the same part of the page is asked for again every few seconds.
"use strict";
const PAUSE = 4000;
const now = document.getElementById("now");
const live = document.getElementById("live");

function localTimes() {
  for (const time of now.querySelectorAll("time")) {
    const at = new Date(time.dateTime.replace(" UTC", "Z").replace(" ", "T"));
    if (!Number.isNaN(at.getTime())) time.textContent = at.toLocaleTimeString();
  }
}

function show(text) {
  const link = document.activeElement && document.activeElement.getAttribute("href");
  const scrolled = [...now.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  now.innerHTML = text;
  localTimes();
  [...now.querySelectorAll(".scroll")].forEach((one, number) => { one.scrollLeft = scrolled[number] || 0; });
  const again = link && [...now.querySelectorAll("a")].find((one) => one.getAttribute("href") === link);
  if (again) again.focus({ preventScroll: true });
}

async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch("/class/now", { cache: "no-store" });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      show(await answer.text());
      live.textContent = "";
    } catch (error) {
      live.textContent = `The class's gateway does not answer (${error.message}). This is what it was then:`;
    }
  }
  setTimeout(refresh, PAUSE);
}

localTimes();
setTimeout(refresh, PAUSE);
