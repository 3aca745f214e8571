"use strict";

const EXAMPLES = [
  "How can I cook healthy meals during a busy week?",
  "Which day walks suit a family with small children?",
  "What should I know before I adopt a dog?",
];
const one = (query, root = document) => root.querySelector(query);
const words = one("#words"), persona = one("#persona"), selects = [one("#system0"), one("#system1")];
const narrow = matchMedia("(max-width: 860px)");
let models = [], systems = [], turns = [], chat = "", token = stored("token"), asking = null;

// Elements. Texts of users, passages and models become text nodes, never markup, and lose the controls that reorder other text.

const shown = (text) => String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

function make(tag, name, ...content) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...content.filter((part) => part !== null && part !== ""));
  return element;
}

function foreign(tag, name, text) {
  const element = make(tag, name, shown(text));
  element.dir = "auto";
  return element;
}

function button(text, action, label = text, name = "") {
  const made = make("button", name, text);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

function tell(text) { // to a screen reader, which reads it when it has nothing else to say
  one("#news").append(make("p", "", shown(text)));
  if (one("#news").children.length > 8) one("#news").firstChild.remove();
}

// The server.

async function call(path, init = {}) {
  for (;;) {
    const used = token, headers = { ...init.headers, ...(used && { Authorization: `Bearer ${used}` }) };
    const response = await fetch(path, { ...init, headers }).catch((error) => {
      throw init.signal?.aborted ? error : new Error("The server does not answer. Check that it is running, and retry.");
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Error(await reason(response));
    if (used === token) await askToken(used); // else it was entered while this call was under way
  }
}

async function reason(response) {
  return (await response.json().catch(() => null))?.error?.message || `The server refused the request (status ${response.status}).`;
}

function askToken(refused) {
  asking ??= new Promise((done, fail) => {
    const dialog = one("#ask-token"), input = one("#token");
    one("#token-why").textContent = refused ? "The server refused this token." : "The person who started the server has it.";
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue === "use") {
        token = input.value;
        store("token", token);
        done();
      } else fail(new Error("The server asks for a token. Retry to enter it."));
      input.value = "";
    }, { once: true });
  });
  return asking;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true })); // the connection broke
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    yield* parts.filter((part) => part.startsWith("data: {")).map((part) => JSON.parse(part.slice(6)));
  }
}

async function read(answer, response) {
  for await (const chunk of events(response)) {
    const choice = chunk.choices?.[0], facts = chunk.ikat ?? {};
    if (chunk.error) throw new Error(chunk.error.message);
    if (facts.activity) showActivity(answer, facts.activity);
    if ("replaced" in facts) answer.text = ""; // the last chunk says why, where a text was replaced
    if (choice?.delta.content) showPiece(answer, choice.delta.content);
    if (choice?.finish_reason) return Object.assign(answer, { state: "done", citations: chunk.citations, facts });
  }
  throw new Error("The connection ended before the answer was complete. Retry.");
}

// The conversation.

const waiting = () => turns.flatMap((turn) => turn.answers).filter((answer) => answer.state === "waiting");
const statements = () => persona.value.split("\n").map((line) => line.trim()).filter(Boolean);
const model = (id) => models.find((other) => other.id === id);

function history(turn, place) {
  const before = turns.slice(0, turns.indexOf(turn));
  const said = before.flatMap((other) => [["user", other.words], ["assistant", other.answers[place].facts?.response]]);
  return [...said, ["user", turn.words]].filter(([, content]) => content).map(([role, content]) => ({ role, content }));
}

function say(text) {
  if (!turns.length) {
    systems = selects.map((select) => select.value).filter(Boolean);
    chat = `chat-${new Date().toISOString().slice(0, 19).replace(/\D/g, "")}-${crypto.getRandomValues(new Uint32Array(1))[0].toString(16)}`;
  }
  const turn = { words: text, answers: [] };
  turns.push(turn);
  drawTurn(turn);
  systems.forEach((_, place) => ask(turn, place));
  turn.element.scrollIntoView({ block: "start" });
}

