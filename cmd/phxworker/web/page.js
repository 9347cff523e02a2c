// Asks for the page again and again and puts its main part in place, so that
// the place on the page is kept. Without it the page reloads itself.
"use strict";
const every = 2000, news = document.getElementById("news");
let failed = 0;

async function refresh() {
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
    document.title = fresh.title;
    document.body.classList.remove("stale");
    news.textContent = "";
    document.documentElement.dataset.live = "yes";
    failed = 0;
  } catch {
    failed += 1;
    if (failed < 2) return;
    document.title = "✗ no answer · phxworker";
    document.body.classList.add("stale");
    news.textContent = "The worker does not answer. What stands here is from before.";
  }
}

async function loop() {
  if (!document.hidden) await refresh();
  setTimeout(loop, every);
}
setTimeout(loop, every);
