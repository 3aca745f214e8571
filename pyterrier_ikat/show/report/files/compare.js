  // What differs from the baseline.

  const SAME = 0.00005; // scores that differ by less read alike
  const sideOf = (change) => (Math.abs(change) < SAME ? "tie" : change > 0 ? "win" : "loss");

  // As Python rounds, so that every table of a run shows the same digits: a tie goes to the even one.
  function fixed(number, digits) {
    const exact = number.toFixed(60), end = exact.length - 60 + digits;
    return /^50*$/.test(exact.slice(end)) && Number(exact[end - 1]) % 2 === 0 ? exact.slice(0, end) : number.toFixed(digits);
  }

  function add(parent, name, content, kind) {
    const made = document.createElement(name);
    made.textContent = content;
    if (kind) made.className = kind;
    parent.append(made);
    return made;
  }

  // Scores in their cells: bold where the best of the shown runs, with the difference from the baseline's.
  function score(cells, values, digits, among = isShown) {
    const seen = values.filter((_, run) => among(run)), top = Math.max(...seen), differ = top - Math.min(...seen) >= SAME;
    values.forEach((one, run) => {
      const change = one - values[baseline()], side = sideOf(change);
      cells[run].textContent = "";
      add(cells[run], differ && top - one < SAME ? "b" : "span", fixed(one, digits));
      if (run === baseline() || side === "tie") return;
      cells[run].append(" ");
      add(cells[run], "span", `${change > 0 ? "+" : "−"}${fixed(Math.abs(change), digits)}`, side);
    });
  }

  function table(element, rows, digits, among) {
    const cells = all("tbody tr", element).map((row) => [...row.cells].slice(1));
    rows[0].forEach((_, column) => score(cells.map((row) => row[column]), rows.map((row) => row[column]), digits, among));
  }

  const wordsIn = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

  function markWords(element, theirs) {
    const known = theirs && new Set(wordsIn(theirs.textContent)), text = element.textContent;
    element.textContent = text;
    if (!known) return;
    element.textContent = "";
    for (const piece of text.split(/(\s+)/)) {
      const last = element.lastChild, isNew = wordsIn(piece).some((word) => !known.has(word));
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

  function markSides(turn) {
    const base = turn.sides[baseline()];
    turn.sides.forEach((side, run) => {
      const own = run === baseline();
      for (const kind of [".rewrite", ".final"]) {
        for (const element of all(kind, side)) markWords(element, own ? null : one(kind, base));
      }
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
    markQueries(turn);
  }

  const COMMON = new Set(("a about all an and any are as at be been but by can could did do does for from had has have he her his how i if "
    + "in is it its me my no not of on or our she should so some such than that the their them there these they this to too was we were "
    + "what when where which who why will with would you your").split(" "));
  const asked = "highlights" in CSS ? new Highlight() : null;
  if (asked) CSS.highlights.set("asked", asked);
  const stem = (word) => (word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word);

  // The words of the queries of the baseline and of the run compared with it, singular or plural, are underlined in the passages.
  function markQueries(turn) {
    if (!asked) return;
    for (const range of turn.asked ?? []) asked.delete(range);
    const texts = [baseline(), compared()].map((run) => turn.sides[run]).flatMap((side) => all(".final, .subqueries .said", side));
    const wanted = new Set(texts.flatMap((element) => wordsIn(element.textContent)).filter((word) => !COMMON.has(word)).map(stem));
    turn.asked = wanted.size ? all(".passages tbody td:last-child > *", turn.element).flatMap((cell) => ranges(cell, (data) => (
      [...data.matchAll(/[\p{L}\p{N}]+/gu)].filter((found) => wanted.has(stem(found[0].toLowerCase()))).map((found) => [found.index, found[0].length])
    ))) : [];
    for (const range of turn.asked) asked.add(range);
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
