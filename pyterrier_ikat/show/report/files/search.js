  // Search and filters.

  function measured(turn) {
    const least = number("least", -Infinity), most = number("most", Infinity), outcome = value("outcome");
    if (least === -Infinity && most === Infinity && !outcome) return true;
    if (!turn.judged) return false;
    const reached = turn.scores[compared()][measure()], inRange = (reached >= least && reached <= most) || (least === -Infinity && most === Infinity);
    return inRange && (!outcome || (outcome === "differ" ? spread(turn) >= SAME : outcome === sideOf(gain(turn))));
  }

  function fits(turn, words) {
    return (!value("conversation") || turn.conversation === value("conversation"))
      && turn.depth >= number("first", 0) && turn.depth <= number("last", Infinity)
      && (!value("end") || turn.ends[compared()] === value("end"))
      && (!value("needs") || (turn.needs ?? "?") === value("needs"))
      && (!value("bars") || isBrushed(turn))
      && measured(turn) && words.every((word) => text(turn).includes(word));
  }

  const sought = () => value("search").toLowerCase().split(/\s+/).filter(Boolean);
  const FILTERS = ["conversation", "first", "last", "least", "most", "outcome", "needs", "end", "bars"], UNIT = form.dataset.unit;

  function filter() {
    const words = sought();
    for (const turn of turns) {
      const out = !fits(turn, words);
      turn.element.hidden = out;
      turn.chip.classList.toggle("out", out);
    }
    for (const section of all(".conversation")) section.hidden = !one(".turn:not([hidden])", section);
    const left = turns.filter((turn) => !turn.element.hidden).length, filters = FILTERS.filter((name) => value(name)).length;
    const whose = words.length ? `No ${UNIT} has ${words.map((word) => `“${word}”`).join(" and ")}` : `No ${UNIT} fits the filter`;
    one("#none").textContent = `${whose}${words.length && filters ? " and fits the filter" : ""}. Reset shows all ${UNIT}s.`;
    one("#none").hidden = left > 0;
    one("#filtering").textContent = filters ? `(${filters})` : "";
    hit = { turn: null, place: -1 };
    count.textContent = `${left} of ${turns.length} ${UNIT}s`;
    showChosen();
    highlight(words);
  }

  // what was searched for is marked, and opened where it can't be seen, in the first turns shown: all of them would take too long
  function highlight(words) {
    if (!("highlights" in CSS)) return;
    const found = [];
    for (const turn of words.length ? order.filter((one) => !one.element.hidden).slice(0, 20) : []) {
      const inTurn = hits(turn, words);
      if (inTurn.length && !inTurn.some((range) => !range.startContainer.parentElement.closest("details:not([open])"))) opened(inTurn[0].startContainer);
      found.push(...inTurn);
    }
    CSS.highlights.set("found", new Highlight(...found));
    CSS.highlights.delete("hit");
  }

  function hits(turn, words) {
    unpack(turn);
    const hidden = (range) => range.startContainer.parentElement.closest("[hidden], .notes")
      || shown(range.startContainer.parentElement) === false;
    return ranges(turn.element, (data) => {
      const lower = data.toLowerCase(), found = [];
      for (const word of words) {
        for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
          if (at + word.length > data.length) break; // lower case may be longer than the text
          found.push([at, word.length]);
        }
      }
      return found.sort((a, b) => a[0] - b[0]);
    }).filter((range) => !hidden(range));
  }

  // Whether the run that an element belongs to is shown; undefined for what belongs to none.
  function shown(element) {
    const side = element.closest(".side, .run, .tag");
    const run = side && [...side.classList].find((name) => /^n\d+$/.test(name));
    return run ? isShown(Number(run.slice(1))) : undefined;
  }

  let hit = { turn: null, place: -1 };

  function nextHit(by) {
    const words = sought(), left = order.filter((turn) => !turn.element.hidden);
    if (!words.length) { count.textContent = "Type a word to search for"; return; }
    if (!left.length) return; // #none says so
    let place = left.indexOf(hit.turn), at = hit.place + by, found = place < 0 ? [] : hits(hit.turn, words);
    for (let tries = 0; !found[at] && tries <= left.length; tries += 1) {
      place = place < 0 && by < 0 ? left.length - 1 : (place + by + left.length) % left.length;
      found = hits(left[place], words);
      at = by > 0 ? 0 : found.length - 1;
    }
    if (!found[at]) return;
    hit = { turn: left[place], place: at };
    opened(found[at].startContainer);
    found[at].startContainer.parentElement.scrollIntoView({ block: "center" });
    if ("highlights" in CSS) {
      CSS.highlights.set("found", new Highlight(...found));
      CSS.highlights.set("hit", new Highlight(found[at]));
    }
    reach(turns.indexOf(hit.turn), false);
    count.textContent = `hit ${at + 1} of ${found.length} in ${hit.turn.name}`;
  }

  function opened(node) {
    for (let box = node.parentElement.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  }
