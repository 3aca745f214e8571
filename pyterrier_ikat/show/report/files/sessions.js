  // What is only in a report of sessions: the sources of each response, and how it was made.

  // While scripts run, a <noscript> is plain text to the browser, so that a page of thousands of responses opens fast: those of a session
  // become elements once one of them is opened or found. Without scripts they are elements from the start.
  for (const turn of turns) {
    turn.packed = all("noscript", turn.element).map((hidden) => ({ box: hidden.parentElement, html: hidden.textContent }));
    turn.unpacked = !turn.packed.length;
  }
  for (const hidden of all(".turn noscript")) hidden.remove();

  function unpack(turn) {
    if (!turn || turn.unpacked) return;
    turn.unpacked = true;
    for (const { box, html } of turn.packed) box.insertAdjacentHTML("beforeend", html);
  }

  // The texts of a session that the shown systems have.
  function text(turn) {
    if (turn.text === undefined) {
      const sides = turn.sides.filter((_, run) => isShown(run)), hidden = turn.unpacked ? [] : turn.packed.filter(({ box }) => sides.includes(box.closest(".side")));
      plain.innerHTML = hidden.map(({ html }) => html.replace(/<[^>]*>/g, " ")).join(" ");
      const parts = [...[...turn.element.children].filter((part) => !part.matches(".sides, .notes")), ...sides];
      turn.text = `${parts.map((part) => part.textContent).join(" ")} ${plain.value}`.toLowerCase();
    }
    return turn.text;
  }

  // A rubric that one shown system alone has met is marked.
  function mark() {
    for (const row of all(".rubrics tbody tr")) {
      const cells = [...row.cells].slice(1), having = cells.filter((cell, run) => isShown(run) && cell.dataset.met);
      for (const cell of cells) cell.classList.toggle("only", shownRuns().length > 1 && having.length === 1 && having[0] === cell);
    }
  }
