"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- What the page knows at once: names, measures and scores. The rest is unpacked below. ---

  const overview = JSON.parse(find("#overview").textContent);
  const { names, measures } = overview;
  const form = find("#filters");
  const fields = form.elements;
  const turns = findAll(".turn").map((element, number) => ({
    element,
    number,
    home: element.parentElement,
    scores: overview.scores[number],
    sides: [], // the drawn parts of the systems
  }));

  const value = (name) => fields[name]?.value ?? "";
  const run = () => Number(value("run"));
  const measureNumber = () => Number(value("measure"));
  const measure = () => measures[measureNumber()];

  const SAME = 1e-9; // scores that differ by less are a tie, as in all tables

  function score(turn, system) {
    return turn.scores?.[system][measureNumber()] ?? NaN;
  }

  function difference(turn) {
    return score(turn, run()) - score(turn, 0);
  }

  // By how much the compared system is better than the baseline.
  function gain(turn) {
    return difference(turn) * measure().better;
  }

  function outcome(turn) {
    if (!measures.length || Number.isNaN(gain(turn))) return "";
    if (Math.abs(gain(turn)) < SAME) return "tie";
    return gain(turn) > 0 ? "win" : "loss";
  }

  // A score as in the tables: a share has no zero before the point.
  function scoreText(number) {
    if (Number.isNaN(number)) return "–";
    const text = number.toFixed(measure().digits);
    return measure().share ? text.replace(/^(-?)0\./, "$1.") : text;
  }

  function signedText(number) {
    if (Number.isNaN(number)) return "";
    const text = scoreText(Math.abs(number));
    if (!/[1-9]/.test(text)) return text; // zero has no sign
    return (number > 0 ? "+" : "−") + text;
  }

  // --- Elements. All texts get into the page here, by textContent. ---

  function make(tag, attributes = {}, children = []) {
    const element = document.createElement(tag);
    for (const [name, content] of Object.entries(attributes)) {
      if (name === "text") element.textContent = content;
      else if (content === true) element.setAttribute(name, "");
      else if (content !== false && content !== undefined) element.setAttribute(name, content);
    }
    element.append(...children.filter(Boolean));
    return element;
  }

  const space = () => document.createTextNode(" ");

  function counted(number, noun) {
    return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  }

  function box(kind, title, children) {
    return make("details", { class: kind }, [make("summary", { text: title }), ...children]);
  }

  function list(texts) {
    const items = texts.map((text) => make("li", { dir: "auto", text }));
    return make("ul", {}, items);
  }

  // --- The turns: JSON, packed by gzip, as a text of base64. ---

  let unpacked; // {passages, texts, turns}

  function packedBytes() {
    const text = atob(JSON.parse(find("#turns").textContent));
    const bytes = new Uint8Array(text.length);
    for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
    return bytes;
  }

  async function unpack() {
    const bytes = packedBytes();
    if (typeof DecompressionStream === "undefined") {
      unpackNow();
      return;
    }
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const text = await new Response(stream).text();
    unpacked ??= JSON.parse(text);
  }

  // For browsers without DecompressionStream, and for a page that is printed before it has ended.
  function unpackNow() {
    unpacked ??= JSON.parse(new TextDecoder().decode(inflate(packedBytes())));
  }

  // The bytes of a gzip member without a name: RFC 1952 around RFC 1951.
  function inflate(bytes) {
    const size = new DataView(bytes.buffer).getUint32(bytes.length - 4, true);
    const out = new Uint8Array(size);
    let end = 0; // of what is written
    let next = 10; // the first byte after the header
    let bits = 0;
    let known = 0; // how many bits are in `bits`

    function take(count) {
      while (known < count) {
        bits |= bytes[next] << known;
        next += 1;
        known += 8;
      }
      const number = bits & ((1 << count) - 1);
      bits >>>= count;
      known -= count;
      return number;
    }

    // A canonical code: how many symbols have each length, and the symbols in order.
    function codeOf(lengths) {
      const counts = new Array(16).fill(0);
      const symbols = [];
      for (let length = 1; length < 16; length += 1) {
        lengths.forEach((ofSymbol, symbol) => {
          if (ofSymbol !== length) return;
          counts[length] += 1;
          symbols.push(symbol);
        });
      }
      return { counts, symbols };
    }

    function read({ counts, symbols }) {
      let code = 0;
      let first = 0; // the first code of this length
      let before = 0; // how many symbols are shorter
      for (let length = 1; length < 16; length += 1) {
        code += take(1);
        if (code - first < counts[length]) return symbols[before + code - first];
        before += counts[length];
        first = (first + counts[length]) * 2;
        code *= 2;
      }
      throw new Error("no such code");
    }

    // Numbers in steps that grow: of lengths every 4 symbols, of distances every 2.
    function grown(symbol, every, start) {
      if (symbol < 2 * every) return start + symbol;
      const extra = Math.floor(symbol / every) - 1;
      return start + ((every + (symbol % every)) << extra) + take(extra);
    }

    function readBlock(literals, distances) {
      for (;;) {
        const symbol = read(literals);
        if (symbol === 256) return;
        if (symbol < 256) {
          out[end] = symbol;
          end += 1;
          continue;
        }
        const length = symbol === 285 ? 258 : grown(symbol - 257, 4, 3);
        const distance = grown(read(distances), 2, 1);
        for (const stop = end + length; end < stop; end += 1) out[end] = out[end - distance];
      }
    }

    function copyStored() {
      next -= known >> 3; // whole bytes that were read too early
      bits = 0;
      known = 0;
      const length = bytes[next] + bytes[next + 1] * 256;
      out.set(bytes.subarray(next + 4, next + 4 + length), end);
      next += 4 + length;
      end += length;
    }

    function ownCodes() {
      const literals = take(5) + 257;
      const distances = take(5) + 1;
      const ofLengths = new Array(19).fill(0);
      const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
      const count = take(4) + 4;
      for (const symbol of ORDER.slice(0, count)) ofLengths[symbol] = take(3);
      const code = codeOf(ofLengths);
      const lengths = [];
      while (lengths.length < literals + distances) {
        const symbol = read(code);
        let repeats = 1;
        let length = symbol;
        if (symbol === 16) {
          length = lengths.at(-1);
          repeats = take(2) + 3;
        } else if (symbol > 16) {
          length = 0;
          repeats = symbol === 17 ? take(3) + 3 : take(7) + 11;
        }
        for (; repeats > 0; repeats -= 1) lengths.push(length);
      }
      return [codeOf(lengths.slice(0, literals)), codeOf(lengths.slice(literals))];
    }

    function fixedCodes() {
      const lengths = new Array(288).fill(8);
      lengths.fill(9, 144, 256).fill(7, 256, 280);
      return [codeOf(lengths), codeOf(new Array(30).fill(5))];
    }

    let last = 0;
    while (!last) {
      last = take(1);
      const kind = take(2);
      if (kind === 0) copyStored();
      else readBlock(...(kind === 1 ? fixedCodes() : ownCodes()));
    }
    return out;
  }

  // --- A turn, which is drawn when it is opened. ---

  function drawTurn(turn) {
    if (!unpacked) return;
    if (turn.drawn !== run()) drawBody(turn);
    const reason = find(".reason", turn.element);
    if (!reason) return;
    reason.textContent = reasonOf(turn);
    reason.hidden = !reason.textContent;
  }

  function drawBody(turn) {
    turn.drawn = run();
    const record = unpacked.turns[turn.number];
    const systems = run() ? [0, run()] : [0];
    const sides = systems.map((system) => drawnSide(turn, record, system));
    const body = make("div", { class: "body" }, [
      record.reasons && make("p", { class: "reason" }),
      record.rubrics && rubricsTable(turn, record, systems),
      make("div", { class: "sides" }, sides),
      record.missed && box("missed", "Relevant passages that no system shows", [list(record.missed)]),
      record.references && box("reference", "Rewrite and answer of the data", referencesOf(record)),
      make("p", { class: "quiet" }, [
        make("a", { href: `#${turn.element.id}`, text: `Link to ${record.name}` }),
      ]),
    ]);
    find(".body", turn.element)?.remove();
    turn.element.append(body);
    showOtherRanks(turn);
  }

  function reasonOf(turn) {
    return unpacked.turns[turn.number].reasons?.[run()]?.[measureNumber()] ?? "";
  }

  function referencesOf(record) {
    return record.references.flatMap(([label, text]) => [
      make("h5", { text: label }),
      make("p", { dir: "auto", text }),
    ]);
  }

  function rubricsTable(turn, record, systems) {
    const titles = ["rubric", ...systems.map((system) => names[system])];
    const head = titles.map((text) => make("th", { scope: "col", text }));
    const rows = record.rubrics.map(([name, question, met]) => {
      const cells = systems.map((system) => {
        let text = "not met";
        if (met[system]) text = `turn ${met[system]}`;
        else if (!record.sides[system]) text = "no session";
        return make("td", { text });
      });
      const title = make("th", { scope: "row", dir: "auto", text: `${name}: ${question}` });
      return make("tr", {}, [title, ...cells]);
    });
    const table = make("table", { class: "rubrics" }, [
      make("thead", {}, [make("tr", {}, head)]),
      make("tbody", {}, rows),
    ]);
    const label = `Rubrics of ${record.name}`;
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, [table]);
  }

  // A system's part stays as its reader left it, whatever the baseline is compared with.
  function drawnSide(turn, record, system) {
    turn.sides[system] ??= sideOf(turn, record, system);
    return turn.sides[system].element;
  }

  function sideOf(turn, record, system) {
    const side = record.sides[system];
    const otherRanks = []; // [element, the ranks in other systems], filled by showOtherRanks
    const children = [sideTitle(system)];
    const kinds = ["side", system === 0 ? "base" : "other"];
    if (names.length === 1) kinds.push("alone");
    if (!side) {
      children.push(make("p", { class: "quiet", text: "no conversation with this user" }));
    } else {
      if (side.end) {
        kinds.push("session");
        const facts = make("span", { text: side.facts });
        const end = make("b", { text: side.end });
        children.push(make("p", { class: "ended" }, [end, space(), facts]));
      }
      const known = system === 0 ? undefined : wordsOf(record.sides[0]);
      side.steps.forEach((step, place) => {
        const id = `p${turn.number + 1}-${system}-${place + 1}`;
        children.push(stepText(step, id, known));
        children.push(stepFindings(step, id, otherRanks));
      });
    }
    return { element: make("section", { class: kinds.join(" ") }, children), otherRanks };
  }

  function sideTitle(system) {
    const title = make("h4", {}, [make("span", { text: names[system] })]);
    if (names.length === 1) title.className = "sr";
    else if (system === 0) title.append(space(), make("span", { class: "quiet", text: "baseline" }));
    return title;
  }

  const WORDS = /[\p{L}\p{M}\p{N}_]+/gu;

  // The words of the baseline's queries; undefined if it has none.
  function wordsOf(side) {
    const texts = [];
    for (const step of side?.steps ?? []) {
      for (const note of step.notes ?? []) if (note.kind === "query") texts.push(...note.texts);
    }
    const words = texts.join(" ").toLowerCase().match(WORDS);
    return words ? new Set(words) : undefined;
  }

  function stepText(step, id, known) {
    const children = [];
    if (step.title) {
      const facts = make("span", { class: "quiet", text: step.facts });
      children.push(make("h5", {}, [make("span", { text: step.title }), space(), facts]));
      children.push(make("p", { class: "utterance", dir: "auto", text: step.utterance }));
    }
    for (const note of step.notes ?? []) children.push(...noteElements(note, known));
    if (step.response) {
      if (!step.title) children.push(make("h5", { text: "Response" }));
      children.push(make("p", { class: "answer", dir: "auto", text: step.response }));
    }
    if (step.cited) {
      const links = step.cited.flatMap((rank) => [
        make("a", { href: `#${id}-${rank}`, text: `[${rank}]` }),
        space(),
      ]);
      const basis = make("span", { text: step.basis });
      children.push(make("p", { class: "quiet cited" }, [basis, space(), ...links]));
    }
    for (const text of step.remarks ?? []) {
      children.push(make("p", { class: "quiet remark", text }));
    }
    return make("div", {}, children);
  }

  function noteElements(note, known) {
    if (note.folded) return [box("", note.label, [list(note.texts)])];
    const marked = note.kind === "query" ? known : undefined;
    const texts = note.texts.map((text) => markedText(text, note.kind, marked));
    return [make("h5", { text: note.label }), ...texts];
  }

  // A text with marks around the words that the baseline's queries lack.
  function markedText(text, kind, known) {
    if (!known) return make("p", { dir: "auto", class: kind, text });
    const paragraph = make("p", { dir: "auto", class: kind });
    let end = 0;
    for (const { 0: word, index } of text.matchAll(WORDS)) {
      if (known.has(word.toLowerCase())) continue;
      if (index > end) paragraph.append(make("span", { text: text.slice(end, index) }));
      paragraph.append(make("mark", { text: word }));
      end = index + word.length;
    }
    paragraph.append(make("span", { text: text.slice(end) }));
    return paragraph;
  }

  function stepFindings(step, id, otherRanks) {
    const children = [];
    if (step.passages) {
      let title = step.found;
      if (overview.labelled) {
        const judged = step.passages.filter((passage) => passage.label !== undefined);
        const relevant = judged.filter((passage) => passage.label > 0);
        const unjudged = step.passages.length - judged.length;
        title += `, ${relevant.length} relevant, ${unjudged} not judged`;
      }
      const items = step.passages.map((passage) => passageItem(passage, id, otherRanks));
      children.push(box("passages", title, [make("ol", {}, items)]));
    }
    if (step.calls) {
      const title = counted(step.calls.length, "LLM call");
      children.push(box("calls", title, step.calls.flatMap(callElements)));
    }
    return make("div", {}, children);
  }

  function passageItem(passage, id, otherRanks) {
    const [docno, beginning, rest] = unpacked.passages[passage.text];
    const children = [make("b", { class: "rank", text: passage.rank })];
    if (passage.label !== undefined) {
      const grade = Math.min(Math.max(passage.label, 0), 4);
      children.push(make("b", { class: `label g${grade}`, text: passage.label }));
    } else if (overview.labelled) {
      children.push(make("span", { class: "label", text: "not judged" }));
    }
    children.push(make("code", { dir: "auto", text: docno }));
    if (passage.score !== undefined) {
      children.push(make("small", { text: `score ${passage.score}` }));
    }
    if (passage.elsewhere) {
      const element = make("small", { class: "elsewhere" });
      otherRanks.push([element, passage.elsewhere]);
      children.push(element);
    }
    if (passage.used) children.push(make("b", { class: "used", text: "used" }));
    const line = children.flatMap((child) => [child, space()]);
    if (rest) {
      const after = make("span", { dir: "auto", text: rest });
      line.push(make("details", {}, [make("summary", { dir: "auto", text: beginning }), space(), after]));
    } else if (beginning) {
      line.push(make("p", { dir: "auto", text: beginning }));
    }
    return make("li", { id: `${id}-${passage.rank}` }, line);
  }

  // The ranks in the other system that is shown: the baseline's list has those in all others.
  function showOtherRanks(turn) {
    for (const system of run() ? [0, run()] : []) {
      const other = system === 0 ? run() : 0;
      for (const [element, ranks] of turn.sides[system].otherRanks) {
        const rank = ranks[other] ? `rank ${ranks[other]}` : "not found";
        element.textContent = `${names[other]}: ${rank}`;
      }
    }
  }

  function callElements(call) {
    const elements = [make("h5", { text: call.name }), make("code", { text: call.stage })];
    for (const [role, text] of call.messages) {
      elements.push(make("h5", { text: role === "user" ? "Prompt" : `Prompt (${role})` }));
      elements.push(make("pre", { tabindex: 0, dir: "auto", text: unpacked.texts[text] }));
    }
    elements.push(make("h5", { text: call.failed ? "Failed" : "Completion" }));
    elements.push(make("pre", { tabindex: 0, dir: "auto", text: unpacked.texts[call.completion] }));
    return elements;
  }

  // --- The comparison: one system beside the baseline, by one measure. ---

  // Differences and intervals of one measure are shown in the table of means.
  function openColumn(name) {
    for (const button of findAll(".means button")) {
      const opened = button.textContent === name;
      button.setAttribute("aria-pressed", opened);
      for (const cell of findAll(`.means .of${button.dataset.column}`)) cell.hidden = !opened;
    }
  }

  function compare() {
    if (measures.length) {
      openColumn(measure().name);
      for (const turn of turns) showScores(turn);
      showDifferences();
    }
    for (const element of findAll(".compared")) element.textContent = names[run()];
    for (const element of findAll(".measured")) element.textContent = measure().name;
    for (const turn of turns) {
      turn.text = undefined;
      if (turn.element.open) drawTurn(turn);
    }
    filter();
  }

  function showScores(turn) {
    const headline = find(".headline", turn.element);
    if (!turn.scores) return;
    const parts = [scorePart(0, score(turn, 0), "value")];
    if (run()) {
      parts.push(scorePart(run(), score(turn, run()), "value"));
      const classes = `difference ${outcome(turn)}`;
      parts.push(make("span", { class: classes, text: signedText(difference(turn)) }));
    }
    headline.replaceChildren(...parts.flatMap((part) => [part, space()]));
  }

  function scorePart(system, number, kind) {
    const name = make("span", { class: "name", text: names[system] });
    const text = make("span", { class: kind, text: scoreText(number) });
    return make("span", { class: "score" }, [name, space(), text]);
  }

  // How many turns are better or worse by how much: 10 bars on each side of the ties.
  function showDifferences() {
    const figure = find("figure");
    if (!figure) return;
    const bars = findAll("#bars i");
    const HALF = 10;
    const gains = turns.map(gain).filter((number) => Math.abs(number) >= SAME);
    const largest = Math.max(...gains.map(Math.abs), 0);
    const unit = largest > SAME ? 10 ** Math.floor(Math.log10(largest) + SAME) : 1;
    const end = Math.max(Math.ceil(largest / unit - SAME), 1) * unit;
    const counts = bars.map(() => 0);
    for (const number of gains) {
      const place = Math.max(1, Math.ceil((Math.abs(number) / end) * HALF - 1e-6));
      counts[HALF + Math.sign(number) * place] += 1;
    }
    const outcomes = turns.map(outcome);
    const [won, tied, lost] = ["win", "tie", "loss"].map(
      (kind) => outcomes.filter((ofTurn) => ofTurn === kind).length,
    );
    // Many ties would dwarf the rest: their bar is cut at twice the highest of the others.
    const highest = Math.max(...counts, 1);
    const scale = Math.max(highest, Math.min(tied, 2 * highest));
    counts[HALF] = tied;
    bars.forEach((bar, place) => {
      bar.style.height = `${Math.min(counts[place] / scale, 1) * 100}%`;
    });
    bars[HALF].className = tied > scale ? "cut" : "";
    find("figcaption").textContent =
      `${measure().name} of ${names[run()]} against ${names[0]}: ` +
      `${won} won, ${tied} tied, ${lost} lost`;
    const [left, middle, right] = findAll(".axis span");
    left.textContent = `worse by ${scoreText(end)}`;
    middle.textContent = `${tied} tied`;
    right.textContent = `better by ${scoreText(end)}`;
    showLargest();
    figure.hidden = false;
  }

  const FEW = 5;

  function showLargest() {
    for (const kind of ["loss", "win"]) {
      const ofKind = turns.filter((turn) => outcome(turn) === kind);
      ofKind.sort((a, b) => Math.abs(gain(b)) - Math.abs(gain(a)) || a.number - b.number);
      const items = ofKind.slice(0, FEW).map((turn) => {
        const { id } = turn.element;
        const name = find("h3 .quiet", turn.element).textContent;
        const text = find("summary .utterance", turn.element)?.textContent ?? "";
        return make("li", {}, [
          make("a", { href: `#${id}`, text: name }),
          space(),
          make("span", { class: "quiet", dir: "auto", text }),
          space(),
          make("b", { class: kind, text: signedText(difference(turn)) }),
        ]);
      });
      const none = make("li", { class: "quiet", text: "none" });
      find(`#largest-${kind}`).replaceChildren(...(items.length ? items : [none]));
    }
  }

  // --- Search, filters and order. ---

  // What can be found in a turn without its passages, prompts and completions.
  function ownText(turn) {
    if (turn.text !== undefined) return turn.text;
    const record = unpacked.turns[turn.number];
    const texts = [record.name, record.utterance, reasonOf(turn)];
    texts.push(...(record.references ?? []).flat(), ...(record.missed ?? []));
    for (const [name, question] of record.rubrics ?? []) texts.push(name, question);
    for (const step of shownSteps(turn)) {
      texts.push(step.title, step.facts, step.utterance, step.response, step.found);
      texts.push(...(step.remarks ?? []));
      for (const note of step.notes ?? []) texts.push(note.label, ...note.texts);
      for (const call of step.calls ?? []) texts.push(call.name, call.stage);
    }
    for (const system of new Set([0, run()])) {
      const side = record.sides[system];
      texts.push(names[system], side?.end, side?.facts);
    }
    turn.text = texts.filter(Boolean).join("\n").toLowerCase();
    return turn.text;
  }

  function shownSteps(turn) {
    const { sides } = unpacked.turns[turn.number];
    return [...new Set([0, run()])].flatMap((system) => sides[system]?.steps ?? []);
  }

  // The numbers of the texts with a word. Each text is in lower case once.
  const lowered = {};
  function numbersWith(kind, word) {
    lowered[kind] ??= unpacked[kind].map((text) => [text].flat().join("\n").toLowerCase());
    const numbers = new Set();
    lowered[kind].forEach((text, number) => {
      if (text.includes(word)) numbers.add(number);
    });
    return numbers;
  }

  // For each word of the search, whether a turn has it.
  function testsOf(words) {
    return words.map((word) => {
      const passages = numbersWith("passages", word);
      const texts = numbersWith("texts", word);
      const ofCall = (call) =>
        texts.has(call.completion) || call.messages.some(([, text]) => texts.has(text));
      const ofStep = (step) =>
        step.passages?.some((passage) => passages.has(passage.text)) || step.calls?.some(ofCall);
      return (turn) => ownText(turn).includes(word) || shownSteps(turn).some(ofStep);
    });
  }

  function filter() {
    const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !unpacked) {
      ready.then(filter);
      return;
    }
    const tests = testsOf(words);
    let left = 0;
    for (const turn of turns) {
      const ofGroup = !value("group") || turn.element.dataset.group === value("group");
      const ofOutcome = !value("outcome") || outcome(turn) === value("outcome");
      const fits = ofGroup && ofOutcome && tests.every((test) => test(turn));
      turn.element.hidden = !fits;
      if (fits) left += 1;
    }
    arrange();
    for (const group of findAll(".group")) group.hidden = !find(".turn:not([hidden])", group);
    find("#none").hidden = left > 0;
    find("#count").textContent = `${left} of ${turns.length}`;
    nameAll();
  }

  function areAllOpen() {
    return turns.every(({ element }) => element.hidden || element.open);
  }

  function nameAll() {
    find("#all").textContent = areAllOpen() ? "Close all" : "Open all";
  }

  function arrange() {
    const sorted = find("#sorted");
    const sign = { gain: -1, loss: 1 }[value("order")];
    sorted.hidden = !sign;
    if (!sign) {
      if (find(".turn", sorted)) for (const turn of turns) turn.home.append(turn.element);
      return;
    }
    const key = (turn) => (outcome(turn) ? sign * gain(turn) : Infinity);
    const ordered = turns.map((turn) => [key(turn), turn]);
    ordered.sort(([a, one], [b, other]) => (a === b ? one.number - other.number : a - b));
    sorted.append(...ordered.map(([, turn]) => turn.element));
  }

  // --- Links lead into what is closed, filtered out or not compared. ---

  async function show(id) {
    const [, number, system] = /^[tp](\d+)(?:-(\d+)-\d+-\d+)?$/.exec(id) ?? [];
    const turn = turns[number - 1];
    if (!turn) return;
    await ready;
    const other = Number(system) && Number(system) !== run();
    if (turn.element.hidden) form.reset();
    if (other) fields.run.value = system;
    if (other || turn.element.hidden) compare();
    turn.element.open = true;
    drawTurn(turn);
    const target = document.getElementById(id);
    if (!target) return;
    for (let inside = target; inside; inside = inside.parentElement.closest("details")) {
      if (inside.tagName === "DETAILS") inside.open = true;
    }
    for (const marked of findAll(".target")) marked.classList.remove("target");
    target.classList.add("target");
    target.scrollIntoView();
  }

  // --- Events. ---

  form.addEventListener("input", (event) => {
    if (["run", "measure"].includes(event.target.name)) compare();
    else filter();
  });
  form.addEventListener("reset", () => setTimeout(compare));
  form.addEventListener("submit", (event) => event.preventDefault());

  // All turns that are left are opened, or closed if all are open.
  find("#all").addEventListener("click", () => {
    const open = !areAllOpen();
    for (const { element } of turns) if (!element.hidden) element.open = open;
  });

  document.addEventListener(
    "toggle",
    (event) => {
      const turn = turns.find(({ element }) => element === event.target);
      if (turn?.element.open) ready.then(() => drawTurn(turn));
      nameAll();
    },
    true, // it doesn't bubble
  );

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".means button");
    if (button) {
      const number = measures.findIndex(({ name }) => name === button.textContent);
      if (number >= 0) fields.measure.value = number;
      compare();
      openColumn(button.textContent);
    }
    const link = event.target.closest('a[href^="#"]');
    if (link) {
      // in a notebook's frame, an address would be one of the notebook
      if (location.protocol === "about:") event.preventDefault();
      show(link.hash.slice(1));
    }
    const opened = event.target.closest(".passages > summary")?.parentElement;
    if (opened) openBesides(opened);
  });

  // The passages of both sides are opened and closed together, so that they can be compared.
  function openBesides(opened) {
    const lists = findAll(".side", opened.closest(".turn")).map((side) => findAll(".passages", side));
    const place = Math.max(...lists.map((ofSide) => ofSide.indexOf(opened)));
    for (const ofSide of lists) {
      if (ofSide[place] && ofSide[place] !== opened) ofSide[place].open = !opened.open;
    }
  }

  addEventListener("hashchange", () => show(location.hash.slice(1)));

  let openedToPrint = [];
  addEventListener("beforeprint", () => {
    unpackNow();
    openedToPrint = turns.filter(({ element }) => !element.hidden && !element.open);
    for (const turn of turns) if (!turn.element.hidden) drawTurn(turn);
    for (const turn of openedToPrint) turn.element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const turn of openedToPrint) turn.element.open = false;
  });

  const ready = unpack().catch((error) => {
    find("#broken").hidden = false;
    throw error;
  });
  form.hidden = false;
  compare();
  show(location.hash.slice(1));
})();
