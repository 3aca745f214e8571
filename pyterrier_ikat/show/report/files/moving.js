  // The address, which keeps what was chosen, keys and the first show.

  const CHOSEN = ["baseline", "run", "measure", "order"];
  const isDefault = (select) => [...select.options].every((option, place) => option.selected === (option.defaultSelected
    || (place === 0 && ![...select.options].some((other) => other.defaultSelected))));

  function keep() {
    const state = new URLSearchParams();
    for (const name of ["search", ...FILTERS]) if (value(name)) state.set(name, value(name));
    for (const name of CHOSEN) if (field[name] && !isDefault(field[name])) state.set(name, field[name].value);
    if (boxes.some((box) => box.checked !== box.defaultChecked)) state.set("shown", shownRuns().join("."));
    if (!framed) history.replaceState(null, "", `#${state}`);
  }

  function restore() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) return show(hash);
    form.reset();
    for (const [name, set] of new URLSearchParams(hash)) {
      if (name === "shown") for (const box of boxes) box.checked = set.split(".").includes(box.value);
      else if (field[name]) field[name].value = set;
    }
    return update();
  }

  function update() {
    compare();
    filter();
  }

  function show(id) {
    unpack(turns.find((turn) => turn.element.id === id.replace(/^p(\d+)-.*/, "t$1")));
    const target = document.getElementById(id);
    if (!target) return;
    one(".target")?.classList.remove("target");
    target.classList.add("target");
    opened(target);
    const turn = turns.find((other) => other.element === target.closest(".turn"));
    if (turn?.element.hidden || (!turn && value("order") && target.closest(".conversation"))) {
      form.reset();
      update();
    }
    if (turn) reach(turn.place, target === turn.element);
    target.scrollIntoView();
  }

  function reach(place, focus) {
    if (turns[here]) turns[here].chip.classList.remove("here");
    here = place;
    turns[here].chip.classList.add("here");
    turns[here].chip.scrollIntoView({ block: "nearest" });
    if (!focus) return;
    turns[here].element.focus({ preventScroll: true });
    turns[here].element.scrollIntoView();
  }

  function atTop() {
    const box = turns[here]?.element.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return order.indexOf(turns[here]);
    const below = order.findIndex((turn) => !turn.element.hidden && turn.element.getBoundingClientRect().bottom > form.offsetHeight + 20);
    return below === 0 || scrollY < 200 ? -1 : below;
  }

  function step(by) {
    for (let place = atTop() + by; place >= 0 && place < order.length; place += by) {
      if (!order[place].element.hidden) return reach(order[place].place, true);
    }
    return undefined;
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    o: () => {
      const lists = turns[here] ? all(".passages, .how", turns[here].element) : [], open = !lists[0]?.open;
      for (const list of lists) list.open = open;
    },
    "/": () => {
      one("#filters > details").open = true;
      field.search.focus();
    },
    "?": () => help.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea"), menu = event.target.closest(".menu[open]");
    if (event.key === "Enter" && event.target === field.search) return nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape" && menu) {
      menu.open = false;
      return one("summary", menu).focus();
    }
    if (event.key === "Escape" && typing) return typing.blur();
    if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return undefined;
    event.preventDefault();
    return keys[event.key]();
  });
  document.addEventListener("focusin", (event) => {
    const turn = event.target.closest(".turn");
    if (turn && turn !== turns[here]?.element) reach(turns.findIndex((other) => other.element === turn), false);
  });
  document.addEventListener("toggle", (event) => { // it doesn't bubble
    if (event.target.matches(".passages, .how")) unpack(turnOf(event.target));
    if (event.target.matches(".calls") && event.target.open) showCalls(event.target);
  }, true);
  document.addEventListener("click", (event) => {
    for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    if (!framed) history.pushState(null, "", link.hash);
    show(link.getAttribute("href").slice(1));
  });

  let waiting;
  form.addEventListener("input", (event) => {
    if (event.target.name === "order") arrange();
    else if ([...CHOSEN, "shown"].includes(event.target.name)) compare();
    clearTimeout(waiting);
    waiting = setTimeout(() => { filter(); keep(); }, 120);
  });
  form.addEventListener("reset", () => setTimeout(() => { update(); keep(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [id, wanted] of [["#show-all", () => true], ["#show-two", (run) => run === baseline() || run === compared()]]) {
    one(id)?.addEventListener("click", () => {
      boxes.forEach((box, run) => { box.checked = wanted(run); });
      update();
      keep();
    });
  }
  one("#keys").addEventListener("click", keys["?"]);
  one("#close").addEventListener("click", () => help.close());
  window.addEventListener("hashchange", restore);

  form.hidden = false;
  if (one("#legend")) one("#legend").hidden = false;
  if (matchMedia("(max-width: 860px)").matches) for (const box of all("#filters > details")) box.open = false;
  const bar = () => document.documentElement.style.setProperty("--bar", getComputedStyle(form).position === "sticky" ? `${form.offsetHeight + 12}px` : "1rem");
  new ResizeObserver(bar).observe(form);
  update();
  if (location.hash) restore();
})();
