// What pages gain with scripts: they update themselves, have keys, and copy snippets. Nothing needs it for reading.
"use strict";

(() => {
  const body = document.body;
  const state = document.getElementById("live-state");
  let source = null;

  const say = (text, isAway) => {
    state.hidden = !text;
    state.classList.toggle("away", isAway);
    if (state.textContent !== text) state.textContent = text;
  };

  // Replaces the parts that differ; what a person has opened, selected or typed into stays.
  const update = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html");
    const parts = [...document.querySelectorAll("main [data-part]")];
    const wanted = [...next.querySelectorAll("main [data-part]")];
    const names = (list) => list.map((part) => part.dataset.part).join("\n");
    if (names(parts) !== names(wanted)) {
      if (!isBusy(document.getElementById("main"))) document.getElementById("main").replaceWith(document.adoptNode(next.getElementById("main")));
      return;
    }
    parts.forEach((part, index) => {
      const fresh = wanted[index];
      const opened = [...part.querySelectorAll("details")].map((each) => each.open);
      [...fresh.querySelectorAll("details")].forEach((each, place) => { if (opened[place]) each.open = true; });
      if (part.isEqualNode(fresh) || isBusy(part)) return;
      const scrolled = part.querySelector(".wide")?.scrollLeft;
      const adopted = document.adoptNode(fresh);
      part.replaceWith(adopted);
      const wide = adopted.querySelector(".wide");
      if (wide && scrolled) wide.scrollLeft = scrolled;
      if (!adopted.querySelector("svg")) adopted.classList.add("fresh");
    });
    showCopies();
  };

  const isBusy = (part) => {
    const selection = window.getSelection();
    const isSelected = selection && !selection.isCollapsed && selection.containsNode(part, true);
    // A field in which something else stands than the page came with: it would be lost.
    if ([...part.querySelectorAll("input, textarea")].some((each) => each.value !== each.defaultValue)) return true;
    return part.contains(document.activeElement) && document.activeElement !== document.getElementById("main") || isSelected;
  };

  const open = () => {
    if (source || body.dataset.live !== "yes" || document.hidden) return;
    source = new EventSource("/live?page=" + encodeURIComponent(body.dataset.address));
    source.addEventListener("page", (event) => { say("live", false); update(JSON.parse(event.data)); });
    source.addEventListener("away", () => say("The metastore does not answer; trying again", true));
    source.addEventListener("changed", () => location.reload());
    source.addEventListener("signed-out", () => { close(); say("Signed out: reload to sign in again", true); });
    source.onopen = () => { if (state.classList.contains("away")) say("live", false); };
    source.onerror = () => {
      const isOver = source && source.readyState === EventSource.CLOSED;
      say(isOver ? "not live: reload for newer values" : "The console does not answer; trying again", !isOver);
      // A full console, or a proxy in front of one that starts, has ended it for good: only a new one can come back.
      if (isOver) { close(); setTimeout(open, 20000); }
    };
  };

  const close = () => { if (source) { source.close(); source = null; } };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.dataset?.submit === "ctrl-enter") event.target.form.requestSubmit();
  });

  let before = "";
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
    if (event.key === "/") { event.preventDefault(); document.getElementById("search").focus(); }
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (before === "g") {
      const link = [...document.querySelectorAll(".areas a")].find((each) => each.dataset.key === event.key);
      if (link) location.href = link.href;
    }
    before = event.key;
  });

  const showCopies = () => {
    if (!navigator.clipboard) return;
    document.querySelectorAll("button.copy").forEach((button) => { button.hidden = false; });
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.closest("figure").querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  showCopies();
})();
