// Two small comforts; every page works without them.
"use strict";

// A one-time link carries its secret after the #, which browsers do not send. It goes into the form, and out of sight.
for (const field of document.querySelectorAll("[data-from-link]")) {
  if (location.hash.length > 1) {
    field.value = location.hash.slice(1);
    field.closest(".secret").hidden = true;
    history.replaceState(null, "", location.pathname);
  }
}

// Progress moves by itself, and the page is loaded once more when there is something new to show.
for (const box of document.querySelectorAll("[data-progress]")) {
  const bar = box.querySelector("progress");
  const words = box.querySelector("[data-words]");
  const said = box.querySelector("[data-said]");
  let spoken = "";

  const look = async () => {
    let wait = 2000;
    try {
      const answer = await fetch(box.dataset.progress, { headers: { Accept: "application/json" } });
      if (answer.status === 401 || answer.status === 404) return location.reload();
      if (!answer.ok) throw new Error(answer.statusText);
      const found = await answer.json();
      if (!found.running) return location.replace(location.pathname);
      words.textContent = found.words;
      for (const [index, step] of box.querySelectorAll(".phases li").entries()) {
        if (index === found.phase) step.setAttribute("aria-current", "step");
        else step.removeAttribute("aria-current");
      }
      if (found.planned) {
        bar.max = found.planned;
        bar.value = found.done;
      } else {
        bar.removeAttribute("value");
      }
      // Screen readers hear of a new stage and of every quarter, not of every step.
      const quarter = found.planned ? Math.floor((4 * found.done) / found.planned) : 0;
      const news = `${found.stage} ${quarter}`;
      if (news !== spoken) said.textContent = found.words;
      spoken = news;
    } catch {
      words.textContent = "The service cannot be reached; trying again.";
      wait = 10000;
    }
    setTimeout(look, wait);
  };
  setTimeout(look, 1000);
}
