  // Why a run is better, and its LLM calls: both are compressed.

  async function explain() {
    const pair = pairOf();
    const explained = turns.filter((one) => one.reason);
    if (!explained.length) return;
    const { reasons } = await data();
    for (const turn of explained) {
      const told = pair < 0 ? null : reasons[turn.place][measure()]?.[pair]; // a page of many runs explains its first measures
      turn.reason.hidden = !told;
      if (told) turn.reason.textContent = told;
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
      made.open = true; // one click shows all prompts
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
