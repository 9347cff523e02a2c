// Keeps the parts of a document that are marked data-live up to date, whenever the server tells of a change.
// Without it every document is the same, as of when it was loaded.
"use strict";
const news = document.getElementById("news");
const pace = 300; // ms between two looks
let due = false, looking = false;

// renew asks for the document again, and puts its live parts in place of the old ones.
async function renew() {
  due = false;
  looking = true;
  try {
    const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) for (const part of document.querySelectorAll("[data-live]")) replace(part, fresh.getElementById(part.id));
    news.textContent = answer.ok ? "" : "What stands here is kept no more at the server.";
    document.documentElement.dataset.renewed = Number(document.documentElement.dataset.renewed ?? 0) + 1;
  } catch {
    stale();
  }
  setTimeout(() => {
    looking = false;
    if (due) renew();
  }, pace);
}

// replace leaves a part alone that has not changed, or that somebody is writing in; what was unfolded stays so.
function replace(old, fresh) {
  if (!fresh || old.innerHTML === fresh.innerHTML) return;
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  if (focus && /^(INPUT|TEXTAREA|SELECT)$/.test(focus.tagName)) return;
  for (const unfolded of old.querySelectorAll("details[open]")) fresh.querySelector("#" + CSS.escape(unfolded.id))?.setAttribute("open", "");
  const place = focus ? [...old.querySelectorAll("a, button, summary, pre")].indexOf(focus) : -1;
  old.replaceChildren(...document.adoptNode(fresh).childNodes);
  if (place >= 0) old.querySelectorAll("a, button, summary, pre")[place]?.focus({ preventScroll: true });
}

function changed() {
  due = true;
  if (!looking) renew();
}

function stale() {
  news.textContent = "The server does not answer. What stands here is from before.";
}

// follow listens while the document is looked at. A browser has six connections to a server: the tabs behind must not hold them.
let events = null;
function follow() {
  if (document.hidden === !events) return;
  events?.close();
  events = document.hidden ? null : new EventSource(document.body.dataset.follow);
  if (!events) return;
  for (const kind of ["run", "event", "fault", "worker", "missed"]) events.addEventListener(kind, changed);
  events.onerror = stale;
  events.onopen = changed; // what happened between the document and now
}

if (document.body.dataset.follow) {
  follow();
  document.addEventListener("visibilitychange", follow);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const answer = await fetch(button.dataset.copy);
    await navigator.clipboard.writeText(await answer.text());
    news.textContent = "Copied.";
  });
}

for (const choice of document.querySelectorAll("[data-submit]")) choice.addEventListener("change", () => choice.form.submit());

for (const area of document.querySelectorAll("[data-drop]")) {
  area.addEventListener("dragover", (drag) => drag.preventDefault());
  area.addEventListener("drop", async (drag) => {
    const file = drag.dataTransfer.files[0];
    if (!file) return;
    drag.preventDefault();
    area.value = await file.text();
  });
}