async function ask(turn, place, sample = 0) {
  const answer = { system: systems[place], sample, text: "", state: "waiting", abort: new AbortController(), since: Date.now() };
  turn.answers[place] = answer;
  drawWaiting(turn, place);
  refresh();
  try {
    const metadata = { ptkb: statements(), chat_id: chat };
    const body = { model: answer.system, messages: history(turn, place), stream: true, stream_unchecked: true, sample, metadata };
    const headers = { "Content-Type": "application/json" };
    const response = await call("v1/chat/completions", { method: "POST", body: JSON.stringify(body), headers, signal: answer.abort.signal });
    await read(answer, response);
  } catch (error) {
    const problem = answer.abort.signal.aborted ? "Stopped." : error.message;
    Object.assign(answer, { state: "failed", text: "", problem });
  }
  if (turns.includes(turn) && turn.answers[place] === answer) draw(turn, place);
  refresh();
  keep();
}

function edit(turn) {
  if (waiting().length) return;
  const field = make("textarea", ""), utterance = one(".utterance", turn.element);
  const leave = () => {
    box.replaceWith(utterance);
    one("button", turn.element).focus();
  };
  const again = () => {
    const text = field.value.trim();
    if (!text) return;
    drop(turns.indexOf(turn));
    say(text);
  };
  const row = make("div", "row", button("Ask this", again, "Ask this", "main"), button("Cancel", leave));
  const box = make("div", "", field, row, make("p", "quiet", "The turns from here on are dropped."));
  field.setAttribute("aria-label", "The question");
  field.value = turn.words;
  onEnter(field, again);
  utterance.replaceWith(box);
  field.focus();
}

function drop(from) {
  for (const { answers, element } of turns.splice(from)) {
    for (const answer of answers) answer.abort?.abort();
    element.remove();
  }
}

const stop = () => waiting().forEach((answer) => answer.abort.abort());

// The schema of iKAT 2023 and 2024, as `ikat chat --out` writes it.
function topics(place) {
  const said = turns.map(({ words: utterance, answers }, at) => {
    const { facts, citations = [] } = answers[place], response = facts?.response ?? "";
    return { turn_id: at + 1, utterance, response, response_provenance: response ? citations.map(({ id }) => id) : [] };
  });
  return [{ number: chat, title: "", ptkb: Object.fromEntries(statements().map((text, at) => [at + 1, text])), turns: said }];
}

