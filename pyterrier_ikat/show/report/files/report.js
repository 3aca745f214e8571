"use strict";
(() => {
  const one = (query) => document.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const form = one("#filters"), field = form.elements, help = one("#help");
  const turns = all(".turn").map((element) => ({
    element,
    chip: one(`.strip a[href="#${element.id}"]`),
    conversation: element.dataset.conversation,
    depth: Number(element.dataset.depth),
    scores: (element.dataset.scores || "").split("|").map((row) => row.split(" ").map(Number)),
    judged: "scores" in element.dataset,
  }));
  const framed = location.protocol === "about:"; // a notebook's frame has no address of its own
  let here = -1;

  const value = (name) => (field[name] ? field[name].value.trim() : "");
  const number = (name, otherwise) => (value(name) === "" ? otherwise : Number(value(name)));

  // While scripts run, a <noscript> is plain text to the browser, so a page of many passages opens several times as fast: those of a turn
  // become elements once they are opened, cited or found. Without scripts they are elements from the start.
  const packed = new Map(all(".passages noscript").map((box) => [box.parentElement, box.textContent]));
  for (const box of all(".passages noscript")) box.remove();
  const plain = document.createElement("textarea"); // makes characters of &lt; and the like, and no elements

  function unpack(element) {
    const box = element?.querySelector(".passages");
    if (!packed.has(box)) return;
    box.insertAdjacentHTML("beforeend", packed.get(box));
    packed.delete(box);
  }

  function text(turn) {
    if (turn.text === undefined) {
      plain.innerHTML = (packed.get(turn.element.querySelector(".passages")) ?? "").replace(/<[^>]*>/g, " ");
      turn.text = `${turn.element.textContent} ${plain.value}`.toLowerCase();
    }
    return turn.text;
  }

  function measured(turn) {
    const run = field.run ? Number(value("run")) : 0, measure = Number(value("measure") || 0);
    const least = number("least", -Infinity), most = number("most", Infinity), outcome = value("outcome");
    if (least === -Infinity && most === Infinity && !outcome) return true;
    if (!turn.judged) return false;
    const score = turn.scores[run][measure], change = score - turn.scores[0][measure];
    const found = Math.abs(change) < 0.00005 ? "tie" : change > 0 ? "win" : "loss";
    return score >= least && score <= most && (!outcome || outcome === found);
  }

  function fits(turn, words) {
    return (!value("conversation") || turn.conversation === value("conversation"))
      && turn.depth >= number("first", 0) && turn.depth <= number("last", Infinity)
      && measured(turn) && words.every((word) => text(turn).includes(word));
  }

  function filter() {
    const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    for (const turn of turns) {
      const out = !fits(turn, words);
      turn.element.hidden = out;
      turn.chip.classList.toggle("out", out);
    }
    for (const section of all(".conversation")) section.hidden = !section.querySelector(".turn:not([hidden])");
    const shown = turns.filter((turn) => !turn.element.hidden).length;
    one("#count").textContent = `${shown} of ${turns.length} turns`;
    one("#none").hidden = shown > 0;
    highlight(words);
  }

  // what was searched for is marked, and opened where it can't be seen, in the first turns shown: all of them would take too long
  function highlight(words) {
    if (!("highlights" in CSS)) return;
    const ranges = [];
    for (const turn of words.length ? turns.filter((one) => !one.element.hidden).slice(0, 20) : []) {
      unpack(turn.element);
      const found = words.flatMap((word) => places(turn.element, word));
      if (!found.some((range) => !range.startContainer.parentElement.closest("details:not([open])"))) opened(found[0].startContainer);
      ranges.push(...found);
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  function places(root, word) {
    const found = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, lower = node.data.toLowerCase();
      for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
        if (at + word.length > node.length) break; // lower case may be longer than the text
        found.push(new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: at + word.length }));
      }
    }
    return found;
  }

  function opened(node) {
    for (let box = node.parentElement.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  }

  function keep() {
    const state = new URLSearchParams();
    for (const [name, set] of new FormData(form)) if (set && !["run", "measure"].includes(name)) state.set(name, set);
    for (const name of ["run", "measure"]) if (field[name] && !isDefault(field[name])) state.set(name, field[name].value);
    if (!framed) history.replaceState(null, "", `#${state}`);
  }

  const isDefault = (select) => [...select.options].every((option, place) => option.selected === (option.defaultSelected
    || (place === 0 && ![...select.options].some((other) => other.defaultSelected))));

  function restore() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) return show(hash);
    form.reset();
    for (const [name, set] of new URLSearchParams(hash)) if (field[name]) field[name].value = set;
    filter();
  }

  function show(id) {
    unpack(document.getElementById(id.replace(/^p(\d+)-.*/, "t$1")));
    const target = document.getElementById(id);
    if (!target) return;
    one(".target")?.classList.remove("target");
    target.classList.add("target");
    opened(target);
    const turn = target.closest(".turn");
    if (turn && turn.hidden) { form.reset(); filter(); }
    if (turn) reach(turns.findIndex((other) => other.element === turn), target === turn);
    target.scrollIntoView();
  }

  function reach(place, focus) {
    if (turns[here]) turns[here].chip.classList.remove("here");
    here = place;
    turns[here].chip.classList.add("here");
    turns[here].chip.scrollIntoView({ block: "nearest" });
    if (!focus) return;
    turns[here].element.focus({ preventScroll: true });
    turns[here].element.scrollIntoView();
  }

  function atTop() {
    const box = turns[here]?.element.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return here;
    const below = turns.findIndex((turn) => !turn.element.hidden && turn.element.getBoundingClientRect().bottom > form.offsetHeight + 20);
    return below === 0 || scrollY < 200 ? -1 : below;
  }

  function step(by) {
    for (let place = atTop() + by; place >= 0 && place < turns.length; place += by) {
      if (!turns[place].element.hidden) return reach(place, true);
    }
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    o: () => {
      const list = turns[here] && turns[here].element.querySelector(".passages");
      if (list) list.open = !list.open;
    },
    "/": () => {
      one("#filters details").open = true;
      field.search.focus();
    },
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "Escape" && typing) return typing.blur();
    if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return undefined;
    event.preventDefault();
    return keys[event.key]();
  });
  document.addEventListener("focusin", (event) => {
    const turn = event.target.closest(".turn");
    if (turn && turn !== turns[here]?.element) reach(turns.findIndex((other) => other.element === turn), false);
  });
  document.addEventListener("toggle", (event) => unpack(event.target.parentElement), true); // it doesn't bubble
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    if (!framed) history.pushState(null, "", link.hash);
    show(link.getAttribute("href").slice(1));
  });

  let waiting;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { filter(); keep(); }, 120); });
  form.addEventListener("reset", () => setTimeout(() => { filter(); keep(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  one("#keys").addEventListener("click", keys["?"]);
  one("#close").addEventListener("click", () => help.close());
  window.addEventListener("hashchange", restore);

  form.hidden = false;
  if (matchMedia("(max-width: 860px)").matches) for (const box of all("nav details, #filters details")) box.open = false;
  const bar = () => document.documentElement.style.setProperty("--bar", getComputedStyle(form).position === "sticky" ? `${form.offsetHeight + 12}px` : "1rem");
  new ResizeObserver(bar).observe(form);
  filter();
  restore();
})();
