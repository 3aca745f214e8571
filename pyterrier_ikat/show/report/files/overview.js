  // What the compared run wins and loses against the baseline: a histogram, and the means of groups.

  const HALF = 10; // bars on each side of that of the ties
  const bars = all("#bars button"), overview = bars.length ? one("#overview") : null, outcomeButtons = all("#outcomes button");
  const scored = () => turns.filter((turn) => turn.judged && isKnown(gain(turn)));
  let width = 0.1;

  // The number of the pair of the chosen runs, as itertools.combinations counts; -1 for a run and itself.
  function pairOf() {
    const [low, high] = [baseline(), compared()].sort((a, b) => a - b);
    return low === high ? -1 : low * names.length - (low * (low + 1)) / 2 + high - low - 1;
  }

  // The bar of a turn: 0 of a tie, 1 of the smallest gains, -1 of the smallest losses.
  function barOf(turn) {
    const change = gain(turn);
    return sideOf(change) === "tie" ? 0 : Math.sign(change) * Math.min(HALF, Math.max(1, Math.ceil(Math.abs(change) / width - 1e-6)));
  }

  const brushed = () => (value("bars") ? value("bars").split(":").map(Number) : [Infinity, -Infinity]);

  function isBrushed(turn) {
    const [from, to] = brushed();
    return turn.judged && isKnown(gain(turn)) && barOf(turn) >= from && barOf(turn) <= to;
  }

  function showOverview() {
    if (!overview) return;
    const found = scored(), largest = Math.max(...found.map((turn) => Math.abs(gain(turn))), 0), digits = of(chosen(), "digits", 4);
    const unit = largest > SAME ? 10 ** Math.floor(Math.log10(largest) + 1e-9) : 1, end = Math.max(Math.ceil(largest / unit - 1e-9), 1) * unit;
    width = end / HALF;
    showBars(found, digits);
    const [start, , stop] = all(".axis span", overview), better = of(chosen(), "better", 1);
    start.textContent = `${better > 0 ? "−" : "+"}${formatted(end, digits, better)}`;
    stop.textContent = `${better > 0 ? "+" : "−"}${formatted(end, digits, better)}`;
    showGroups(found);
    showChosen();
  }

  function showBars(found, digits) {
    const counts = bars.map((_, place) => found.filter((turn) => barOf(turn) === place - HALF).length), most = Math.max(...counts, 1);
    bars.forEach((bar, place) => {
      const number = place - HALF, [near, far] = [Math.abs(number) - 1, Math.abs(number)].map((edge) => formatted(edge * width, digits, of(chosen(), "better", 1)));
      bar.firstChild.className = number < 0 ? "lose" : number > 0 ? "gain" : "";
      bar.firstChild.style.height = counts[place] ? `${Math.max((counts[place] / most) * 100, 3)}%` : "0";
      const where = number ? `${number > 0 ? "better" : "worse"} by ${near} to ${far}` : "without a difference";
      bar.title = `${counts[place]} ${counts[place] === 1 ? UNIT : `${UNIT}s`} ${where}`;
      bar.setAttribute("aria-label", bar.title);
    });
    outcomes(compared()).forEach((number, place) => { one("b", outcomeButtons[place]).textContent = number; });
  }

  // The group of a turn, as the filter has it.
  const groupOf = (turn) => String(turn[one("#by").value] ?? "?");

  const groupName = (group) => (one("#by").value === "depth" ? group : one(`[name="${one("#by").value}"] option[value="${group}"]`).textContent);

  // The group that filters the turns; empty where none does.
  function chosenGroup() {
    const by = one("#by").value;
    return by === "depth" ? (value("first") === value("last") ? value("first") : "") : value(by);
  }

  function chooseGroup(group) {
    const by = one("#by").value, next = chosenGroup() === group ? "" : group;
    if (by === "depth") field.first.value = next;
    set(by === "depth" ? "last" : by, next);
  }

  function showGroups(found) {
    const groups = new Map(), body = one("#groups tbody"), digits = Math.max(of(chosen(), "digits", 4), 1), better = of(chosen(), "better", 1);
    for (const turn of found) groups.set(groupOf(turn), [...(groups.get(groupOf(turn)) ?? []), turn]);
    const rows = [...groups].sort(([a], [b]) => (one("#by").value === "depth" ? a - b : 0));
    body.textContent = "";
    for (const [group, members] of rows) {
      const row = add(body, "tr", ""), mean = (run) => members.reduce((sum, turn) => sum + turn.scores[run][measure()], 0) / members.length;
      const [ours, theirs] = [mean(compared()), mean(baseline())];
      const title = add(row, "th", "");
      title.scope = "row";
      add(title, "button", groupName(group)).type = "button";
      title.firstChild.value = group;
      add(row, "td", members.length);
      for (const one of [theirs, ours]) add(row, "td", formatted(one, digits, better));
      const change = formatted(Math.abs(ours - theirs), digits, better);
      add(row, "td", Number(change) ? `${ours < theirs ? "−" : "+"}${change}` : change, "quiet");
    }
    showChosen();
  }

  // Which bars, which outcome, and which group filter the turns.
  function showChosen() {
    const [from, to] = brushed();
    bars.forEach((bar, place) => bar.setAttribute("aria-pressed", place - HALF >= from && place - HALF <= to));
    overview?.classList.toggle("brushed", Boolean(value("bars")));
    const pressed = [[outcomeButtons, value("outcome")], [all("#groups button"), overview && chosenGroup()]];
    for (const [buttons, wanted] of pressed) for (const button of buttons) button.setAttribute("aria-pressed", button.value === wanted);
  }

  function set(name, text) {
    field[name].value = text;
    field[name].dispatchEvent(new Event("input", { bubbles: true }));
    showChosen();
  }

  let anchor = null;
  function brush(from, to) {
    set("bars", `${Math.min(from, to)}:${Math.max(from, to)}`);
  }

  function focusBar(place) {
    bars.forEach((bar, other) => { bar.tabIndex = other === place ? 0 : -1; });
    bars[place].focus();
  }

  if (overview) {
    for (const box of all(".box", overview)) box.hidden = false;
    bars.forEach((bar, place) => {
      const number = place - HALF;
      bar.tabIndex = number ? -1 : 0;
      bar.addEventListener("pointerdown", () => { anchor = { number, was: value("bars") }; });
      bar.addEventListener("pointerenter", () => { if (anchor && anchor.number !== number) brush(anchor.number, number); });
      bar.addEventListener("click", () => { // also by keyboard
        if (value("bars") === `${number}:${number}`) set("bars", "");
        else brush(number, number);
        anchor = null;
      });
      bar.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = Math.min(Math.max(place + by, 0), bars.length - 1);
        if (event.key === "Escape") set("bars", "");
        if (!by) return;
        event.preventDefault();
        const [from, to] = brushed(), other = from > to ? number : from === number ? to : from;
        if (event.shiftKey) brush(other, next - HALF);
        focusBar(next);
      });
    });
    one("#bars").addEventListener("dragstart", (event) => event.preventDefault());
    document.addEventListener("pointerup", () => { anchor = null; });
    for (const [name, buttons] of [["outcome", outcomeButtons]]) {
      for (const button of buttons) button.addEventListener("click", () => set(name, value(name) === button.value ? "" : button.value));
    }
    one("#groups tbody").addEventListener("click", (event) => chooseGroup(one("button", event.target.closest("tr")).value));
    one("#by").addEventListener("change", () => showGroups(scored()));
  }
