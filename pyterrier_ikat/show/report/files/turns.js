"use strict";
(() => {
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const form = one("#filters"), field = form.elements, help = one("#help"), count = one("#count");
  const names = all("h1 .run").map((name) => name.textContent);
  const boxes = all('[name="shown"]', form);
  const turns = all(".turn").map((element, place) => ({
    element,
    place,
    home: element.parentElement,
    name: one("h3 .quiet", element).textContent,
    chip: one(`.strip a[href="#${element.id}"]`),
    conversation: element.dataset.conversation,
    depth: Number(element.dataset.depth),
    scores: (element.dataset.scores || "").split("|").map((row) => row.split(" ").map(Number)),
    judged: "scores" in element.dataset,
    ends: (element.dataset.ends || "").split("|"),
    sides: all(".side", element),
    needs: element.dataset.needs,
    reason: one(".reason", element),
  }));
  let order = turns; // as they stand in the page
  const framed = location.protocol === "about:"; // a notebook's frame has no address of its own
  let here = -1;

  const value = (name) => (field[name] ? field[name].value.trim() : "");
  const number = (name, otherwise) => (value(name) === "" ? otherwise : Number(value(name)));
  const baseline = () => number("baseline", 0), compared = () => number("run", 0), measure = () => number("measure", 0);
  const isShown = (run) => !boxes.length || boxes[run].checked;
  const shownRuns = () => names.map((_, run) => run).filter(isShown);
  const plain = document.createElement("textarea"); // makes characters of &lt; and the like, and no elements
  const turnOf = (element) => turns.find((turn) => turn.element === element.closest(".turn"));