function save(place) {
  const link = make("a", ""), file = new Blob([JSON.stringify(topics(place), null, 1)], { type: "application/json" });
  link.href = URL.createObjectURL(file);
  link.download = `${chat}-${systems[place].replace(/[^\w.-]+/g, "_")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  tell(`${link.download} is saved.`);
}

async function copy({ text, citations }) {
  const sources = citations.map(({ id, text: whole }, at) => `[${at + 1}] ${id}${whole ? `: ${whole}` : ""}`);
  const whole = [text, ...(sources.length ? [sources.join("\n")] : [])].join("\n\n");
  try {
    await navigator.clipboard.writeText(whole);
    tell("The answer is copied with its sources.");
  } catch {
    complain("This browser copies only from pages with HTTPS or of this machine.");
  }
}

// What outlives a reload: the tab keeps it.

function stored(name) {
  try { return sessionStorage.getItem(`ikat-${name}`) ?? ""; } catch { return ""; } // a browser may forbid it
}

function store(name, value) {
  try { sessionStorage.setItem(`ikat-${name}`, value); return true; } catch { return false; }
}

function keep() {
  const plain = ({ system, sample, text, state, citations, facts, problem }) =>
    state === "waiting" ? { system, text: "", state: "failed", problem: "The page was reloaded meanwhile." }
      : { system, sample, text, state, citations, facts, problem };
  const said = turns.map((turn) => ({ words: turn.words, answers: turn.answers.map(plain) }));
  const full = "This browser does not keep the conversation: a reload deletes it, so export it.";
  if (!store("talk", JSON.stringify({ systems, chat, persona: persona.value, turns: said }))) one("#kept").textContent = full;
}

function restore() {
  try {
    const found = JSON.parse(stored("talk"));
    if (!found.systems.every(model)) return;
    ({ systems, chat } = found);
    persona.value = found.persona ?? "";
    selects.forEach((select, place) => { select.value = systems[place] ?? ""; });
    for (const turn of found.turns) {
      turns.push(turn);
      drawTurn(turn);
      turn.answers.forEach((_, place) => draw(turn, place));
    }
  } catch { // nothing is kept, or not what this page has kept
    turns = [];
    one("#turns").replaceChildren();
  }
}

// What is shown.

const sideOf = (turn, place) => one(".sides", turn.element).children[place];
const fill = (side, ...content) => side.replaceChildren(side.firstChild, ...content.filter(Boolean));

function drawTurn(turn) {
  const at = turns.indexOf(turn) + 1, sides = systems.map((id, place) => {
    const side = make("div", `side s${place}`, make("h3", "swatch", shown(id)));
    side.role = "group";
    side.setAttribute("aria-label", `${id}, turn ${at}`);
    return side;
  });
  const head = make("div", "head", make("h2", "", `Turn ${at}`), button("Edit", () => edit(turn), `Edit turn ${at}`));
  turn.element = make("article", "turn", head, foreign("p", "utterance", turn.words), make("div", "sides", ...sides));
  one("#turns").append(turn.element);
}

function drawWaiting(turn, place) {
  const answer = turn.answers[place];
  answer.side = sideOf(turn, place);
  const passed = () => `${Math.round((Date.now() - answer.since) / 1000)} s`;
  const clock = make("span", "clock");
  fill(answer.side, make("p", "activity", make("span", "stage", "waiting"), " ", clock));
  const timer = setInterval(() => answer.state === "waiting" ? clock.textContent = passed() : clearInterval(timer), 1000);
}

function showActivity({ side, system }, step) {
  if (one(".stage", side).textContent !== step) tell(`${system}: ${step}`);
  one(".stage", side).textContent = shown(step);
}

function showPiece(answer, piece) {
  answer.text += piece;
  if (!one(".answer", answer.side)) answer.side.append(foreign("div", "answer writing", ""));
  one(".answer", answer.side).textContent = shown(answer.text);
}

function draw(turn, place) {
  const answer = turn.answers[place], { system, facts, citations, problem, sample = 0 } = answer, side = sideOf(turn, place);
  const again = (text) => button(text, () => ask(turn, place, sample + (text === "Ask again")), `${text}: ${system}`, "retry");
  if (answer.state === "failed") {
    fill(side, foreign("p", "problem", problem), make("div", "row", again("Retry")));
    return tell(`${system}: ${problem}`);
  }
  const passages = citations.length ? drawPassages(citations) : null;
  const copied = facts.response && button("Copy", () => copy(answer), `Copy the answer of ${system} with its sources`);
  fill(
    side, drawAnswer(answer, passages), changed(facts), ...doubts(facts),
    passages, drawSteps(facts), make("p", "figures", figures(facts)), make("div", "row", copied, again("Ask again")),
  );
  return tell(`${system}: ${facts.response || noResponse(answer)} ${counted(citations.length, "passage")}.`);
}

function noResponse({ system, citations }) {
  if (!citations.length) return "No passage was found.";
  if (model(system)?.writes_response) return "The response is empty.";
  return "This system writes no response. It found these passages.";
}

function changed({ replaced, shortened }) {
  if (shortened) return make("p", "figures", `The answer is shortened to ${counted(shortened, "word")}.`);
  return replaced && make("p", "figures", `Replaced: ${shown(replaced)}.`);
}

function drawAnswer(answer, passages) {
  const { facts } = answer;
  if (!facts.response) return make("p", "none", noResponse(answer));
  const box = foreign("div", "answer", "");
  box.innerHTML = facts.html; // Markdown that the server has drawn: it lets no HTML of a model through
  for (const link of box.querySelectorAll("a")) Object.assign(link, { target: "_blank", rel: "noreferrer" });
  for (const cite of box.querySelectorAll(".cite")) {
    const number = Number(cite.textContent.slice(1, -1));
    cite.setAttribute("aria-label", `Passage ${number}`);
    cite.addEventListener("click", () => openPassage(one(`li:nth-child(${number})`, passages)));
  }
  return box;
}

function doubts({ unknown, cites_none: none }) {
  const said = [none && "The answer cites none of the passages that it was shown.", unknown.length && `No passage has the number ${unknown.join(", ")}.`];
  return said.filter(Boolean).map((text) => make("p", "problem", text));
}

function drawPassages(citations) {
  const list = make("ol", "", ...citations.map(drawPassage));
  list.setAttribute("aria-label", "Passages");
  return make("div", "passages", make("p", "labels", make("span", ""), make("span", "", "Sources"), make("span", "score", "score")), list);
}

function drawPassage({ id, title, text, score }, at) {
  const number = typeof score === "number" ? score.toFixed(2) : "";
  const summary = make("summary", "", make("span", "", `[${at + 1}]`), foreign("span", "start", title), make("span", "score", number));
  if (title !== id) summary.append(make("code", "", shown(id)));
  return make("li", "", make("details", "", summary, foreign("p", "whole", text || "The index has no text of this passage.")));
}

function openPassage(passage) {
  one(".target", passage.parentElement)?.classList.remove("target");
  passage.classList.add("target");
  one("details", passage).open = true;
  one("summary", passage).focus({ preventScroll: true });
  passage.scrollIntoView({ block: "nearest" });
}

function drawSteps({ rewrite, queries, statements: used, draft }) {
  const list = (texts) => make("ul", "", ...texts.map((text) => foreign("li", "", text === draft ? "the draft answer" : text)));
  const same = queries.length === 1 && queries[0] === rewrite;
  const found = [
    rewrite && [same ? "Rewrite, the only query" : "Rewrite", foreign("p", "", rewrite)],
    queries.length && !same && [queries.length === 1 ? "Query" : `${queries.length} queries`, list(queries)],
    used.length && [`${counted(used.length, "statement")} about you`, list(used)],
    draft && ["Draft answer", foreign("p", "draft", draft)],
  ].filter(Boolean);
  if (!found.length) return null;
  return make("details", "steps", make("summary", "", "How it searched"), ...found.flatMap(([title, content]) => [make("h4", "", title), content]));
}

function figures({ seconds, calls, known, tokens, cost, omitted }) {
  const price = cost === null ? "cost unknown" : `$${cost >= 0.01 || !cost ? cost.toFixed(2) : cost.toPrecision(2)}`;
  return [
    `${seconds.toFixed(1)} s`,
    counted(calls, "LLM call"),
    known ? counted(known, "known completion") : "",
    tokens ? counted(tokens, "token") : "",
    calls ? price : "",
    omitted ? `without the oldest ${counted(omitted, "message")} of the history` : "",
  ].filter(Boolean).join(" · ");
}

function refresh() {
  const busy = waiting().length > 0, begun = turns.length > 0;
  one("#send").disabled = busy || !selects[0].value;
  one("#stop").hidden = !busy;
  one("#fresh").disabled = !begun;
  one("#choice").disabled = persona.readOnly = begun;
  one("#fixed").hidden = !begun;
  one("#empty").hidden = begun;
  one("#exports").replaceChildren(...(begun && !busy ? systems : []).map((id, place) => button(`Export with answers of ${id}`, () => save(place))));
  selects.forEach((select, place) => { one(`#about${place}`).textContent = shown(model(select.value)?.about ?? ""); });
  const offered = model(selects[0].value)?.examples ?? [];
  one("#examples").replaceChildren(...(offered.length ? offered : EXAMPLES).map((text) => button(text, () => send(text))));
}

