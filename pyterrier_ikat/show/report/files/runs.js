  // Which runs are shown, the order of the turns, and what is compressed.

  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [sheet];

  function compare() {
    for (const run of boxes.length ? [baseline(), compared()] : []) boxes[run].checked = true;
    const hide = names.map((_, run) => run).filter((run) => !isShown(run));
    const rules = hide.map((run) => `.n${run}, .passages tr > :nth-child(${run + 2}) { display: none !important; }`);
    if (names.length > 1) rules.push(`.side.n${baseline()} .name::after { content: " · baseline"; color: var(--quiet); font-weight: 400; }`);
    sheet.replaceSync(rules.join("\n"));
    document.body.classList.toggle("many", shownRuns().length > 4);
    for (const place of all("[data-name]:not(td)")) {
      place.textContent = place.dataset.name === "measure" ? field.measure.selectedOptions[0].textContent : names[number(place.dataset.name, 0)];
    }
    if (one("#how-many")) one("#how-many").textContent = `${shownRuns().length} of ${names.length}`;
    const means = one(".means");
    if (means) table(means, all("tbody tr", means).map((row) => [...row.cells].slice(1).map((cell) => Number(cell.dataset.value))), 4, () => true);
    for (const turn of turns) {
      turn.text = undefined;
      markSides(turn);
      markPassages(turn);
      showScores(turn);
    }
    arrange();
    explain();
  }

  function showScores(turn) {
    if (!turn.judged) return;
    const values = turn.scores.map((row) => row[measure()]);
    score(all(".headline .run > :last-child", turn.element), values, 3);
    const measured = one(".measured", turn.element);
    if (measured) table(measured, turn.scores, 3);
    all("i", turn.chip).forEach((cell, run) => { cell.className = `n${run} l${Math.min(Math.floor(values[run] * 5), 4)}`; });
    const told = shownRuns().map((run) => `${names[run]} ${fixed(values[run], 3)}`).join(", ");
    turn.chip.title = `${turn.name}, ${field.measure.selectedOptions[0].textContent}: ${told}`;
  }

  const gain = (turn) => turn.scores[compared()][measure()] - turn.scores[baseline()][measure()];

  function arrange() {
    const by = { gain: (turn) => -gain(turn), loss: gain, change: (turn) => -Math.abs(gain(turn)) }[value("order")];
    order = by ? [...turns].sort((a, b) => b.judged - a.judged || (a.judged ? by(a) - by(b) : 0) || a.place - b.place) : turns;
    const sorted = one("#sorted"), was = turns[here]?.element;
    if (by || sorted.firstChild) for (const turn of order) (by ? sorted : turn.home).append(turn.element);
    sorted.hidden = !by;
    here = was ? turns.findIndex((turn) => turn.element === was) : here;
  }

  async function explain() {
    const [low, high] = [baseline(), compared()].sort((a, b) => a - b);
    const pair = low * names.length - (low * (low + 1)) / 2 + high - low - 1;
    const reasons = names.length > 2 ? (await data()).reasons : null;
    for (const turn of turns.filter((one) => one.reason)) {
      turn.reason.hidden = low === high;
      if (reasons && low !== high) turn.reason.textContent = reasons[turn.place][pair];
    }
  }

  let read;
  function data() {
    read ??= (async () => {
      const bytes = Uint8Array.from(atob(one("#packed").content.textContent), (letter) => letter.charCodeAt(0));
      return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
    })();
    return read;
  }

  async function showCalls(box) {
    if (box.dataset.filled) return;
    box.dataset.filled = "yes";
    const { lines, calls } = await data();
    const whole = (places) => places.map((place) => lines[place]).join("\n");
    for (const [title, stage, messages, completion, failed] of calls[turnOf(box).place][Number(box.dataset.run)]) {
      const made = add(box, "details", "");
      add(made, "summary", title);
      add(made, "code", stage);
      const parts = [...messages.map(([role, places]) => [role === "user" ? "Prompt" : `Prompt (${role})`, places]), [failed ? "Failed" : "Completion", completion]];
      for (const [part, places] of parts) {
        add(made, "h5", part);
        const shown = add(made, "pre", whole(places));
        shown.tabIndex = 0;
        shown.dir = "auto";
        shown.setAttribute("role", "group");
        shown.setAttribute("aria-label", `${part} of ${title}`);
      }
    }
  }
