"use strict";
(() => {
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const data = JSON.parse(one("#data").content.textContent);
  const form = one("#filters"), field = form.elements, names = all("article:first-of-type .side h4").map((title) => title.firstChild.data.trim());
  const turns = all(".turn").map((element, place) => ({ element, place, home: element.parentElement, scores: data.scores[place], reasons: data.reasons[place] }));
  const value = (name) => field[name]?.value ?? "";
  const run = () => Number(value("run")), measure = () => data.measures[Number(value("measure"))];
  const score = (turn, system) => turn.scores?.[system][Number(value("measure"))] ?? NaN;
  const gain = (turn) => (score(turn, run()) - score(turn, 0)) * measure().better;
  const SAME = 1e-9; // scores that differ by less are a tie, as in all tables
  const outcome = (turn) => (Number.isNaN(gain(turn)) ? "" : Math.abs(gain(turn)) < SAME ? "tie" : gain(turn) > 0 ? "win" : "loss");

  // A score as in the tables: a share has no zero before the point.
  function formatted(number) {
    const text = number.toFixed(measure().digits);
    return measure().share ? text.replace(/^(-?)0\./, "$1.") : text;
  }

  // Only the baseline and the compared system are shown.
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [sheet];

  function compare() {
    const hidden = names.map((_, system) => system).filter((system) => system !== run() && system !== 0);
    sheet.replaceSync(hidden.map((system) => `.turn .n${system} { display: none; }`).join("\n"));
    for (const turn of turns) {
      turn.text = undefined;
      if (turn.scores) showScores(turn);
    }
    if (data.measures.length) showBars();
    filter();
  }

  function showScores(turn) {
    const [title, ...values] = all("[data-measure], .value", turn.element), reason = one(".reason", turn.element);
    title.textContent = measure().name;
    values.forEach((cell, system) => { cell.textContent = Number.isNaN(score(turn, system)) ? "–" : formatted(score(turn, system)); });
    values[run()].className = `value ${outcome(turn)}`;
    if (!reason) return;
    reason.textContent = turn.reasons[run()][Number(value("measure"))] ?? "";
    reason.hidden = !reason.textContent;
  }

  // How many turns are better or worse by how much: 10 bars on each side. Ties would dwarf them, and are a number.
  function showBars() {
    const figure = one("figure"), bars = all("#bars i"), gains = turns.map(gain).filter((number) => Math.abs(number) >= SAME), HALF = 10;
    if (!figure) return;
    const largest = Math.max(...gains.map(Math.abs), 0), unit = largest > SAME ? 10 ** Math.floor(Math.log10(largest) + SAME) : 1;
    const end = Math.max(Math.ceil(largest / unit - SAME), 1) * unit, counts = bars.map(() => 0);
    for (const number of gains) counts[HALF + Math.sign(number) * Math.max(1, Math.ceil((Math.abs(number) / end) * HALF - 1e-6))] += 1;
    bars.forEach((bar, place) => { bar.style.height = `${(counts[place] / Math.max(...counts, 1)) * 100}%`; });
    const [won, tied, lost] = ["win", "tie", "loss"].map((side) => turns.filter((turn) => outcome(turn) === side).length);
    one("figcaption").textContent = `${measure().name} of ${names[run()]} against ${names[0]}: ${won} won, ${tied} tied, ${lost} lost`;
    const [start, , stop] = all(".axis span"), sides = ["worse by", "better by"].map((side) => `${side} ${formatted(end)}`);
    [start.textContent, stop.textContent] = sides;
    figure.hidden = false;
  }

  function text(turn) {
    const hidden = all(".side", turn.element).filter((_, system) => system !== run() && system !== 0).map((side) => side.textContent);
    turn.text ??= hidden.reduce((left, side) => left.replace(side, " "), turn.element.textContent).toLowerCase();
    return turn.text;
  }

  function filter() {
    const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    for (const turn of turns) {
      const fits = (!value("group") || turn.element.dataset.group === value("group")) && (!value("outcome") || outcome(turn) === value("outcome"));
      turn.element.hidden = !fits || !words.every((word) => text(turn).includes(word));
    }
    arrange();
    for (const section of all(".group")) section.hidden = !one(".turn:not([hidden])", section);
    const left = turns.filter((turn) => !turn.element.hidden).length;
    one("#none").hidden = left > 0;
    one("#count").textContent = `${left} of ${turns.length}`;
  }

  function arrange() {
    const sign = { gain: -1, loss: 1 }[value("order")], sorted = one("#sorted"), key = (turn) => (Number.isNaN(gain(turn)) ? Infinity : sign * gain(turn));
    const order = sign ? [...turns].sort((a, b) => (key(a) === key(b) ? a.place - b.place : key(a) - key(b))) : turns;
    if (sign || sorted.firstChild) for (const turn of order) (sign ? sorted : turn.home).append(turn.element);
    sorted.hidden = !sign;
  }

  // A link may lead into what is closed, or to a turn that is filtered out.
  function show() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (target.closest("[hidden]")) {
      form.reset();
      compare(); // now, so that there is something to scroll to
    }
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  }

  form.addEventListener("input", (event) => { if (["run", "measure"].includes(event.target.name)) compare(); else filter(); });
  form.addEventListener("reset", () => setTimeout(compare));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", show);
  // The passages of all sides are opened and closed together, so that they can be compared.
  document.addEventListener("click", (event) => {
    const box = event.target.closest(".passages > summary")?.parentElement, turn = box?.closest(".turn");
    const lists = turn ? all(".side", turn).map((side) => all(".passages", side)) : [], at = Math.max(...lists.map((several) => several.indexOf(box)));
    for (const several of lists) if (several[at] && several[at] !== box) several[at].open = !box.open;
  });
  form.hidden = false;
  compare();
  show();
})();