// The start, keys and buttons.

function send(text) {
  if (!text || !selects[0].value || waiting().length) return;
  if (narrow.matches) one("#setup > details").open = false;
  say(text);
}

function onEnter(field, action) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    action();
  });
}

function sendWords(event) {
  event?.preventDefault();
  if (waiting().length) return tell("The systems are still answering. Escape stops them.");
  const text = words.value.trim();
  if (text && selects[0].value) words.value = "";
  return send(text);
}

function foldSetup() { // in a wide window nothing could unfold it again
  one("#setup > details").open = !narrow.matches;
}

function complain(text) {
  one("#problem .problem").textContent = text;
  one("#problem").hidden = false;
}

async function load() {
  one("#problem").hidden = true;
  try {
    models = (await (await call("v1/models")).json()).data;
  } catch (error) {
    return complain(error.message);
  }
  const option = (id, text) => Object.assign(make("option", "", shown(text)), { value: id });
  const options = () => models.map(({ id, writes_response: writes }) => option(id, writes ? id : `${id} (passages only)`));
  selects[0].replaceChildren(...options());
  selects[1].replaceChildren(option("", "no other system"), ...options());
  restore();
  return refresh();
}

one("#composer").addEventListener("submit", sendWords);
onEnter(words, sendWords);
document.addEventListener("keydown", (event) => event.key === "Escape" && !one("dialog[open]") && stop());
for (const select of selects) select.addEventListener("change", refresh);
persona.addEventListener("input", keep);
one("#stop").addEventListener("click", stop);
one("#again").addEventListener("click", load);
one("#fresh").addEventListener("click", () => {
  drop(0);
  keep();
  refresh();
  words.focus();
});
narrow.addEventListener("change", foldSetup);
foldSetup();
load();
