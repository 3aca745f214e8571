  // What differs from the baseline, which runs are shown, and the order of the turns.

  const SAME = 1e-9; // scores that differ by less are a tie, as in all tables
  const ALIKE = 0.00005; // scores that differ by less read alike
  const isKnown = (one) => !Number.isNaN(one);
  const sideOf = (change) => (!isKnown(change) ? "" : Math.abs(change) < SAME ? "tie" : change > 0 ? "win" : "loss");
  const of = (element, name, otherwise) => Number(element?.dataset[name] ?? otherwise);
  const chosen = () => field.measure?.selectedOptions[0];

  // As Python rounds, so that every table of a run shows the same digits: a tie goes to the even one.
  function fixed(number, digits) {
    const exact = number.toFixed(60), end = exact.length - 60 + digits;
    return /^50*$/.test(exact.slice(end)) && Number(exact[end - 1]) % 2 === 0 ? exact.slice(0, end) : number.toFixed(digits);
  }

  // A score as in all tables: without the zero before the point. Of amounts, such as seconds, a lower one is better.
  function formatted(number, digits, better = 1) {
    return better > 0 ? fixed(number, digits).replace(/^(-?)0\./, "$1.") : fixed(number, digits);
  }

  function add(parent, name, content, kind) {
    const made = document.createElement(name);
    made.textContent = content;
    if (kind) made.className = kind;
    parent.append(made);
    return made;
  }

  // Scores in their cells: bold where the best of the shown runs, with the difference from the baseline's. Of seconds the lowest are the
  // best (better is -1), of numbers of sessions none (0).
  function score(cells, values, digits, among = isShown, better = 1) {
    const seen = values.filter((one, run) => among(run) && isKnown(one)).map((one) => one * better);
    const top = Math.max(...seen), differ = top - Math.min(...seen) >= ALIKE;
    values.forEach((one, run) => {
      const change = one - values[baseline()], side = sideOf(change * better);
      cells[run].textContent = "";
      add(cells[run], differ && top - one * better < ALIKE ? "b" : "span", isKnown(one) ? formatted(one, digits, better) : cells[run].dataset.lacking ?? "–");
      if (run === baseline() || !side || side === "tie" || !Number(fixed(Math.abs(change), digits))) return;
      cells[run].append(" ");
      const tested = cells[run].dataset.sure, sure = tested?.split(" ").includes(String(baseline())), arrow = sure ? (change > 0 ? "↑" : "↓") : "";
      const told = add(cells[run], "span", `${arrow}${change > 0 ? "+" : "−"}${formatted(Math.abs(change), digits, better)}`, tested === undefined || sure ? side : "quiet");
      if (sure) told.title = `significantly ${change > 0 ? "above" : "below"} ${names[baseline()]}`;
    });
  }

  function table(element, rows, digits, among) {
    const cells = all("tbody tr", element).map((row) => [...row.cells].slice(1)), titles = all("thead th", element).slice(1);
    rows[0].forEach((_, column) => {
      const title = titles[column], values = rows.map((row) => row[column]);
      score(cells.map((row) => row[column]), values, of(title, "digits", digits), among, of(title, "better", 1));
    });
  }

  function ranges(root, find) {
    const found = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      for (const [at, length] of find(node.data)) {
        found.push(new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: at + length }));
      }
    }
    return found;
  }

  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [sheet];

  function compare() {
    for (const run of boxes.length ? [baseline(), compared()] : []) boxes[run].checked = true;
    const hide = names.map((_, run) => run).filter((run) => !isShown(run));
    const rules = hide.map((run) => `.n${run}, .turn > .passages tr > :nth-child(${run + 2}) { display: none !important; }`);
    if (names.length > 1) rules.push(`.side.n${baseline()} .name::after { content: " · baseline"; color: var(--quiet); font-weight: 400; }`);
    sheet.replaceSync(rules.join("\n"));
    document.body.classList.toggle("many", shownRuns().length > 4);
    for (const place of all("[data-name]:not(td)")) {
      place.textContent = place.dataset.name === "measure" ? chosen().textContent : names[number(place.dataset.name, 0)];
    }
    if (one("#how-many")) one("#how-many").textContent = `${shownRuns().length} of ${names.length}`;
    const means = one(".means");
    if (means) table(means, all("tbody tr", means).map((row) => all("[data-value]", row).map((cell) => Number(cell.dataset.value))), 4, () => true);
    showOutcomes();
    for (const turn of turns) {
      turn.text = undefined;
      showScores(turn);
    }
    mark();
    arrange();
    showOverview();
  }

  function showScores(turn) {
    if (!turn.judged) return;
    const values = turn.scores.map((row) => row[measure()]), digits = of(chosen(), "digits", 4), most = of(chosen(), "most", 1);
    score(all(".headline .run > :last-child", turn.element), values, digits, isShown, of(chosen(), "better", 1));
    const measured = one(".measured", turn.element);
    if (measured) table(measured, turn.scores, 4);
    all("i", turn.chip).forEach((cell, run) => {
      cell.className = `n${run} ${isKnown(values[run]) ? `l${Math.min(Math.floor((values[run] / most) * 5), 4)}` : "lacking"}`;
    });
    const told = shownRuns().map((run) => `${names[run]} ${isKnown(values[run]) ? formatted(values[run], digits, of(chosen(), "better", 1)) : "–"}`).join(", ");
    turn.chip.title = `${turn.name}, ${chosen().textContent}: ${told}`;
  }

  const gain = (turn) => gainOf(compared())(turn);

  const gainOf = (run) => (turn) => (turn.scores[run][measure()] - turn.scores[baseline()][measure()]) * of(chosen(), "better", 1);

  // On how many turns a run wins, ties and loses.
  function outcomes(run) {
    const sides = turns.filter((turn) => turn.judged).map(gainOf(run)).map(sideOf);
    return ["win", "tie", "loss"].map((side) => sides.filter((other) => other === side).length);
  }

  function showOutcomes() {
    all(".means .outcomes").forEach((cell, row) => {
      cell.hidden = false;
      if (row) cell.textContent = row - 1 === baseline() ? "" : outcomes(row - 1).join(" / "); // the first is the title
    });
  }

  // How far the shown runs are apart on a turn.
  function spread(turn) {
    const seen = shownRuns().map((run) => turn.scores[run][measure()]).filter(isKnown);
    return seen.length > 1 ? Math.max(...seen) - Math.min(...seen) : NaN;
  }

  function arrange() {
    const by = { gain: (turn) => -gain(turn), loss: gain, change: (turn) => -Math.abs(gain(turn)), spread: (turn) => -spread(turn) }[value("order")];
    const key = new Map(by ? turns.map((turn) => [turn, turn.judged && isKnown(by(turn)) ? by(turn) : Infinity]) : []);
    order = by ? [...turns].sort((a, b) => (key.get(a) === key.get(b) ? a.place - b.place : key.get(a) - key.get(b))) : turns;
    const sorted = one("#sorted"), was = turns[here]?.element;
    if (by || sorted.firstChild) for (const turn of order) (by ? sorted : turn.home).append(turn.element);
    sorted.hidden = !by;
    here = was ? turns.findIndex((turn) => turn.element === was) : here;
  }
