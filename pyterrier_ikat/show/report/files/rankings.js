  // What is only in a report of rankings: the words and the passages of each run.

  // While scripts run, a <noscript> is plain text to the browser, so a page of many passages opens several times as fast: those of a turn
  // become elements once they are opened, cited or found. Without scripts they are elements from the start.
  for (const turn of turns) {
    const hidden = one(".passages noscript", turn.element);
    turn.packed = hidden ? hidden.textContent : "";
    turn.unpacked = !hidden;
  }
  for (const hidden of all(".turn noscript")) hidden.remove();

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
      const parts = [...turn.element.children].filter((part) => !part.matches(".sides, .passages, .notes"));
      parts.push(...turn.sides.filter((_, run) => isShown(run)), ...all(".passages > summary", turn.element));
      turn.text = `${parts.map((part) => part.textContent).join(" ")} ${plain.value}`.toLowerCase();
    }
    return turn.text;
  }

  const wordsIn = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

  const COMMON = new Set(("a about all an and any are as at be been but by can could did do does for from had has have he her his how i if "
    + "in is it its me my no not of on or our she should so some such than that the their them there these they this to too was we were "
    + "what when where which who why will with would you your").split(" "));
  const stem = (word) => (word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word);
  // The words that matter, singular or plural.
  const stemsIn = (text) => wordsIn(text).filter((word) => word.length > 1 && !COMMON.has(word)).map(stem);

  function markWords(element, theirs) {
    const known = theirs && new Set(stemsIn(theirs.textContent)), text = element.textContent;
    element.textContent = text;
    if (!known) return;
    element.textContent = "";
    for (const piece of text.split(/(\s+)/)) {
      const last = element.lastChild, isNew = stemsIn(piece).some((word) => !known.has(word));
      if (isNew && last?.nodeName === "MARK") last.textContent += piece;
      else if (isNew) add(element, "mark", piece);
      else if (last && last.nodeName !== "MARK") last.data += piece;
      else element.append(piece);
    }
    for (const mark of all("mark", element)) { // two new words are one mark
      const gap = mark.nextSibling;
      if (gap && gap.nodeType === 3 && gap.data.trim() === "" && gap.nextSibling?.nodeName === "MARK") {
        gap.nextSibling.textContent = mark.textContent + gap.data + gap.nextSibling.textContent;
        gap.remove();
        mark.remove();
      }
    }
  }

  function markItems(items, theirs, comparable) {
    const known = new Set(theirs.map((item) => item.textContent.trim().toLowerCase()));
    const isNew = (item) => !known.has(item.textContent.trim().toLowerCase());
    const compare = comparable ?? items.some((item) => !isNew(item));
    for (const item of items) item.classList.toggle("new", compare && isNew(item));
  }

  const LACKING = 10; // so many words of the baseline's queries are named that a query lacks
  const queriesOf = (side) => all(".final, .subqueries .said", side).map((element) => element.textContent).join(" ");

  function markSides(turn) {
    const base = turn.sides[baseline()], theirs = wordsIn(queriesOf(base));
    turn.sides.forEach((side, run) => {
      const own = run === baseline();
      for (const kind of [".rewrite", ".final"]) {
        for (const element of all(kind, side)) markWords(element, own ? null : one(kind, base));
      }
      const query = one(".final", side), ours = new Set(stemsIn(queriesOf(side)));
      const lacking = own || !ours.size ? [] : theirs.filter((word) => !COMMON.has(word) && !ours.has(stem(word)));
      if (lacking.length) query?.setAttribute("data-lacks", [...new Set(lacking)].slice(0, LACKING).join(", "));
      else query?.removeAttribute("data-lacks");
      markItems(all(".statements .said", side), own ? [] : all(".statements .said", base), !own && Boolean(one(".statements, .none", base)));
      markItems(all(".subqueries .said", side), own ? [] : all(".subqueries .said", base), own ? false : undefined);
    });
  }

  // Which passages the shown runs have; a rank is marked where one of several has the passage that high.
  function markPassages(turn) {
    if (!turn.packed) return;
    const rows = rowsOf(turn), told = [`${rows.length} ${rows.length === 1 ? "passage" : "passages"}`];
    if (turn.packed.includes('class="label"') || turn.packed.includes('class="un"')) {
      told.push(`${rows.filter((row) => /<b class="g[1-4]"/.test(row)).length} relevant`);
      told.push(`${rows.filter((row) => row.includes('<td class="un"')).length} not judged`);
    }
    one(".passages > summary", turn.element).textContent = told.join(", ");
    if (!turn.unpacked) return;
    for (const row of all(".passages tbody tr", turn.element)) {
      const having = row.dataset.in.split(" ").map(Number).filter(isShown);
      row.hidden = !having.length;
      names.forEach((_, run) => row.cells[run + 1].classList.toggle("only", shownRuns().length > 1 && having.length === 1 && having[0] === run));
    }
    orderPassages(turn);
    markQueries(turn);
  }

  const [asked, rare] = ["asked", "rare"].map((name) => {
    const marks = "highlights" in CSS ? new Highlight() : null;
    if (marks) CSS.highlights.set(name, marks);
    return marks;
  });

  // The words of the queries of the baseline and of the run compared with it are underlined in the passages; those that at most a quarter
  // of the turn's passages have, more strongly.
  function markQueries(turn) {
    if (!asked) return;
    for (const range of turn.asked ?? []) for (const marks of [asked, rare]) marks.delete(range);
    const wanted = new Set([baseline(), compared()].flatMap((run) => stemsIn(queriesOf(turn.sides[run]))));
    const rows = all(".passages tbody td:last-child", turn.element), having = new Map();
    for (const row of rows) for (const word of new Set(stemsIn(row.textContent))) having.set(word, (having.get(word) ?? 0) + 1);
    turn.asked = wanted.size ? rows.flatMap((row) => [...row.children]).flatMap((cell) => ranges(cell, (data) => (
      [...data.matchAll(/[\p{L}\p{N}]+/gu)].filter((found) => wanted.has(stem(found[0].toLowerCase()))).map((found) => [found.index, found[0].length])
    ))) : [];
    for (const range of turn.asked) {
      const word = stem(range.startContainer.data.slice(range.startOffset, range.endOffset).toLowerCase());
      (rows.length > 3 && having.get(word) <= rows.length / 4 ? rare : asked).add(range);
    }
  }

  // The passages stand as the compared run ranks them; those that it lacks follow.
  function orderPassages(turn) {
    const rank = (row) => parseInt(row.cells[compared() + 1].textContent, 10) || Infinity, place = (row) => Number(row.cells[0].textContent);
    const rows = all(".passages tbody tr", turn.element).sort((a, b) => (rank(a) === rank(b) ? place(a) - place(b) : rank(a) - rank(b)));
    one(".passages tbody", turn.element).append(...rows);
  }

  // What differs from the baseline, after another choice: of a turn once it comes near the view, because all of them would take seconds.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((other) => other.isIntersecting)) {
      const turn = turnOf(entry.target);
      near.unobserve(entry.target);
      markSides(turn);
      markPassages(turn);
    }
  }, { rootMargin: "100%" });

  function mark() {
    for (const turn of turns) {
      near.unobserve(turn.element);
      near.observe(turn.element);
    }
    explain();
  }
