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
    sides: all(".side", element),
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

  // While scripts run, a <noscript> is plain text to the browser, so a page of many passages opens several times as fast: those of a turn
  // become elements once they are opened, cited or found. Without scripts they are elements from the start.
  for (const turn of turns) {
    const hidden = one(".passages noscript", turn.element);
    turn.packed = hidden ? hidden.textContent : "";
    turn.unpacked = !hidden;
  }
  for (const hidden of all(".turn noscript")) hidden.remove();
  const plain = document.createElement("textarea"); // makes characters of &lt; and the like, and no elements
  const turnOf = (element) => turns.find((turn) => turn.element === element.closest(".turn"));

  function unpack(turn) {
    if (!turn || turn.unpacked) return;
    turn.unpacked = true;
    const box = one(".passages", turn.element);
    box.insertAdjacentHTML("beforeend", turn.packed);
    for (const row of all("tbody tr", box)) names.forEach((name, run) => { row.cells[run + 1].dataset.name = name; });
    markPassages(turn);
  }

  // The rows of a turn's passages that the shown runs have, as they are packed.
  const rowsOf = (turn) => turn.packed.split("<tr id=").slice(1).filter((row) => row.match(/data-in="([\d ]*)"/)[1].split(" ").map(Number).some(isShown));

  // The texts of a turn that the shown runs have.
  function text(turn) {
    if (turn.text === undefined) {
      const further = turn.packed.slice(turn.packed.lastIndexOf("</table>"));
      plain.innerHTML = rowsOf(turn).map((row) => `<${row}`).join("").replace(/<\/tbody>[^]*/, "").concat(further).replace(/<[^>]*>/g, " ");
      const parts = [...turn.element.children].filter((part) => !part.matches(".sides, .passages"));
      parts.push(...turn.sides.filter((_, run) => isShown(run)), ...all(".passages > summary", turn.element));
      turn.text = `${parts.map((part) => part.textContent).join(" ")} ${plain.value}`.toLowerCase();
    }
    return turn.text;
  }
